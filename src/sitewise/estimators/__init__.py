"""scikit-learn estimators: GPClassifier, GPRegressor and GPOrdinal, with diagnostics and model files without code."""

from sitewise.estimators.encoder import TableEncoder
from sitewise.estimators.gp_classifier import GPClassifier
from sitewise.estimators.gp_ordinal import GPOrdinal
from sitewise.estimators.gp_regressor import GPRegressor
from sitewise.estimators.model_file import ModelFileError
from sitewise.estimators.point_grid import GridCells, gridded_points
from sitewise.estimators.saving import load, save
from sitewise.explain.calibration import Calibration, calibration, decide, plot_cost, plot_loo
from sitewise.explain.decomposition import Shares, Terms, predict_terms, term_shares
from sitewise.explain.effect_display import EffectDisplay
from sitewise.explain.effects import Effect, effect
from sitewise.explain.importance import Importance, importance
from sitewise.explain.interactions import Interaction, interaction
from sitewise.explain.lengthscales import Lengthscale, lengthscales
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
    "effect",
    "gridded_points",
    "importance",
    "interaction",
    "lengthscales",
    "load",
    "piecewise_exponential",
    "plot_cost",
    "plot_loo",
    "predict_terms",
    "save",
    "survival_curve",
    "term_shares",
]
