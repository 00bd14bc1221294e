"""The search of the printed tables for Laplace and EP: L-BFGS over the softplus inverse of θ, of at most 1000 calls.

An evidence is given as a function of the kernel's matrix K,

    K ↦ value, ∂value/∂K, a, R      with the posterior mean k*ᵀa and variance k** − k*ᵀ R k* at a further row,

and may fail: where a matrix has no Cholesky factor or a mode is not found, the loss counts as infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import log_ndtr

from sitewise import Model
from sitewise_icml2023.expanded import Expanded
from sitewise_icml2023.protocols import Fold
from sitewise_icml2023.sampled import FLOOR

Evidence = Callable[[np.ndarray], tuple[float, np.ndarray, np.ndarray, np.ndarray]]
CALLS = 1000
NUDGE = 1e-10
IDENTITY_FROM = 36.0  # beyond it softplus is the identity, in double precision
LOWEST = -np.log(
    np.finfo(float).max
)  # before it softplus is constant: θ may be as small as 1e-308, and distances overflow


def root(A: np.ndarray) -> np.ndarray:
    """The Cholesky factor; if there is none, with 1e-6 to 1e-2 of the mean diagonal added."""
    for jitter in (0.0, *(np.diag(A).mean() * 10.0**power for power in range(-6, -1))):
        try:
            return cholesky(A + jitter * np.eye(len(A)), lower=True)
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError("no Cholesky factor")


def conditioned(K: np.ndarray, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """R = (K + 1/precision)⁻¹, and the factor of I + √precision K √precision."""
    scale = np.sqrt(precision)
    L = root(np.eye(len(K)) + scale[:, None] * K * scale)
    half = solve_triangular(L, np.diag(scale), lower=True)
    return half.T @ half, L


def row(model: Model, fold: Fold, evidence: Evidence, nudge: int | None = None) -> dict[str, Any]:
    """Return the results of this search for a classification task.

    `nudge` is the seed of changes of the start in its tenth digit.
    """
    prior: Any = model.prior
    lengthscale = np.asarray(prior.kernel.lengthscale)
    kernel = Expanded(fold.X, shared=lengthscale.ndim == 0)
    start = np.append(np.asarray(prior.kernel.variance), lengthscale)
    first = start + np.log(-np.expm1(-start))
    if nudge is not None:
        first = first * (1 + NUDGE * np.random.default_rng(nudge).standard_normal(len(first)))
    last = np.ones(len(first))

    def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal last
        theta = _softplus(vector)
        with np.errstate(all="ignore"):
            try:
                value, by_K, *_ = evidence(kernel.matrix(theta))
                slope = kernel.slope(by_K) * -np.expm1(-theta)
            except (np.linalg.LinAlgError, ValueError, RuntimeError):
                return np.inf, last
        if not np.isfinite(value):
            return np.inf, last
        last = -np.nan_to_num(slope)
        return -value, last

    found = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxfun": CALLS, "maxiter": CALLS})
    theta = _softplus(found.x)
    _, _, a, R = evidence(kernel.matrix(theta))
    K = kernel.cross(theta, fold.X_test)
    z = K.T @ a / np.sqrt(1 + np.maximum(theta[0] - np.sum(K * (R @ K), axis=0), 0.0))
    density = np.clip(log_ndtr(fold.y_test * z), np.log(FLOOR), np.log1p(-FLOOR))
    return {
        "test_loglik": float(density.mean()),
        "test_acc": float(np.mean((z > 0) == (fold.y_test > 0))),
        "objective": -float(found.fun),
        "theta": {
            "kernel.lengthscale": theta[1:].tolist() if lengthscale.ndim else float(theta[1]),
            "kernel.variance": float(theta[0]),
        },
        "converged": bool(found.success),
        "reason": str(found.message),
        "rounds": int(found.nit),
        "evaluations": int(found.nfev),
    }


def _softplus(vector: np.ndarray) -> np.ndarray:
    return np.where(vector > IDENTITY_FROM, vector, np.log1p(np.exp(np.clip(vector, LOWEST, IDENTITY_FROM))))
