"""Factorisations, Gaussian conditioning, quadrature and special functions.  Nothing here depends on a model."""
