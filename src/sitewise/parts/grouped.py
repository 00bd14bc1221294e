"""Random effects of groups: one variable per level of one or several columns."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.checks import one_number
from sitewise.parts.base import Layout, Loads, Part
from sitewise.types import ArrayField, module, positive, replace, static

# More levels per row are probably a column of numbers.  One code per row is an effect per observation (overdispersion).
MIN_DOUBTED_ROWS, MAX_LEVELS_PER_ROW = 20, 0.8


@module
class Levels(Part):
    """Random intercepts of groups (mixed model), or random slopes: one independent effect per level.

    A row with the level g has the effect x_g, or z x_g with the value z of the column `slope`, x_g ~ N(0, variance).
    Several `Levels` in one model are crossed groups.  Several columns in one `Levels` are nested groups: a level is a
    combination of their values.  A level without training rows has the prior.

    Parameters
    ----------
    columns : int, str or tuple, default=()
        The column whose values are the levels; several columns for their combinations.
    slope : int or str, default=None
        The column that multiplies the effect (varying slopes); None for intercepts.
    variance : float, default=1.0
        The variance of the effects; learned.
    """

    slope: int | str | None = static(default=None)
    variance: ArrayField = positive(default=1.0)

    further: ClassVar[str] = "slope"

    def check(self, columns: int) -> None:
        if not self.columns:
            raise ValueError("Levels needs the column whose values are the levels, as in Levels(2).")
        super().check(columns)
        one_number(self, "variance")

    def level_dims(self, columns: int) -> tuple[int, ...]:
        return tuple(range(columns if self.slope is None else columns - 1))

    def linear_dims(self, columns: int) -> tuple[int, ...]:
        return () if self.slope is None else (columns - 1,)

    def _split(self, A: Array) -> tuple[Array, Array]:
        """Return the columns of levels, and the slopes per row."""
        if self.slope is None:
            return A, namespace(A).ones(A.shape[0], A.dtype)
        return A[:, :-1], A[:, -1]

    def pairs(self, A: Array, B: Array) -> Array:
        (a, left), (b, right) = self._split(A), self._split(B)
        same = (a[:, None, :] == b[None, :, :]).all(axis=-1)
        return self.variance * same * left[:, None] * right[None, :]

    def diag(self, A: Array) -> Array:
        return self.variance * self._split(A)[1] ** 2

    def doubt(self, A: np.ndarray) -> str:
        levels = np.unique(self._split(A)[0], axis=0)
        rows, count = len(A), len(levels)
        codes = bool(np.all(levels == np.round(levels)) and np.max(np.ptp(levels, axis=0)) < 2 * count)
        if codes or rows < MIN_DOUBTED_ROWS or count <= MAX_LEVELS_PER_ROW * rows:
            return ""
        named = ", ".join(repr(c) for c in super().used)
        return (
            f"Levels({named}) has {count} levels in {rows} rows, almost one effect per row; use Linear, Series or Map "
            "for a column of numbers, or leave it out."
        )

    def is_effect_per_row(self, A: np.ndarray, weight: np.ndarray) -> bool:
        return self.slope is None and bool(np.all(weight <= 1)) and len(np.unique(A, axis=0)) == len(A)

    def layout(self, A: np.ndarray) -> Layout:
        return LevelsLayout(*self._split(A))


class LevelsLayout(Layout):
    """Independent variables: Q = I / variance."""

    def __init__(self, levels: np.ndarray, slopes: np.ndarray) -> None:
        self.levels, place = np.unique(levels, axis=0, return_inverse=True)
        self.size = len(self.levels)
        self.index, self.weight = place.reshape(-1, 1), slopes[:, None]
        self.i = self.j = np.arange(self.size)

    def precision(self, part: Levels) -> tuple[np.ndarray, float]:
        return np.full(self.size, 1.0 / part.variance), -self.size * float(np.log(part.variance))

    def pull(self, part: Levels, bar: np.ndarray, log_det: float) -> Levels:
        slope = -np.sum(bar) / part.variance**2 - log_det * self.size / part.variance
        return replace(part, variance=np.reshape(slope, np.shape(part.variance)))

    def _places(self, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the variable per row, and whether its level is known."""
        merged, place = np.unique(np.concatenate([self.levels, levels]), axis=0, return_inverse=True)
        number = np.full(len(merged), -1)
        place = place.reshape(-1)
        number[place[: self.size]] = np.arange(self.size)
        found = number[place[self.size :]]
        return np.maximum(found, 0), found >= 0

    def loads(self, part: Levels, A: np.ndarray) -> Loads:
        levels, slopes = part._split(A)
        place, known = self._places(levels)
        residual = np.where(known, 0.0, part.variance * slopes**2)
        return Loads(place[:, None], np.where(known, slopes, 0.0)[:, None], residual)

    def residuals(self, part: Levels, A: np.ndarray) -> np.ndarray:
        new = ~self._places(part._split(A)[0])[1]
        return np.asarray(part.pairs(A, A)) * new[:, None] * new
