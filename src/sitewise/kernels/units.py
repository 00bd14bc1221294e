"""Units of kernel parameters: which of them are measured in the units of the inputs."""

from __future__ import annotations

import numpy as np

from sitewise.kernels.additive import Additive
from sitewise.kernels.base import Kernel, inner_names
from sitewise.kernels.cosine import Cosine
from sitewise.kernels.linear import Linear
from sitewise.kernels.normal_scores import NormalScores
from sitewise.kernels.pairwise import Pairwise
from sitewise.kernels.shrunk import Shrunk
from sitewise.kernels.slopes import Slopes
from sitewise.kernels.stationary import Periodic, Stationary

Units = dict[str, tuple[np.ndarray, np.ndarray]]  # name of a parameter → smallest and largest unit of each entry


def input_units(kernel: Kernel, ranges: np.ndarray, path: str = "kernel") -> Units:
    """Return the units of the parameters that depend on the units of the inputs, by name.

    `ranges` has max − min of every column.  Lengthscales and periods have the unit of their column, and the variance of
    a linear kernel its inverse square.  A parameter that several columns share has the smallest and the largest of
    their units.  The base of `Shrunk`, `Additive` and `NormalScores` has no unit: these kernels scale the columns.
    """
    if kernel.active_dims is not None:
        ranges = ranges[list(kernel.active_dims)]
    if isinstance(kernel, Shrunk | Additive | NormalScores) or not len(ranges):
        return {}
    if isinstance(kernel, Pairwise):
        ranges = np.maximum(*np.split(ranges, 2))
    if isinstance(kernel, Slopes):
        ranges = ranges[:-1]
    if isinstance(kernel, Stationary):
        return {f"{path}.lengthscale": _of_entries(kernel.lengthscale, ranges)}
    if isinstance(kernel, Periodic | Cosine):
        return {f"{path}.period": _of_entries(kernel.period, ranges)}
    if isinstance(kernel, Linear):
        return {f"{path}.variance": _of_entries(kernel.variance, ranges**-2.0)}
    found: Units = {}
    for name, part in inner_names(kernel):
        found |= input_units(part, ranges, f"{path}.{name}")
    return found


def _of_entries(value: object, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (units, units) if np.ndim(value) else (np.min(units), np.max(units))  # type: ignore[arg-type]
