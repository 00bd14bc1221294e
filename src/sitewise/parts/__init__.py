"""Parts of a latent function with a sparse precision, for `Model.latent`: maps, groups, areas, trends, regressors."""

from sitewise.parts.areas import Area, Graph
from sitewise.parts.base import Part
from sitewise.parts.calendar_seasons import seasons
from sitewise.parts.chains import Series
from sitewise.parts.grouped import Levels
from sitewise.parts.places import Map
from sitewise.parts.products import Product
from sitewise.parts.regressors import Constant, Linear, Season
from sitewise.parts.splines import Spline, SplineLevels, Tensor
from sitewise.parts.varying_coefficients import VaryingCoefficients

__all__ = [
    "Area",
    "Constant",
    "Graph",
    "Levels",
    "Linear",
    "Map",
    "Part",
    "Product",
    "Season",
    "Series",
    "Spline",
    "SplineLevels",
    "Tensor",
    "VaryingCoefficients",
    "seasons",
]
