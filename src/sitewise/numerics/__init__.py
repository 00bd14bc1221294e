"""Matrix factorisations, Gaussian conditioning, quadrature and special functions, independent of any model."""
