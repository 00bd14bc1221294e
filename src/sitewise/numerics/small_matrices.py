"""Small matrices: Cholesky factors and triangular solves of many at once, on the last two axes; principal axes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def small_cholesky(a: jax.Array) -> jax.Array:
    """Lower factors of many small matrices, on the last two axes; all at once, column by column."""

    def eliminate(a, j):
        column = jnp.where(jnp.arange(a.shape[-1]) >= j, a[..., :, j], 0.0) / jnp.sqrt(a[..., j, j])[..., None]
        return a - column[..., :, None] * column[..., None, :], column

    return jnp.moveaxis(lax.scan(eliminate, a, jnp.arange(a.shape[-1]))[1], 0, -1)


def small_lower_solve(L: jax.Array, x: jax.Array) -> jax.Array:
    """L⁻¹x for many small lower triangular L; x has a matrix for each."""

    def substitute(x, j):
        row = x[..., j, :] / L[..., j, j][..., None]
        return x - L[..., :, j][..., None] * row[..., None, :], row

    return jnp.moveaxis(lax.scan(substitute, x, jnp.arange(L.shape[-1]))[1], 0, -2)


def principal_axes(cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations along the principal axes of a covariance matrix, and those axes as columns."""
    values, axes = np.linalg.eigh(cov)
    return np.sqrt(np.maximum(values, 0.0)), axes
