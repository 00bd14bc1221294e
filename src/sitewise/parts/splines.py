"""Smooth functions of one or two columns as penalised cubic splines (smoothing splines, additive models).

One column:  f(x) = a t + Σ_k w_k φ_k(x),   a ~ N(0, slope_variance),  w_k ~ N(0, variance)

with t the standardised column and φ_k the natural cubic splines of `numerics.dense.cubic_splines`: log p(w) is the
roughness penalty ∫f″², so that the posterior mean is the smoothing spline, exactly if every distinct value is a knot.
The straight line has a wide prior of its own.

Two columns: products of (1, t, φ) of either column (tensor product; Wood, Scheipl & Faraway 2013), with one variance
for the curves along the first column, one for those along the second, and one for products of curves.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.checks import at_least, one_number
from sitewise.numerics.dense.cubic_splines import SplineBasis
from sitewise.parts.base import Layout, Loads, Part
from sitewise.parts.regressors import DenseLayout
from sitewise.types import ArrayField, module, positive, replace, static

MIN_VALUES = 4  # distinct values of a column
WIDE_VARIANCE = 100.0  # of the coefficient of a straight line, per standard deviation of the column
Knots = tuple[float, ...]


@functools.lru_cache(maxsize=64)
def _basis(knots: Knots) -> SplineBasis:
    return SplineBasis.of(np.array(knots))


def knots_at(values: np.ndarray, count: int) -> Knots:
    """Return knots at quantiles of the distinct values, or at all of them if they are at most `count`."""
    distinct = np.unique(values)
    if len(distinct) < MIN_VALUES:
        raise ValueError(
            f"A spline needs a column of at least {MIN_VALUES} distinct values, and there are {len(distinct)}; use a "
            "linear effect, or levels."
        )
    if len(distinct) > count:
        distinct = np.unique(np.quantile(distinct, np.linspace(0, 1, count)))
    return tuple(map(float, distinct))


def _curves(x: Array, knots: Knots) -> tuple[Array, Array]:
    """Return the standardised column t, (n, 1), and the curves φ, (n, K − 2)."""
    u = np.array(knots)
    return ((x - np.mean(u)) / np.std(u))[:, None], _basis(knots).at(x)


class _Smooth(Part):
    """Base of splines: variables of different variances on which all rows load."""

    def columns_of(self, A: Array) -> Array:
        raise NotImplementedError

    def variances_of(self, size: int) -> tuple[np.ndarray, Any]:
        raise NotImplementedError

    def _variances(self, size: int) -> Array:
        raise NotImplementedError

    def pairs(self, A: Array, B: Array) -> Array:
        left, right = self.columns_of(A), self.columns_of(B)
        return (left * self._variances(left.shape[1])) @ right.T

    def diag(self, A: Array) -> Array:
        found = self.columns_of(A)
        return (found**2 * self._variances(found.shape[1])).sum(axis=1)

    def layout(self, A: np.ndarray) -> Layout:
        return DenseLayout(self.columns_of(A))


@module
class Spline(_Smooth):
    """Smooth function of one column: a cubic smoothing spline with a learned smoothness, and a straight line.

    Parameters
    ----------
    columns : int or str, default=()
        The column.
    count : int, default=20
        The number of knots, at quantiles of the column; all distinct values if there are fewer, which makes the
        smoothing spline exact.
    by : int or str, default=None
        A column that multiplies the function (varying coefficient); the function then has a constant, too.
    knots : tuple of float, default=()
        The knots; chosen from the training rows by an estimator.
    variance : float, default=1.0
        The variance of the deviation from the straight line, on average over the knots; learned.
    slope_variance : float, default=100.0
        The prior variance of the straight line per standard deviation of the column; held fixed.
    """

    count: int = static(default=20)
    by: int | str | None = static(default=None)
    knots: Knots = static(default=())
    variance: ArrayField = positive(default=1.0)
    slope_variance: ArrayField = positive(default=WIDE_VARIANCE, train=False)

    further: ClassVar[str] = "by"

    def __post_init__(self) -> None:
        at_least("Spline: count", self.count, MIN_VALUES)
        object.__setattr__(self, "knots", tuple(map(float, self.knots)))
        super().__post_init__()

    def check(self, columns: int) -> None:
        if len(self.columns) != 1:  # type: ignore[arg-type]
            raise ValueError("Spline needs one column, as in Spline(0).")
        if len(self.knots) < MIN_VALUES:
            raise ValueError("Spline needs its knots outside of an estimator, as in Spline(0, knots=(0, 1, 2, 3)).")
        super().check(columns)
        one_number(self, "variance")
        one_number(self, "slope_variance")

    def linear_dims(self, columns: int) -> tuple[int, ...]:
        return () if self.by is None else (1,)

    def started(self, A: np.ndarray, variance: float) -> Spline:
        return self if self.knots else replace(self, knots=knots_at(A[:, 0], self.count))

    def columns_of(self, A: Array) -> Array:
        xp = namespace(A)
        t, curves = _curves(A[:, 0], self.knots)
        if self.by is None:
            return xp.concatenate([t, curves], axis=1)
        return A[:, 1:2] * xp.concatenate([xp.ones_like(t), t, curves], axis=1)

    def _lines(self) -> int:
        return 1 if self.by is None else 2

    def _variances(self, size: int) -> Array:
        xp, lines = namespace(self.variance, self.slope_variance), self._lines()
        return xp.concatenate(
            [xp.broadcast_to(self.slope_variance, (lines,)), xp.broadcast_to(self.variance, (size - lines,))]
        )

    def variances_of(self, size: int) -> tuple[np.ndarray, Any]:
        lines = self._lines()

        def pull(bar: np.ndarray) -> Spline:
            return replace(self, variance=np.sum(bar[lines:]), slope_variance=np.sum(bar[:lines]))

        return self._variances(size), pull


@module
class Tensor(_Smooth):
    """Smooth function of two columns: a tensor product of cubic splines, and a bilinear function.

    Parameters
    ----------
    columns : tuple, default=()
        The two columns.
    count : int, default=6
        The number of knots per column.
    knots : tuple, default=()
        The knots of either column; chosen from the training rows by an estimator.
    variance : array of shape (3,), default=(1.0, 1.0, 1.0)
        The variances of the curves along the first column, along the second, and of their products; learned.
    slope_variance : float, default=100.0
        The prior variance of the bilinear function; held fixed.
    """

    count: int = static(default=6)
    knots: tuple[Knots, ...] = static(default=())
    variance: ArrayField = positive(default=(1.0, 1.0, 1.0))
    slope_variance: ArrayField = positive(default=WIDE_VARIANCE, train=False)

    def __post_init__(self) -> None:
        at_least("Tensor: count", self.count, MIN_VALUES)
        object.__setattr__(self, "knots", tuple(tuple(map(float, one)) for one in self.knots))
        super().__post_init__()

    def check(self, columns: int) -> None:
        if len(self.used) != 2:
            raise ValueError("Tensor needs two columns, as in Tensor((0, 1)).")
        if len(self.knots) != 2 or min(map(len, self.knots)) < MIN_VALUES:
            raise ValueError("Tensor needs the knots of both columns outside of an estimator.")
        super().check(columns)
        if np.shape(self.variance) != (3,):
            raise ValueError("Tensor: variance has three numbers: along the first column, the second, and of products.")
        one_number(self, "slope_variance")

    def started(self, A: np.ndarray, variance: float) -> Tensor:
        return self if self.knots else replace(self, knots=tuple(knots_at(a, self.count) for a in A.T))

    def columns_of(self, A: Array) -> Array:
        xp = namespace(A)
        (t, curves), (s, others) = _curves(A[:, 0], self.knots[0]), _curves(A[:, 1], self.knots[1])
        both = (curves[:, :, None] * others[:, None, :]).reshape(len(A), -1)
        return xp.concatenate([t, s, t * s, curves, curves * s, others, others * t, both], axis=1)

    def _kinds(self) -> np.ndarray:
        """Return the variance per variable: 0 for the bilinear function, else one more than its place in `variance`."""
        first, second = (len(one) - 2 for one in self.knots)
        return np.repeat([0, 1, 2, 3], [3, 2 * first, 2 * second, first * second])

    def _variances(self, size: int) -> Array:
        xp = namespace(self.variance, self.slope_variance)
        return xp.concatenate([xp.reshape(self.slope_variance, (1,)), self.variance])[self._kinds()]

    def variances_of(self, size: int) -> tuple[np.ndarray, Any]:
        def pull(bar: np.ndarray) -> Tensor:
            sums = np.bincount(self._kinds(), bar, 4)
            return replace(self, variance=sums[1:], slope_variance=np.asarray(sums[0]))

        return self._variances(size), pull


@module
class SplineLevels(Spline):
    """Smooth function of one column per level of another column, with a shared smoothness; slopes vary, too.

    Parameters
    ----------
    columns : int or str, default=()
        The column.
    count : int, default=10
        The number of knots; see `Spline`.
    by : int or str, default=None
        The column whose values are the levels; must be given.
    knots : tuple of float, default=()
        The knots; chosen from the training rows by an estimator.
    variance : float, default=1.0
        The variance of the deviation from a straight line, on average over the knots; learned.
    slope_variance : float, default=1.0
        The variance of the slopes of the levels; learned.
    """

    count: int = static(default=10)
    slope_variance: ArrayField = positive(default=1.0)

    def level_dims(self, columns: int) -> tuple[int, ...]:
        return (1,)

    def linear_dims(self, columns: int) -> tuple[int, ...]:
        return ()

    def _lines(self) -> int:
        return 1

    def columns_of(self, A: Array) -> Array:
        return namespace(A).concatenate(_curves(A[:, 0], self.knots), axis=1)

    def pairs(self, A: Array, B: Array) -> Array:
        return super().pairs(A, B) * (A[:, 1][:, None] == B[:, 1])

    def layout(self, A: np.ndarray) -> Layout:
        return SplineLevelsLayout(self, A)


class SplineLevelsLayout(Layout):
    """The coefficients of the curves per level."""

    def __init__(self, part: SplineLevels, A: np.ndarray) -> None:
        self.levels, place = np.unique(A[:, 1], return_inverse=True)
        self.weight = np.asarray(part.columns_of(A))
        self.each = self.weight.shape[1]
        self.size = self.each * len(self.levels)
        self.index = place.reshape(-1, 1) * self.each + np.arange(self.each)
        self.i = self.j = np.arange(self.size)

    def precision(self, part: SplineLevels) -> tuple[np.ndarray, float]:
        var = np.tile(part.variances_of(self.each)[0], len(self.levels))
        return 1.0 / var, -float(np.sum(np.log(var)))

    def pull(self, part: SplineLevels, bar: np.ndarray, log_det: float) -> SplineLevels:
        var, pull = part.variances_of(self.each)
        return pull((-bar.reshape(-1, self.each) / var**2 - log_det / var).sum(axis=0))

    def loads(self, part: SplineLevels, A: np.ndarray) -> Loads:
        place = np.clip(np.searchsorted(self.levels, A[:, 1]), 0, len(self.levels) - 1)
        old, weight = self.levels[place] == A[:, 1], np.asarray(part.columns_of(A))
        residual = np.where(old, 0.0, part.diag(A))
        return Loads(place[:, None] * self.each + np.arange(self.each), weight * old[:, None], residual)

    def residuals(self, part: SplineLevels, A: np.ndarray) -> np.ndarray:
        new = ~np.isin(A[:, 1], self.levels)
        return np.asarray(part.pairs(A, A)) * new[:, None] * new
