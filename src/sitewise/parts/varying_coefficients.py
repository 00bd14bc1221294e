"""Correlated coefficients per group (random intercepts and slopes): one small covariance matrix for all levels.

A row of level g with the covariates w = (1, z_1, …) has the effect wᵀ b_g, with b_g ~ N(0, B) per level and
B = L diag(variance) Lᵀ, where L is lower triangular with ones on the diagonal and `coupling` below it, row by row.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.numerics.dense.triangular import lower_inverse
from sitewise.parts.base import Columns, Layout, Loads, Part
from sitewise.types import ArrayField, module, positive, real, replace, static


@module
class VaryingCoefficients(Part):
    """Random intercepts and slopes of groups that are correlated with each other (mixed model).

    Parameters
    ----------
    columns : int or str, default=()
        The column whose values are the levels.
    slopes : int, str or tuple, default=()
        The columns whose coefficients vary by level.
    intercept : bool, default=True
        Whether there is an intercept per level, before the slopes.
    variance : array of shape (n_coefficients,), default=None
        The variance of every coefficient given the coefficients before it; None is 1 for each; learned.
    coupling : array, default=None
        The regression of every coefficient on the coefficients before it, n (n − 1)/2 numbers row by row; None is 0 for
        each; learned.
    """

    slopes: Columns = static(default=())
    intercept: bool = static(default=True)
    variance: ArrayField = positive(default=None)
    coupling: ArrayField = real(default=None)

    further: ClassVar[str] = "slopes"

    def __post_init__(self) -> None:
        slopes: Any = self.slopes if isinstance(self.slopes, tuple | list) else (self.slopes,)
        object.__setattr__(self, "slopes", tuple(slopes))
        count = self.count
        if self.variance is None:
            object.__setattr__(self, "variance", np.ones(count))
        if self.coupling is None:
            object.__setattr__(self, "coupling", np.zeros(count * (count - 1) // 2))
        super().__post_init__()

    @property
    def count(self) -> int:
        """The number of coefficients per level."""
        return int(self.intercept) + len(self.slopes)  # type: ignore[arg-type]

    def level_dims(self, columns: int) -> tuple[int, ...]:
        return (0,)

    def linear_dims(self, columns: int) -> tuple[int, ...]:
        return () if self.intercept else tuple(range(1, columns))

    def check(self, columns: int) -> None:
        if len(self.columns) != 1 or self.count < 1:  # type: ignore[arg-type]
            raise ValueError(
                "VaryingCoefficients needs the columns of the levels and of the slopes, as in "
                "VaryingCoefficients(2, slopes=(0, 1))."
            )
        super().check(columns)
        shapes, pairs = (np.shape(self.variance), np.shape(self.coupling)), self.count * (self.count - 1) // 2
        if shapes != ((self.count,), (pairs,)):
            raise ValueError(
                f"VaryingCoefficients: variance must have {self.count} numbers and coupling {pairs}; got the shapes "
                f"{shapes[0]} and {shapes[1]}."
            )

    def lower(self) -> Array:
        """Return the factor L of B = L diag(variance) Lᵀ."""
        xp, n = namespace(self.variance, self.coupling), self.count
        place = np.zeros((n, n), int)
        place[np.tril_indices(n, -1)] = np.arange(1, n * (n - 1) // 2 + 1)
        entries = xp.concatenate([xp.zeros(1), self.coupling])
        return xp.eye(n) + entries[place]

    def covariance(self) -> Array:
        """Return the covariance matrix B of the coefficients of a level."""
        L = self.lower()
        return (L * self.variance) @ L.T

    def covariates(self, A: Array) -> Array:
        """Return the covariates w = (1, z_1, …) per row."""
        xp = namespace(A)
        return xp.concatenate([xp.ones_like(A[:, :1]), A[:, 1:]], axis=1) if self.intercept else A[:, 1:]

    def pairs(self, A: Array, B: Array) -> Array:
        return (A[:, :1] == B[:, 0]) * (self.covariates(A) @ self.covariance() @ self.covariates(B).T)

    def diag(self, A: Array) -> Array:
        w = self.covariates(A)
        return ((w @ self.covariance()) * w).sum(axis=1)

    def is_effect_per_row(self, A: np.ndarray, weight: np.ndarray) -> bool:
        return self.intercept and bool(np.all(weight <= 1)) and len(np.unique(A[:, 0])) == len(A)

    def layout(self, A: np.ndarray) -> Layout:
        return VaryingLayout(self, A)


class VaryingLayout(Layout):
    """The coefficients per level: blocks R = B⁻¹ = Uᵀ diag(1/variance) U, U = L⁻¹."""

    def __init__(self, part: VaryingCoefficients, A: np.ndarray) -> None:
        self.levels, place = np.unique(A[:, 0], return_inverse=True)
        each, count = part.count, len(self.levels)
        self.each, self.size = each, each * count
        self.index = place.reshape(-1, 1) * each + np.arange(each)
        self.weight = np.asarray(part.covariates(A))
        self.low = np.tril_indices(each)
        base = np.arange(count)[:, None] * each
        self.i, self.j = ((base + k).ravel() for k in self.low)

    def precision(self, part: VaryingCoefficients) -> tuple[np.ndarray, float]:
        U, count = lower_inverse(part.lower()), len(self.levels)
        R = U.T @ (U / part.variance[:, None])
        return np.tile(R[self.low], count), -count * float(np.sum(np.log(part.variance)))

    def pull(self, part: VaryingCoefficients, bar: np.ndarray, log_det: float) -> VaryingCoefficients:
        U, var = lower_inverse(part.lower()), part.variance
        R_bar = np.zeros((self.each, self.each))
        R_bar[self.low] = np.sum(bar.reshape(len(self.levels), -1), axis=0)
        by_variance = -np.sum((U @ R_bar) * U, axis=1) / var**2 - log_det * len(self.levels) / var
        by_U = (U @ (R_bar + R_bar.T)) / var[:, None]
        by_L = -U.T @ by_U @ U.T
        return replace(part, variance=by_variance, coupling=by_L[np.tril_indices(self.each, -1)])

    def loads(self, part: VaryingCoefficients, A: np.ndarray) -> Loads:
        place = np.clip(np.searchsorted(self.levels, A[:, 0]), 0, len(self.levels) - 1)
        old = self.levels[place] == A[:, 0]
        weight = np.asarray(part.covariates(A)) * old[:, None]
        return Loads(place[:, None] * self.each + np.arange(self.each), weight, np.where(old, 0.0, part.diag(A)))

    def residuals(self, part: VaryingCoefficients, A: np.ndarray) -> np.ndarray:
        new = ~np.isin(A[:, 0], self.levels)
        return np.asarray(part.pairs(A, A)) * new[:, None] * new
