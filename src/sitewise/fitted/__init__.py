"""Fitted latent functions: by Gaussian sites, averaged over hyperparameters, or by MCMC draws."""
