"""Factorisations, Gaussian conditioning, quadrature and special functions.  Knows nothing of models."""
