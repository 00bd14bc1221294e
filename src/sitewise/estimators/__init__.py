"""scikit-learn estimators: GPClassifier, GPRegressor and GPOrdinal, with diagnostics and model files without code."""

from sitewise.estimators.encoder import TableEncoder
from sitewise.estimators.gp_classifier import GPClassifier
from sitewise.estimators.gp_ordinal import GPOrdinal
from sitewise.estimators.gp_regressor import GPRegressor
from sitewise.estimators.model_file import ModelFileError
from sitewise.estimators.point_grid import GridCells, gridded_points
from sitewise.explain.calibration import Calibration, calibration, decide, plot_cost, plot_loo
from sitewise.explain.decomposition import Shares, Terms, predict_terms, term_shares
from sitewise.explain.effect_display import EffectDisplay
from sitewise.explain.effects import Effect, effect
from sitewise.explain.forecast_display import ForecastDisplay
from sitewise.explain.forecasts import Forecast, forecast
from sitewise.explain.importance import Importance, importance
from sitewise.explain.interactions import Interaction, interaction
from sitewise.explain.lengthscales import Lengthscale, lengthscales
from sitewise.explain.map_display import MapDisplay
from sitewise.explain.reliability_display import ReliabilityDisplay
from sitewise.explain.surface_display import SurfaceDisplay
from sitewise.explain.survival import PieceRows, SurvivalCurve, piecewise_exponential, survival_curve
from sitewise.explain.term_effects import TermEffect, term_effects
from sitewise.explain.terms_display import TermsDisplay

__all__ = [
    "Calibration",
    "Effect",
    "EffectDisplay",
    "Forecast",
    "ForecastDisplay",
    "GPClassifier",
    "GPOrdinal",
    "GPRegressor",
    "GridCells",
    "Importance",
    "Interaction",
    "Lengthscale",
    "MapDisplay",
    "ModelFileError",
    "PieceRows",
    "ReliabilityDisplay",
    "Shares",
    "SurfaceDisplay",
    "SurvivalCurve",
    "TableEncoder",
    "TermEffect",
    "Terms",
    "TermsDisplay",
    "calibration",
    "decide",
    "effect",
    "forecast",
    "gridded_points",
    "importance",
    "interaction",
    "lengthscales",
    "piecewise_exponential",
    "plot_cost",
    "plot_loo",
    "predict_terms",
    "survival_curve",
    "term_effects",
    "term_shares",
]
