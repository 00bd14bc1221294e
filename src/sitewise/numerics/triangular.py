"""Products with triangular and symmetric matrices that skip the zeros, or the half that follows by symmetry."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular


def lower_inverse(L: jax.Array, leaf: int = 0) -> jax.Array:
    """L⁻¹ by halves, [[A, 0], [C, D]]⁻¹ = [[A⁻¹, 0], [−D⁻¹CA⁻¹, D⁻¹]].

    Nearly all of the work is matrix products, which run at about twice the rate of triangular solves.
    """
    n = L.shape[0]
    leaf = leaf or max(48, -(-n // 8))
    if n <= leaf:
        return solve_triangular(L, jnp.eye(n, dtype=L.dtype), lower=True)
    half = -(-n // 32) * 16
    A, D = lower_inverse(L[:half, :half], leaf), lower_inverse(L[half:, half:], leaf)
    below = -(D @ (L[half:, :half] @ A))
    return jnp.block([[A, jnp.zeros((half, n - half), L.dtype)], [below, D]])


_HALVES = 128  # the number of columns from which two products are faster than one


def _half(columns: int) -> int:
    return -(-columns // 32) * 16 if columns >= _HALVES else columns


def lower_times(H: jax.Array, A: jax.Array) -> jax.Array:
    """H A for a lower triangular H: the zeros above the diagonal are a quarter of the work."""
    h = _half(H.shape[0])
    return H @ A if h == H.shape[0] else jnp.concatenate([H[:h, :h] @ A[:h], H[h:] @ A])


def lower_gram(H: jax.Array) -> jax.Array:
    """HᵀH for a lower triangular H, by the blocks [[A, 0], [C, D]]: half the work."""
    h = _half(H.shape[0])
    if h == H.shape[0]:
        return H.T @ H
    A, C, D = H[:h, :h], H[h:, :h], H[h:, h:]
    side = C.T @ D
    return jnp.block([[A.T @ A + C.T @ C, side], [side.T, D.T @ D]])


def times_upper(A: jax.Array, U: jax.Array) -> jax.Array:
    """A U for an upper triangular U: the zeros below the diagonal are a quarter of the work."""
    h = _half(U.shape[0])
    return jnp.concatenate([A[:, :h] @ U[:h, :h], A @ U[:, h:]], axis=1)


def symmetric_product(A: jax.Array, B: jax.Array) -> jax.Array:
    """AᵀB where it is known to be symmetric: three of its four blocks are computed."""
    h = _half(A.shape[1])
    top, corner = A[:, :h].T @ B, A[:, h:].T @ B[:, h:]
    return jnp.block([[top[:, :h], top[:, h:]], [top[:, h:].T, corner]])


def weighted_gram(A: jax.Array, w: jax.Array) -> jax.Array:
    """Aᵀ diag(w) A."""
    return symmetric_product(A, w[:, None] * A)


def gram(A: jax.Array) -> jax.Array:
    """AᵀA."""
    return symmetric_product(A, A)


def lower_solve(L: jax.Array, x: jax.Array) -> jax.Array:
    """L⁻¹x for a lower triangular L."""
    return solve_triangular(L, x, lower=True)


def lower_transposed_solve(L: jax.Array, x: jax.Array) -> jax.Array:
    """L⁻ᵀx for a lower triangular L."""
    return solve_triangular(L, x, lower=True, trans=1)
