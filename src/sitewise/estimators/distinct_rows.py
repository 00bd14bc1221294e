"""Merge duplicate training rows: distinct rows, sorted, with the sum of their weights.

Copies of a row and one row with an integer weight are the same data and give the same merged table.  The fit therefore
does not depend on the order of the rows, an integer weight is exactly equivalent to duplicating the row, and duplicate
rows take no additional time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sitewise.data import Data


class Merged(NamedTuple):
    """The distinct rows, and `place`: the index of each given row among the distinct rows, −1 for a row of weight 0."""

    data: Data
    place: np.ndarray


ROWS_PER_BLOCK = 2**14  # rows that are compared at a time


def _sorted(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order that sorts the rows, and a mask of the first of each set of equal rows in this order.

    This is `np.unique` without its copies of the table.
    """
    rows = np.ascontiguousarray(table).view([("", table.dtype)] * table.shape[1]).ravel()
    order = np.argsort(rows, kind="stable")
    first = np.ones(len(order), bool)
    for at in range(1, len(order), ROWS_PER_BLOCK):
        here = order[at - 1 : at + ROWS_PER_BLOCK]
        first[at : at + ROWS_PER_BLOCK] = np.any(table[here[1:]] != table[here[:-1]], axis=1)
    return order, first


def merge(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Merged:
    """Merge equal rows (x, y) and add their weights; rows of weight 0 are left out."""
    kept = weight > 0
    if not np.any(kept):
        raise ValueError("All weights are zero: there is no row to learn from.")
    table = np.column_stack([X, y]) if np.all(kept) else np.column_stack([X[kept], y[kept]])
    order, first = _sorted(table)
    distinct = table[order[first]]
    del table
    inverse = np.empty(len(order), int)
    inverse[order] = np.cumsum(first) - 1
    place = np.full(len(X), -1)
    place[kept] = inverse
    total = np.bincount(inverse, weight[kept], len(distinct))
    inputs = X.shape[1]
    values = distinct[:, inputs] if y.ndim == 1 else distinct[:, inputs:]
    return Merged(Data.of(distinct[:, :inputs], values, total), place)
