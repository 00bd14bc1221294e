"""Triangular and symmetric matrix products, solves and inverses, without the entries known by structure.

Entries that are zero in a triangle, or follow by symmetry, are not computed.  NumPy matrices are passed to LAPACK; for
JAX matrices most of the work is written as matrix products.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike

from sitewise.arrays.engine import Array, is_host
from sitewise.numerics.dense import lapack


def lower_inverse(L: Array, leaf: int = 0) -> Array:
    """Return L⁻¹ by recursive halving, [[A, 0], [C, D]]⁻¹ = [[A⁻¹, 0], [−D⁻¹CA⁻¹, D⁻¹]].

    Nearly all of the work is matrix products, which run at about twice the rate of triangular solves.  Blocks of at
    most `leaf` rows are solved directly; 0 chooses the size.
    """
    if is_host(L):
        return lapack.lower_inverse(L)
    n = L.shape[0]
    leaf = leaf or max(48, -(-n // 8))
    if n <= leaf:
        return solve_triangular(L, jnp.eye(n, dtype=L.dtype), lower=True)
    half = -(-n // 32) * 16
    A, D = lower_inverse(L[:half, :half], leaf), lower_inverse(L[half:, half:], leaf)
    below = -(D @ (L[half:, :half] @ A))
    return jnp.block([[A, jnp.zeros((half, n - half), L.dtype)], [below, D]])


_MIN_COLUMNS_TO_SPLIT = 128  # from this number of columns on, products of two blocks are faster than one product


def _half(columns: int) -> int:
    """Return the size of the first of two blocks: about half of the columns, or all if splitting is slower."""
    return -(-columns // 32) * 16 if columns >= _MIN_COLUMNS_TO_SPLIT else columns


def lower_times(H: Array, A: Array) -> Array:
    """Return H A for a lower triangular H; skipping the zeros above the diagonal saves a quarter of the work."""
    if is_host(H, A):
        return lapack.lower_times(H, A)
    h = _half(H.shape[0])
    return H @ A if h == H.shape[0] else jnp.concatenate([H[:h, :h] @ A[:h], H[h:] @ A])


def lower_gram(H: Array) -> Array:
    """Return HᵀH for a lower triangular H, from the blocks [[A, 0], [C, D]] at half the work."""
    if is_host(H):
        return lapack.lower_gram(H)
    h = _half(H.shape[0])
    if h == H.shape[0]:
        return H.T @ H
    A, C, D = H[:h, :h], H[h:, :h], H[h:, h:]
    side = C.T @ D
    return jnp.block([[A.T @ A + C.T @ C, side], [side.T, D.T @ D]])


def times_upper(A: Array, U: Array) -> Array:
    """Return A U for an upper triangular U; skipping the zeros below the diagonal saves a quarter of the work."""
    if is_host(A, U):
        return A @ U
    h = _half(U.shape[0])
    return jnp.concatenate([A[:, :h] @ U[:h, :h], A @ U[:, h:]], axis=1)


def symmetric_product(A: Array, B: Array) -> Array:
    """Return AᵀB where it is known to be symmetric; blocks above the diagonal are not computed."""
    if is_host(A, B):
        return lapack.symmetric_product(A, B)
    h = _half(A.shape[1])
    top, corner = A[:, :h].T @ B, A[:, h:].T @ B[:, h:]
    return jnp.block([[top[:, :h], top[:, h:]], [top[:, h:].T, corner]])


def weighted_gram(A: Array, w: Array) -> Array:
    """Return Aᵀ diag(w) A."""
    return symmetric_product(A, w[:, None] * A)


def gram(A: Array) -> Array:
    """Return AᵀA."""
    return A.T @ A if is_host(A) else symmetric_product(A, A)


def lower_solve(L: Array, x: Array) -> Array:
    """Return L⁻¹x for a lower triangular L."""
    return lapack.lower_solve(L, x) if is_host(L, x) else solve_triangular(L, x, lower=True)


def lower_transposed_solve(L: Array, x: Array) -> Array:
    """Return L⁻ᵀx for a lower triangular L."""
    return lapack.lower_solve(L, x, True) if is_host(L, x) else solve_triangular(L, x, lower=True, trans=1)


def upper_solve(U: Array, x: Array) -> Array:
    """Return U⁻¹x for an upper triangular U."""
    return lapack.upper_solve(U, x) if is_host(U, x) else solve_triangular(U, x, lower=False)


def scaled_by(A: Array, scale: Array, other: Array | None = None) -> Array:
    """Return diag(other) A diag(scale); `other` is `scale` if it is left out."""
    out, other = A * scale, scale if other is None else other
    if is_host(out):
        out *= other[:, None]
        return out
    return other[:, None] * out


def columns_times(A: Array, scale: Array) -> Array:
    """Return A diag(scale).  A NumPy matrix is changed in place."""
    if is_host(A, scale):
        A *= scale
        return A
    return A * scale


def column_squares(A: Array) -> Array:
    """Return diag(AᵀA), the sum of squares per column."""
    return np.einsum("ij,ij->j", A, A) if is_host(A) else jnp.sum(A * A, axis=0)


def plus(A: Array, B: Array) -> Array:
    """Return A + B.  A NumPy matrix A is changed in place."""
    if is_host(A, B):
        A += B
        return A
    return A + B


def plus_diagonal(A: Array, diagonal: ArrayLike) -> Array:
    """Return A + diag(diagonal).  A NumPy matrix is changed in place."""
    if is_host(A, diagonal):
        np.einsum("ii->i", A)[...] += diagonal
        return A
    return A + jnp.diag(jnp.broadcast_to(jnp.asarray(diagonal, A.dtype), A.shape[:1]))
