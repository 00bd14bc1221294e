"""Small symmetric matrices by their eigenvalues, and small least squares."""

from __future__ import annotations

import numpy as np

_RIDGE = 1e-10  # of the diagonal


def absolute_inverse(A: np.ndarray, least: float) -> np.ndarray:
    """The inverse of |A|: with the absolute values of the eigenvalues, none of them below `least`."""
    values, axes = np.linalg.eigh(0.5 * (A + A.T))
    return axes / np.maximum(np.abs(values), least) @ axes.T


def least_squares(rows: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The weights of a few long rows whose sum is nearest to the target; zeros where a row is zero."""
    system = rows @ rows.T
    system[np.diag_indices_from(system)] *= 1 + _RIDGE
    try:
        return np.linalg.solve(system, rows @ target)
    except np.linalg.LinAlgError:
        return np.zeros(len(rows))
