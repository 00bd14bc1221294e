"""Weighted sums of a kernel and of a mean function over rows, for the posteriors of weighted sums of f.

The mean and variance of a posterior depend on new rows through their covariances k with the training rows (or inducing
inputs) and with each other.  A sum S_g = Σ_r w_gr f(x_gr) therefore has the moments of one row whose covariances are

    k_g = Σ_r w_gr k(x_gr),     κ_g = Σ_rt w_gr w_gt κ(x_gr, x_gt)

so that G sums need G solves, whatever the number of rows per sum.  `X` is (G, R, columns), `weight` (S, G, R): S sets
of G sums of R rows each.  Arrays are NumPy's.
"""

from __future__ import annotations

import numpy as np

from sitewise.kernels import Kernel
from sitewise.means import Mean

MAX_BLOCK_ENTRIES = 2**22  # of a kernel matrix computed at a time


def mean_sums(mean: Mean, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return Σ_r w_sgr μ(x_gr): (S, G)."""
    values = np.asarray(mean.at(X.reshape(-1, X.shape[2])))
    return np.einsum("sgr,gr->sg", weight, values.reshape(X.shape[:2]))


def cross_sums(kernel: Kernel, X: np.ndarray, weight: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return Σ_r w_sgr κ(x_gr, other): (S, G, rows of `other`)."""
    sums, rows, columns = X.shape
    out = np.empty((len(weight), sums, len(other)))
    step = max(1, MAX_BLOCK_ENTRIES // (rows * len(other)))
    for at in range(0, sums, step):
        part = slice(at, at + step)
        K = np.asarray(kernel.matrix(X[part].reshape(-1, columns), other)).reshape(-1, rows, len(other))
        out[:, part] = np.swapaxes(np.swapaxes(weight[:, part], 0, 1) @ K, 0, 1)
    return out


def prior_sums(kernel: Kernel, X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return Σ_rt w_sgr w_sgt κ(x_gr, x_gt): (S, G)."""
    each = [np.sum((weight[:, g] @ np.asarray(kernel.matrix(rows))) * weight[:, g], axis=1) for g, rows in enumerate(X)]
    return np.stack(each, axis=1)


def not_negative(var: np.ndarray) -> np.ndarray:
    """Set variances to 0 that rounding made negative."""
    return np.maximum(var, 0.0)
