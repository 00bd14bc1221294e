"""scikit-learn estimators: GPClassifier and GPRegressor, with diagnostics and safe files."""

from sitewise.estimators.calibration import Calibration, calibration, decide, plot_cost, plot_loo
from sitewise.estimators.classifier import GPClassifier
from sitewise.estimators.effect_display import EffectDisplay
from sitewise.estimators.effects import Effect, Interaction
from sitewise.estimators.importance import Importance
from sitewise.estimators.lengthscales import Lengthscale
from sitewise.estimators.loading import load, save
from sitewise.estimators.ordinal import GPOrdinal
from sitewise.estimators.persistence import ModelFileError
from sitewise.estimators.point_grid import GridCells, gridded_points
from sitewise.estimators.regressor import GPRegressor
from sitewise.estimators.reliability_display import ReliabilityDisplay
from sitewise.estimators.surface_display import SurfaceDisplay
from sitewise.estimators.survival import PieceRows, SurvivalCurve, piecewise_exponential, survival_curve
from sitewise.estimators.table_encoder import TableEncoder
from sitewise.estimators.terms import Shares, Terms

__all__ = [
    "Calibration",
    "Effect",
    "EffectDisplay",
    "GPClassifier",
    "GPOrdinal",
    "GPRegressor",
    "GridCells",
    "Importance",
    "Interaction",
    "Lengthscale",
    "ModelFileError",
    "PieceRows",
    "ReliabilityDisplay",
    "Shares",
    "SurfaceDisplay",
    "SurvivalCurve",
    "TableEncoder",
    "Terms",
    "calibration",
    "decide",
    "gridded_points",
    "load",
    "piecewise_exponential",
    "plot_cost",
    "plot_loo",
    "save",
    "survival_curve",
]
