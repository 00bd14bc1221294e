"""Which columns of a matrix are linear combinations of the columns before them."""

from __future__ import annotations

import numpy as np

DEPENDENT = 1e-9  # length of a column of length 1 beyond the columns before it


def dependent_columns(table: np.ndarray) -> np.ndarray:
    """Return a mask of the columns that are linear combinations of the columns before them, by a QR factorisation."""
    size = np.linalg.norm(table, axis=0)
    lengths = np.zeros(table.shape[1])
    found = np.abs(np.diagonal(np.linalg.qr(table / np.where(size > 0, size, 1.0), mode="r")))
    lengths[: len(found)] = found
    return np.asarray(lengths < DEPENDENT)
