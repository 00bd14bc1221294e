"""What a fitted model says: effects, importance, terms, lengthscales, calibration, displays."""
