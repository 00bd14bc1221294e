"""Markov priors of time series."""
