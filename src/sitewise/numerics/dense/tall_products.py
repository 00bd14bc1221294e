"""Products of a block of rows with small square matrices, on NumPy or JAX arrays.

On NumPy arrays triangles and symmetric products cost half of what full products do, and temporaries of the size of the
block are written to memory that is used again: memory that is new to the process costs more than the numbers in it.
"""

from __future__ import annotations

import threading

import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array, is_host
from sitewise.numerics.dense import blas, triangular

_MANY = 128  # columns, from which two triangles of a product take less time than one square
_kept = threading.local()
_LARGEST = 2**19  # numbers that a thread keeps room for


def _scratch(shape: tuple[int, ...]) -> np.ndarray:
    """An array of this thread whose content lasts until the next call; it must not be returned to anybody."""
    size = int(np.prod(shape))
    if size > _LARGEST:
        return np.empty(shape)
    room = getattr(_kept, "room", None)
    if room is None or room.size < size:
        _kept.room = room = np.empty(size)
    return room[:size].reshape(shape)


def times_upper(A: Array, U: Array) -> Array:
    """A U for an upper triangular U."""
    return blas.times_upper(A, U) if is_host(A, U) else triangular.times_upper(A, U)


def times_transposed_upper(A: Array, U: Array) -> Array:
    """A Uᵀ for an upper triangular U."""
    return blas.times_upper(A, U, transposed=True) if is_host(A, U) else A @ U.T


def plus_product(C: Array, A: Array, B: Array) -> Array:
    """C + A B, in the place of C where arrays are NumPy's."""
    if not is_host(C, A, B):
        return C + A @ B
    C += np.matmul(A, B, out=_scratch(C.shape))
    return C


def weighted_gram(A: Array, w: Array) -> Array:
    """Aᵀ diag(w) A."""
    if not is_host(A, w):
        return triangular.weighted_gram(A, w)
    below = w < 0
    if not np.any(below):
        half = np.multiply(np.sqrt(w)[:, None], A, out=_scratch(A.shape))
        return half.T @ half  # NumPy computes one triangle of the product of a matrix with its own transpose
    if A.shape[1] < _MANY:
        return A.T @ np.multiply(w[:, None], A, out=_scratch(A.shape))
    return weighted_gram(A[~below], w[~below]) - weighted_gram(A[below], -w[below])


def row_products(A: Array, B: Array) -> Array:
    """diag A Bᵀ."""
    return np.einsum("ij,ij->i", A, B) if is_host(A, B) else jnp.sum(A * B, axis=1)


def row_squares(A: Array, U: Array) -> Array:
    """diag A U Uᵀ Aᵀ for an upper triangular U."""
    C = _times_upper_here(A, U) if is_host(A, U) else triangular.times_upper(A, U)
    return row_products(C, C)


def row_forms(A: Array, Q: Array) -> Array:
    """diag A Q Aᵀ for a symmetric Q."""
    if not is_host(A, Q):
        return row_products(A @ Q, A)
    upper = np.triu(Q)
    upper.ravel()[:: len(Q) + 1] *= 0.5
    return 2 * row_products(_times_upper_here(A, upper), A)


def _times_upper_here(A: np.ndarray, U: np.ndarray) -> np.ndarray:
    """A U in the room of this thread."""
    room = _scratch(A.shape)
    room[:] = A
    return blas.times_upper_in_place(room, U)
