"""Covariance functions, combined with `+`, `*` and by scaling: `2.0 * RBF() + Linear()`."""

from sitewise.kernels.additive import Additive
from sitewise.kernels.base import Kernel, Product, Scaled, Sum
from sitewise.kernels.cosine import Cosine
from sitewise.kernels.linear import Constant, Linear
from sitewise.kernels.shrunk import Shrunk
from sitewise.kernels.stationary import (
    RBF,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    Stationary,
)

__all__ = [
    "RBF",
    "Additive",
    "Constant",
    "Cosine",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Shrunk",
    "Stationary",
    "Sum",
]
