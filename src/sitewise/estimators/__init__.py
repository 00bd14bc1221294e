"""scikit-learn estimators: GPClassifier and GPRegressor, with diagnostics and safe files."""

from sitewise.estimators.classifier import GPClassifier
from sitewise.estimators.regressor import GPRegressor

__all__ = ["GPClassifier", "GPRegressor"]
