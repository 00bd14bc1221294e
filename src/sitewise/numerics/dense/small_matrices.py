"""Batches of small matrices: Cholesky factors, solves, products, principal axes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays.engine import Array


def small_cholesky(a: jax.Array) -> jax.Array:
    """Return the lower Cholesky factors of a batch of small matrices, which are on the last two axes."""

    def eliminate(a: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array]:
        column = jnp.where(jnp.arange(a.shape[-1]) >= j, a[..., :, j], 0.0) / jnp.sqrt(a[..., j, j])[..., None]
        return a - column[..., :, None] * column[..., None, :], column

    return jnp.moveaxis(lax.scan(eliminate, a, jnp.arange(a.shape[-1]))[1], 0, -1)


def small_semidefinite_cholesky(a: jax.Array) -> jax.Array:
    """Return lower factors of a batch of positive semi-definite matrices; pivots of the size of rounding count as 0.

    The threshold is relative to each diagonal entry, so rows and columns may have very different scales.
    """
    size, threshold = a.shape[-1], 8 * a.shape[-1] * jnp.finfo(a.dtype).eps * jnp.diagonal(a, axis1=-2, axis2=-1)
    columns = []
    for j in range(size):
        positive = a[..., j, j] > threshold[..., j]
        pivot = jnp.where(positive, a[..., j, j], 1.0)
        used = (jnp.arange(size) >= j) & positive[..., None]
        column = jnp.where(used, a[..., :, j] / jnp.sqrt(pivot)[..., None], 0.0)
        a = a - column[..., :, None] * column[..., None, :]
        columns.append(column)
    return jnp.stack(columns, axis=-1)


def small_lower_solve(L: jax.Array, x: jax.Array) -> jax.Array:
    """Return L⁻¹x for a batch of small lower triangular L; x holds one matrix per L."""

    def substitute(x: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array]:
        row = x[..., j, :] / L[..., j, j][..., None]
        return x - L[..., :, j][..., None] * row[..., None, :], row

    return jnp.moveaxis(lax.scan(substitute, x, jnp.arange(L.shape[-1]))[1], 0, -2)


def small_solve(a: jax.Array, x: jax.Array) -> jax.Array:
    """Return a⁻¹x for batches of small matrices, by Gaussian elimination with row pivots in elementwise operations."""
    size = a.shape[-1]
    both, rows = jnp.concatenate([a, x], axis=-1), jnp.arange(size)[:, None]
    for j in range(size):
        column = jnp.where(rows[:, 0] >= j, jnp.abs(both[..., :, j]), -1.0)
        chosen = rows == jnp.argmax(column, axis=-1)[..., None, None]
        pivot = jnp.sum(jnp.where(chosen, both, 0.0), axis=-2, keepdims=True)
        both = jnp.where(chosen, both[..., j : j + 1, :], both)
        pivot = pivot / pivot[..., j : j + 1]
        both = jnp.where(rows == j, pivot, both - both[..., :, j : j + 1] * pivot)
    return both[..., size:]


def principal_axes(cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the standard deviations along the principal axes of a covariance matrix, and the axes as columns."""
    values, axes = np.linalg.eigh(cov)
    return np.sqrt(np.maximum(values, 0.0)), axes


def times(A: Array, B: Array) -> Array:
    """Return A B for batches of small matrices.  XLA compiles sums of products into a loop, but dots into calls."""
    return (A[..., :, :, None] * B[..., None, :, :]).sum(-2)


def apply(A: Array, x: Array) -> Array:
    """Return A x for batches of small matrices."""
    return (A * x[..., None, :]).sum(-1)


def transpose(A: Array) -> Array:
    """Return Aᵀ for a batch of matrices."""
    return A.swapaxes(-1, -2)


def outer(x: Array, y: Array) -> Array:
    """Return x yᵀ for batches of vectors."""
    return x[..., :, None] * y[..., None, :]


def dot(x: Array, y: Array) -> Array:
    """Return xᵀy for batches of vectors."""
    return (x * y).sum(-1)
