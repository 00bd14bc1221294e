"""Laplace's method as the program of the printed tables computes it.

    log Z ≈ log p(y | f̂) − ½ âᵀK â − ½ log |I + K W|,     f̂ = K â the mode,  W = −∂² log p(y | f̂)      (R&W 3.32)

The mode is sought by Newton's directions with Brent's line search along each, until a step gains less than 1e-4.
The evidence therefore has small errors, at which a search along a flat ridge may end.
With one lengthscale it ends at the maximum that the library finds, except on folds where a trial step leads to a
lengthscale whose distances overflow, and the failure ends the search (E9).  With one lengthscale per feature there are
also further maxima, lengthscales without a finite optimum, and lengthscales so near to zero that distances lose their
digits (`expanded`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import brent
from scipy.special import ndtr

from sitewise import Model
from sitewise_icml2023 import lbfgs
from sitewise_icml2023.protocols import Fold

ENOUGH = 1e-4
STEPS = 30
SMALLEST = 1e-9  # a probability of the likelihood


def row(model: Model, fold: Fold, nudge: int | None = None) -> dict[str, Any]:
    """Return the results of the fit of one fold."""
    return lbfgs.row(model, fold, lambda K: evidence(K, fold.y), nudge)


def evidence(K: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
    """The value, its gradient with respect to K, â and (K + W⁻¹)⁻¹ (R&W 5.21 to 5.24)."""
    f, a = _mode(K, y)
    _, W, third = _derivatives(f, y)
    R, L = lbfgs.conditioned(K, W)
    half = solve_triangular(L, np.sqrt(W)[:, None] * K, lower=True)
    variance = np.diag(K) - np.sum(half**2, axis=0)
    value = _joint(a, f, y) - np.sum(np.log(np.diag(L)))
    by_mode = 0.5 * variance * third  # −½ of the variance times ∂W/∂f
    through_mode = by_mode - R @ (K @ by_mode)
    return value, 0.5 * (np.outer(a, a) - R) + np.outer(a, through_mode), a, R


def _mode(K: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f̂ and â = K⁻¹ f̂."""
    f = a = np.zeros(len(y))
    before, gained, steps = _joint(a, f, y), np.inf, 0
    while gained > ENOUGH and steps < STEPS:
        first, W, _ = _derivatives(f, y)
        b, scale = W * f + first, np.sqrt(W)
        L = lbfgs.root(np.eye(len(K)) + scale[:, None] * K * scale)
        to = b - scale * cho_solve((L, True), scale * (K @ b)) - a
        K_to = K @ to
        length = brent(lambda s, a=a, f=f, to=to, K_to=K_to: -_joint(a + s * to, f + s * K_to, y), tol=1e-4, maxiter=12)
        a = a + length * to
        f = K @ a
        now = _joint(a, f, y)
        before, gained, steps = now, abs(now - before), steps + 1
    return f, a


def _joint(a: np.ndarray, f: np.ndarray, y: np.ndarray) -> float:
    value = float(np.sum(np.log(np.maximum(ndtr(y * f), SMALLEST))) - 0.5 * a @ f)
    return -np.inf if np.isnan(value) else value


def _derivatives(f: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """∂, −∂² and ∂³ of log Φ(y f)."""
    z = y * f
    h = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) / np.maximum(ndtr(z), SMALLEST)
    return y * h, h * (h + z), y * h * (2 * h**2 + 3 * z * h + z**2 - 1)
