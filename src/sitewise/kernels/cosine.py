"""Cosine kernel: an undamped oscillation, or a damped oscillation when multiplied by a Matérn kernel."""

from __future__ import annotations

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.checks import one_number, one_per_column
from sitewise.kernels.base import Kernel
from sitewise.types import ArrayField, module, positive


@module
class Cosine(Kernel):
    """Cosine kernel for an undamped oscillation, variance · cos(2π Σ_k (x_k − x'_k)/p_k).

    Multiplied by a Matérn kernel, it describes a damped oscillation.

    Parameters
    ----------
    period : float or array of shape (n_columns,), default=1.0
        The period p, in the units of x; learned.
    variance : float, default=1.0
        The variance of f; learned.
    """

    period: ArrayField = positive(default=1.0)
    variance: ArrayField = positive(default=1.0)

    def check(self, columns: int) -> None:
        super().check(columns)
        one_per_column(self, self.seen(columns), "period")
        one_number(self, "variance")

    def pairs(self, A: Array, B: Array) -> Array:
        """Return the matrix by cos(u − u') = cos u cos u' + sin u sin u'."""
        xp = namespace(A, B)
        u, v = ((2 * np.pi * X / self.period).sum(axis=1) for X in (A, B))
        return self.variance * (xp.outer(xp.cos(u), xp.cos(v)) + xp.outer(xp.sin(u), xp.sin(v)))

    def diag(self, A: Array) -> Array:
        return self.variance * namespace(A).ones(A.shape[0], A.dtype)
