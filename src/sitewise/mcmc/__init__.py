"""The gold standard: samples of the latent function and of hyperparameters, and log Z with an error bar."""
