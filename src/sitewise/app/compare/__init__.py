"""Compare models on one table: folds, scores, paired tests, conclusions."""
