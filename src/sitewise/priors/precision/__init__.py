"""Priors with a sparse precision: sums of maps, groups, areas, trends and regressors."""
