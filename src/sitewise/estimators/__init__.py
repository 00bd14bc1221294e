"""scikit-learn estimators: GPClassifier and GPRegressor, with diagnostics and safe files."""

from sitewise.estimators.calibration import (
    Calibration,
    calibration,
    decide,
    plot_cost,
    plot_loo,
    plot_reliability,
)
from sitewise.estimators.classifier import GPClassifier
from sitewise.estimators.loading import load
from sitewise.estimators.persistence import ModelFileError
from sitewise.estimators.regressor import GPRegressor

__all__ = [
    "Calibration",
    "GPClassifier",
    "GPRegressor",
    "ModelFileError",
    "calibration",
    "decide",
    "load",
    "plot_cost",
    "plot_loo",
    "plot_reliability",
]
