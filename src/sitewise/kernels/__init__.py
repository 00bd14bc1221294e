"""Kernels (covariance functions), combined by `+`, `*` and scaling: `2.0 * RBF() + Linear()`."""

from sitewise.kernels.additive import Additive
from sitewise.kernels.base import Kernel, Product, Scaled, Sum
from sitewise.kernels.centred import Centred
from sitewise.kernels.cosine import Cosine
from sitewise.kernels.index import Index
from sitewise.kernels.laplacian import Laplacian
from sitewise.kernels.linear import Constant, Linear
from sitewise.kernels.normal_scores import NormalScores
from sitewise.kernels.pairwise import Pairwise
from sitewise.kernels.shrunk import Shrunk
from sitewise.kernels.slopes import Slopes
from sitewise.kernels.stationary import (
    RBF,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    Stationary,
)
from sitewise.kernels.terms import Term, terms

__all__ = [
    "RBF",
    "Additive",
    "Centred",
    "Constant",
    "Cosine",
    "Index",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "NormalScores",
    "Pairwise",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Shrunk",
    "Slopes",
    "Stationary",
    "Sum",
    "Term",
    "terms",
]
