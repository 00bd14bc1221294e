"""Inverse of the absolute value of a symmetric matrix, and the least squares of Anderson acceleration."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_RIDGE = 1e-10  # added to the diagonal of a least-squares system, as a share of the diagonal


def absolute_inverse(A: np.ndarray, least: float) -> np.ndarray:
    """Return |A|⁻¹, where |A| has the absolute eigenvalues of the symmetric A, raised to at least `least`."""
    values, axes = np.linalg.eigh(0.5 * (A + A.T))
    return axes / np.maximum(np.abs(values), least) @ axes.T


def least_squares(blocks: Iterable[np.ndarray]) -> np.ndarray:
    """Return γ = argmin |g_k − Σ_j γ_j (g_{j+1} − g_j)|², or zeros if the system is singular.

    g_0 … g_k are the rows of the matrix that joins all `blocks` side by side.
    """
    products = sum(block @ block.T for block in blocks)
    differences = np.diff(np.eye(len(products)), axis=0)
    system = differences @ products @ differences.T
    system[np.diag_indices_from(system)] *= 1 + _RIDGE
    try:
        return np.linalg.solve(system, differences @ products[:, -1])
    except np.linalg.LinAlgError:
        return np.zeros(len(system))
