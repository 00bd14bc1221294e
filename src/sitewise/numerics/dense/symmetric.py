"""Small symmetric matrices by their eigenvalues, and small least squares."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_RIDGE = 1e-10  # of the diagonal


def absolute_inverse(A: np.ndarray, least: float) -> np.ndarray:
    """The inverse of |A|: with the absolute values of the eigenvalues, none of them below `least`."""
    values, axes = np.linalg.eigh(0.5 * (A + A.T))
    return axes / np.maximum(np.abs(values), least) @ axes.T


def least_squares(tables: Iterable[np.ndarray]) -> np.ndarray:
    """γ = argmin |g_k − Σ_j γ_j (g_{j+1} − g_j)|² of vectors g, the rows of tables that stand side by side.

    Zeros where two neighbours are equal.
    """
    products = sum(table @ table.T for table in tables)
    differences = np.diff(np.eye(len(products)), axis=0)
    system = differences @ products @ differences.T
    system[np.diag_indices_from(system)] *= 1 + _RIDGE
    try:
        return np.linalg.solve(system, differences @ products[:, -1])
    except np.linalg.LinAlgError:
        return np.zeros(len(system))
