"""Markov chains in time: filter, smoother, products with the covariance, draws, derivatives."""
