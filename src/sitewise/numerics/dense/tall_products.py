"""Products of tall matrices (many rows) with small square matrices, on NumPy or JAX arrays.

On NumPy arrays triangular and symmetric products cost half of a full product.  Temporaries of the size of the tall
matrix are written to memory that is reused: obtaining new memory takes longer than computing its content.
"""

from __future__ import annotations

import threading

import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array, is_host
from sitewise.numerics.dense import blas, triangular

_MIN_COLUMNS_TO_SPLIT = 128  # from this number of columns on, two symmetric products take less time than a full one
_thread_memory = threading.local()
_MAX_SCRATCH_SIZE = 2**19  # numbers per thread in memory that is reused; larger temporaries are allocated


def _scratch(shape: tuple[int, ...]) -> np.ndarray:
    """Return a temporary array of this thread, which the next call overwrites; never return it from this module."""
    size = int(np.prod(shape))
    if size > _MAX_SCRATCH_SIZE:
        return np.empty(shape)
    buffer = getattr(_thread_memory, "buffer", None)
    if buffer is None or buffer.size < size:
        _thread_memory.buffer = buffer = np.empty(size)
    return buffer[:size].reshape(shape)


def times_upper(A: Array, U: Array) -> Array:
    """Return A U for an upper triangular U."""
    return blas.times_upper(A, U) if is_host(A, U) else triangular.times_upper(A, U)


def times_transposed_upper(A: Array, U: Array) -> Array:
    """Return A Uᵀ for an upper triangular U."""
    return blas.times_upper(A, U, transposed=True) if is_host(A, U) else A @ U.T


def plus_product(C: Array, A: Array, B: Array) -> Array:
    """Return C + A B.  A NumPy matrix C is changed in place."""
    if not is_host(C, A, B):
        return C + A @ B
    C += np.matmul(A, B, out=_scratch(C.shape))
    return C


def weighted_gram(A: Array, w: Array) -> Array:
    """Return Aᵀ diag(w) A."""
    if not is_host(A, w):
        return triangular.weighted_gram(A, w)
    negative = w < 0
    if not np.any(negative):
        half = np.multiply(np.sqrt(w)[:, None], A, out=_scratch(A.shape))
        return half.T @ half  # NumPy computes one triangle of the product of a matrix with its own transpose
    if A.shape[1] < _MIN_COLUMNS_TO_SPLIT:
        return A.T @ np.multiply(w[:, None], A, out=_scratch(A.shape))
    return weighted_gram(A[~negative], w[~negative]) - weighted_gram(A[negative], -w[negative])


def row_products(A: Array, B: Array) -> Array:
    """Return diag A Bᵀ."""
    return np.einsum("ij,ij->i", A, B) if is_host(A, B) else jnp.sum(A * B, axis=1)


def row_squares(A: Array, U: Array) -> Array:
    """Return diag A U Uᵀ Aᵀ for an upper triangular U."""
    C = _times_upper_in_scratch(A, U) if is_host(A, U) else triangular.times_upper(A, U)
    return row_products(C, C)


def row_forms(A: Array, Q: Array) -> Array:
    """Return diag A Q Aᵀ for a symmetric Q."""
    if not is_host(A, Q):
        return row_products(A @ Q, A)
    upper = np.triu(Q)
    upper.ravel()[:: len(Q) + 1] *= 0.5
    return 2 * row_products(_times_upper_in_scratch(A, upper), A)


def _times_upper_in_scratch(A: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return A U in a temporary array of this thread (`_scratch`)."""
    product = _scratch(A.shape)
    product[:] = A
    return blas.times_upper_in_place(product, U)
