"""LAPACK and BLAS calls for NumPy matrices in double precision and row-major (C) order, without copies.

LAPACK expects column-major order.  A lower triangular row-major matrix is therefore passed as its transpose, an upper
triangular column-major matrix in the same memory.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
from scipy.linalg import blas, lapack


def cholesky(a: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor; NaN if `a` is not positive definite.  `a` is overwritten."""
    factor, info = lapack.dpotrf(np.ascontiguousarray(a).T, lower=0, clean=1, overwrite_a=1)
    if info != 0:
        return np.full(a.shape, np.nan)
    return factor.T


def lower_solve(L: np.ndarray, x: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Return L⁻¹x, or L⁻ᵀx if `transposed`."""
    if x.ndim == 1:
        return blas.dtrsv(L.T, x, lower=0, trans=0 if transposed else 1)
    # In column-major order the system is Xᵀ Lᵀ⁻¹, a solve from the right.
    return blas.dtrsm(1.0, L.T, np.ascontiguousarray(x).T, side=1, lower=0, trans_a=1 if transposed else 0).T


def upper_solve(U: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return U⁻¹x for a vector x."""
    return lower_solve(np.ascontiguousarray(U.T), x, True)


_MAX_DIRECT_ROWS = 64  # triangles of at most this number of rows are inverted by LAPACK directly


def lower_inverse(L: np.ndarray) -> np.ndarray:
    """Return L⁻¹ by recursive halving, [[A, 0], [C, D]]⁻¹ = [[A⁻¹, 0], [−D⁻¹CA⁻¹, D⁻¹]].

    LAPACK's inverse of the whole triangle takes twice as long at n = 281.
    """
    out = np.zeros(L.shape)
    _invert(L, out)
    return out


def _invert(L: np.ndarray, out: np.ndarray) -> None:
    """Write L⁻¹ to `out`, which is zero above the diagonal."""
    n = len(L)
    if n <= _MAX_DIRECT_ROWS:
        out[:] = lapack.dtrtri(L.T, lower=0)[0].T
        return
    h = n // 2
    _invert(L[:h, :h], out[:h, :h])
    _invert(L[h:, h:], out[h:, h:])
    np.matmul(out[h:, h:] @ L[h:, :h], out[:h, :h], out=out[h:, :h])
    np.negative(out[h:, :h], out=out[h:, :h])


@functools.lru_cache(maxsize=1)
def _above_diagonal(n: int) -> np.ndarray:
    """Return the mask of the entries above the diagonal."""
    return np.triu(np.ones((n, n), bool), 1)


def mirrored(a: np.ndarray) -> np.ndarray:
    """Copy the lower triangle of `a` to its upper triangle, in place."""
    np.copyto(a, a.T, where=_above_diagonal(len(a)))
    return a


def lower_gram(H: np.ndarray) -> np.ndarray:
    """Return HᵀH for a lower triangular H."""
    product, _ = lapack.dlauum(H.T, lower=0)
    return mirrored(product.T)


_MIN_SYMMETRIC_ROWS, _SYMMETRIC_BLOCKS = 512, 6  # smaller products are faster in one piece


def symmetric_product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return AᵀB where it is known to be symmetric: blocks of columns below the diagonal, and their mirror image."""
    n = A.shape[1]
    if n < _MIN_SYMMETRIC_ROWS:
        return A.T @ B
    out, ends = np.empty((n, n)), np.linspace(0, n, _SYMMETRIC_BLOCKS + 1).astype(int)
    for low, high in itertools.pairwise(ends):
        np.matmul(A[:, low:].T, B[:, low:high], out=out[low:, low:high])
        out[low:high, high:] = out[high:, low:high].T
    return out


def lower_times(H: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Return H A for a lower triangular H."""
    return blas.dtrmm(1.0, H.T, np.ascontiguousarray(A).T, side=1, lower=0).T
