"""Correlations of stationary kernels on single columns, on NumPy arrays.

For numbers a and b in lengthscales, with r = √5 |a − b|, the Matérn 5/2 correlation is (1 + r + r²/3) e^−r, and its
derivative in log ℓ is r² (1 + r)/3 · e^−r.  The exponential of a whole table is a product of vectors,
e^−|a − b| = min(e^a e^−b, e^−a e^b), which takes a third of the time of exponentials of its entries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sitewise.kernels.stationary import Matern52, Stationary

MAX_EXPONENT = 300.0  # of the factors, whose products then neither overflow nor vanish
MAX_TABULATED_VALUES = 32  # a column with at most this number of distinct values has a table of its correlations


class Levels(NamedTuple):
    """The correlations of a column of few distinct values: the values, their tables, and the value of every row."""

    values: np.ndarray
    table: np.ndarray
    slopes: np.ndarray
    a: np.ndarray
    b: np.ndarray

    @staticmethod
    def of(base: Stationary, a: np.ndarray, b: np.ndarray) -> Levels | None:
        """Return the tables for numbers in lengthscales; None for a column of many values."""
        values = np.unique(a if b is a else np.concatenate([a, b]))
        if len(values) > MAX_TABULATED_VALUES:
            return None
        table, slopes = correlations_and_slopes(base, values, values)
        return Levels(values, table, slopes, np.searchsorted(values, a), np.searchsorted(values, b))

    def block(self, table: np.ndarray, rows: slice, stop: int) -> np.ndarray:
        """Return the entries of the table for a block: these rows, and the columns before `stop`."""
        return np.take(np.take(table, self.a[rows], axis=0), self.b[:stop], axis=1)


def correlations(base: Stationary, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return shape((a_i − b_j)²) for numbers in lengthscales."""
    if type(base) is not Matern52:
        return np.asarray(base.shape(_squares(a, b)))
    r, e = _distance_and_exponential(np.sqrt(5.0) * a, np.sqrt(5.0) * b)
    found = r / 3
    found += 1
    found *= r
    found += 1
    found *= e
    return found


def correlations_and_slopes(base: Stationary, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `correlations` and their derivatives in log ℓ."""
    if type(base) is not Matern52:
        d2 = _squares(a, b)
        return np.asarray(base.shape(d2)), -2 * d2 * base.slope(d2)  # ∂d²/∂log ℓ = −2 d²
    r, e = _distance_and_exponential(np.sqrt(5.0) * a, np.sqrt(5.0) * b)
    grown = r + 1
    third = r
    third *= r
    third /= 3
    slopes = grown * third
    slopes *= e
    grown += third
    grown *= e
    return grown, slopes


def _distance_and_exponential(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return |a_i − b_j| and exp(−|a_i − b_j|)."""
    r = np.subtract.outer(a, b)
    np.abs(r, out=r)
    ends = [end for x in (a, b) if x.size for end in (x.min(), x.max())]
    centre = 0.5 * (max(ends) + min(ends)) if ends else 0.0
    if not ends or max(ends) - min(ends) > 2 * MAX_EXPONENT:
        return r, np.exp(-r)
    up, down = np.exp(a - centre), np.exp(b - centre)
    e = np.multiply.outer(up, 1 / down)
    return r, np.minimum(e, np.multiply.outer(1 / up, down), out=e)


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    d = np.subtract.outer(a, b)
    return np.square(d, out=d)
