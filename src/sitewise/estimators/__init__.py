"""scikit-learn estimators: GPClassifier, GPRegressor and GPOrdinal, with diagnostics and model files without code."""

from sitewise.estimators.encoder import TableEncoder
from sitewise.estimators.gp_classifier import GPClassifier
from sitewise.estimators.gp_ordinal import GPOrdinal
from sitewise.estimators.gp_regressor import GPRegressor
from sitewise.estimators.model_file import ModelFileError
from sitewise.estimators.point_grid import GridCells, gridded_points
from sitewise.estimators.saving import load, save
from sitewise.explain.calibration import Calibration, calibration, decide, plot_cost, plot_loo
from sitewise.explain.decomposition import Shares, Terms
from sitewise.explain.effect_display import EffectDisplay
from sitewise.explain.effects import Effect, Interaction
from sitewise.explain.importance import Importance
from sitewise.explain.lengthscales import Lengthscale
from sitewise.explain.reliability_display import ReliabilityDisplay
from sitewise.explain.surface_display import SurfaceDisplay
from sitewise.explain.survival import PieceRows, SurvivalCurve, piecewise_exponential, survival_curve

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
