"""A fitted latent function, whatever the estimator."""
