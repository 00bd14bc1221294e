"""Small matrices, many at once: Cholesky factors, triangular solves, principal axes, products."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays.engine import Array


def small_cholesky(a: jax.Array) -> jax.Array:
    """Lower factors of many small matrices, which are on the last two axes; computed for all at once, by columns."""

    def eliminate(a: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array]:
        column = jnp.where(jnp.arange(a.shape[-1]) >= j, a[..., :, j], 0.0) / jnp.sqrt(a[..., j, j])[..., None]
        return a - column[..., :, None] * column[..., None, :], column

    return jnp.moveaxis(lax.scan(eliminate, a, jnp.arange(a.shape[-1]))[1], 0, -1)


def small_semidefinite_cholesky(a: jax.Array) -> jax.Array:
    """As `small_cholesky`, of positive semi-definite matrices: a pivot that is no more than rounding counts as 0.

    Nothing changes but the digits if rows and columns are scaled, so that entries may have very different sizes.
    """
    size, least = a.shape[-1], 8 * a.shape[-1] * jnp.finfo(a.dtype).eps * jnp.diagonal(a, axis1=-2, axis2=-1)
    columns = []
    for j in range(size):
        sound = a[..., j, j] > least[..., j]
        pivot = jnp.where(sound, a[..., j, j], 1.0)
        column = jnp.where((jnp.arange(size) >= j) & sound[..., None], a[..., :, j] / jnp.sqrt(pivot)[..., None], 0.0)
        a = a - column[..., :, None] * column[..., None, :]
        columns.append(column)
    return jnp.stack(columns, axis=-1)


def small_lower_solve(L: jax.Array, x: jax.Array) -> jax.Array:
    """L⁻¹x for many small lower triangular L; x holds one matrix for each."""

    def substitute(x: jax.Array, j: jax.Array) -> tuple[jax.Array, jax.Array]:
        row = x[..., j, :] / L[..., j, j][..., None]
        return x - L[..., :, j][..., None] * row[..., None, :], row

    return jnp.moveaxis(lax.scan(substitute, x, jnp.arange(L.shape[-1]))[1], 0, -2)


def small_solve(a: jax.Array, x: jax.Array) -> jax.Array:
    """a⁻¹x for many small matrices a and x, by elimination with row pivots, as elementwise operations."""
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
    """Standard deviations along the principal axes of a covariance matrix, and those axes as columns."""
    values, axes = np.linalg.eigh(cov)
    return np.sqrt(np.maximum(values, 0.0)), axes


def times(A: Array, B: Array) -> Array:
    """A B for small matrices.  As sums of products they are compiled into a loop; as dots they would be calls."""
    return (A[..., :, :, None] * B[..., None, :, :]).sum(-2)


def apply(A: Array, x: Array) -> Array:
    """A x for a small matrix."""
    return (A * x[..., None, :]).sum(-1)


def turned(A: Array) -> Array:
    """Aᵀ."""
    return A.swapaxes(-1, -2)


def outer(x: Array, y: Array) -> Array:
    return x[..., :, None] * y[..., None, :]


def dot(x: Array, y: Array) -> Array:
    return (x * y).sum(-1)
