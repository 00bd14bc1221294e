"""Dense matrices: factorisations, triangular products, Gaussian conditioning."""
