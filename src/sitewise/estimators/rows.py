"""L4. Training rows in a canonical form: distinct rows, sorted, with the number of times each counts.

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
