"""Training rows in a canonical form: distinct rows, sorted, with the number of times each counts.

Copies of a row and a row with an integer weight are the same data, so they are made the same table: the fit does not
depend on the order of the rows, weights equal copies to the last digit, and repeated rows cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sitewise.data import Data


class Merged(NamedTuple):
    """`place` gives, for every row as it came, its place among the distinct ones; −1 for a row of weight 0."""

    data: Data
    place: np.ndarray


_SAMPLE = 256  # rows, evenly spaced among the sorted ones, whose distances stand for all
_COMMON = 5.0  # inputs within this factor of standardised ones start from a lengthscale of 1
_STRANGERS = 10.0  # lengthscales beyond which rows have nothing to say about each other


def start_lengthscale(X: np.ndarray) -> float:
    """Where a search that was given no kernel starts: 1, or the typical distance of rows per √(2·columns) if that is
    far from 1; and the typical distance itself where that is more than ten of the former (from about 50 columns on).

    A start of 1 among distances of 10⁻³ or 10² is on a plateau of the evidence, where only a constant is learned.
    """
    some = X[np.unique(np.linspace(0, len(X) - 1, _SAMPLE).astype(int))]
    middle = some - np.median(some, axis=0)
    squares = np.sum(middle**2, axis=1)
    apart = squares[:, None] + squares[None, :] - 2 * middle @ middle.T
    apart = apart[apart > 1e-12 * np.max(squares, initial=0.0)]
    if apart.size == 0:
        return 1.0
    typical = float(np.sqrt(np.median(apart)))
    scale = typical / np.sqrt(2 * X.shape[1])
    start = 1.0 if 1 / _COMMON <= scale <= _COMMON else float(np.clip(scale, 1e-4, 1e5))
    return start if typical <= _STRANGERS * start else float(np.clip(typical, 1e-4, 1e5))


def merge(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Merged:
    """Distinct (x, y) with their weights added."""
    kept = weight > 0
    if not np.any(kept):
        raise ValueError("All weights are zero: there is no row to learn from.")
    table = np.column_stack([X, y])[kept]
    distinct, inverse = np.unique(table, axis=0, return_inverse=True)
    inverse = inverse.ravel()
    place = np.full(len(X), -1)
    place[kept] = inverse
    total = np.bincount(inverse, weight[kept], len(distinct))
    inputs = X.shape[1]
    values = distinct[:, inputs] if y.ndim == 1 else distinct[:, inputs:]
    return Merged(Data.of(distinct[:, :inputs], values, total), place)
