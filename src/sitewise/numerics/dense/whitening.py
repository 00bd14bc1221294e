"""Whiten columns: linear combinations of them that are orthonormal over weighted rows."""

from __future__ import annotations

import numpy as np

from sitewise.numerics.dense.dependence import DEPENDENT

CONSTANT = 1e-13  # root mean square of a centred column, as a share of its largest value, that is rounding


def whitening(table: np.ndarray, centre: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Return W such that the columns of (table − centre) W have the mean square 1 and are uncorrelated over the rows.

    Combinations of columns that are zero in all rows are taken as if their mean square were 1, per root mean square of
    each column; a column that is zero in all rows is not scaled.
    """
    share = np.full(len(table), 1.0) if weight is None else weight
    moved = np.sqrt(share / np.sum(share))[:, None] * (table - centre)
    size = np.linalg.norm(moved, axis=0)
    size = np.where(size > CONSTANT * np.max(np.abs(table), axis=0), size, 1.0)
    _, lengths, axes = np.linalg.svd(np.linalg.qr(moved / size, mode="r"), full_matrices=True)
    every = np.ones(table.shape[1])
    every[: len(lengths)] = np.where(lengths > DEPENDENT, lengths, 1.0)
    return np.asarray(axes.T / every / size[:, None])
