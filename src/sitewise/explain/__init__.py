"""Explanations of fitted models: effects, importance, terms, lengthscales, calibration, displays."""
