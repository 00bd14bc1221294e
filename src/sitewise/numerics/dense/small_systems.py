"""Conditional distributions of a few variables: batches on NumPy arrays, and single ones for vectorised programs.

Programs use `small_matrices`: batches of LAPACK's factorisations in several programs can wait for each other for ever
on a CPU (jaxlib 0.10.2).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array
from sitewise.numerics.dense.small_matrices import small_cholesky, small_lower_solve


def conditionals(K: np.ndarray, k: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a = K⁻¹ k and d = var − kᵀ a of a batch: x given variables of covariance K is N(aᵀ · , d)."""
    a = np.linalg.solve(K, k[..., None])[..., 0]
    return a, var - np.sum(k * a, axis=-1)


def pull_conditionals(
    K: np.ndarray, a: np.ndarray, a_bar: np.ndarray, d_bar: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cotangents of K, as a sum of both triangles, and of k; the cotangent of var is d_bar.

    With λ = K⁻¹ ā:  K̄ = (d̄ a − λ) aᵀ,  k̄ = λ − 2 d̄ a.
    """
    moved = np.linalg.solve(K, a_bar[..., None])[..., 0]
    return (d_bar[..., None] * a - moved)[..., :, None] * a[..., None, :], moved - 2 * d_bar[..., None] * a


def given_blocks(C: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return (C⁻¹ + W)⁻¹ = (I + C W)⁻¹ C of a batch: covariances C given sites with precision blocks W."""
    return np.linalg.solve(np.eye(C.shape[-1]) + C @ W, C)


def any_indefinite(W: np.ndarray) -> bool:
    """Return whether a symmetric matrix of the batch has a negative eigenvalue, beyond rounding."""
    d = np.linalg.eigvalsh(W)
    return bool(np.any(d[..., 0] < -16 * np.finfo(float).eps * np.abs(d[..., -1])))


def inverse_and_log_det(Q: Array) -> tuple[Array, Array]:
    """Return Q⁻¹ and log|Q| of a positive definite matrix of a few rows."""
    L = small_cholesky(Q)
    root = small_lower_solve(L, jnp.eye(len(Q), dtype=Q.dtype))
    return root.T @ root, 2 * jnp.sum(jnp.log(jnp.diagonal(L)))


def gain(cross: Array, S: Array) -> Array:
    """Return C S⁻¹, with S positive definite."""
    return cross @ inverse_and_log_det(S)[0]
