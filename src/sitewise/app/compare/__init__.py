"""Compare models on one table by cross-validation: folds, scores, paired tests, conclusions in words."""
