"""LAPACK and BLAS calls for NumPy matrices in double precision and row-major (C) order, without copies.

LAPACK expects column-major order.  A lower triangular row-major matrix is therefore passed as its transpose, an upper
triangular column-major matrix in the same memory.

SciPy holds Python's lock during a call, NumPy releases it during a matrix product.  Large matrices are therefore
computed by NumPy's products of blocks: several threads can then fit models at the same time.  Blocks take as long as
LAPACK's routines, and an inverse by blocks takes three quarters of the time of recursive halving.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
from scipy.linalg import blas, lapack

_BLOCK_ROWS = 128
_MAX_LAPACK_ROWS = 512  # larger matrices are for NumPy, which releases Python's lock


def cholesky(a: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor; NaN if `a` is not positive definite.  `a` may be overwritten."""
    if len(a) > _MAX_LAPACK_ROWS:
        try:
            return np.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            return np.full(a.shape, np.nan)
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
    """Return L⁻¹ by blocks of rows, [[A, 0], [C, D]]⁻¹ = [[A⁻¹, 0], [−D⁻¹CA⁻¹, D⁻¹]] with A of all rows so far.

    The zeros of A⁻¹ are left out in blocks.
    """
    out = np.zeros(L.shape)
    for begin, end in _blocks(len(L)):
        own = out[begin:end, begin:end]
        _invert(L[begin:end, begin:end], own)
        left = -own @ L[begin:end, :begin]
        for low, high in _blocks(begin):
            np.matmul(left[:, low:], out[low:begin, low:high], out=out[begin:end, low:high])
    return out


def _blocks(n: int) -> list[tuple[int, int]]:
    """Return the begin and the end of every block of n rows."""
    return [(begin, min(begin + _BLOCK_ROWS, n)) for begin in range(0, n, _BLOCK_ROWS)]


def _invert(L: np.ndarray, out: np.ndarray) -> None:
    """Write L⁻¹ to `out`, which is zero above the diagonal, by recursive halving."""
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
    """Return HᵀH for a lower triangular H; of a large one, blocks below the diagonal and their mirror image."""
    n = len(H)
    if n <= _MAX_LAPACK_ROWS:
        product, _ = lapack.dlauum(H.T, lower=0)
        return mirrored(product.T)
    out = np.empty((n, n))
    for low, high in _blocks(n):
        for begin, end in _blocks(n - low):
            rows = slice(low + begin, low + end)
            np.matmul(H[rows.start :, rows].T, H[rows.start :, low:high], out=out[rows, low:high])
            if begin:
                out[low:high, rows] = out[rows, low:high].T
    return out


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
    """Return H A for a lower triangular H, by blocks of rows."""
    out = np.empty((len(H), A.shape[1]))
    for begin, end in _blocks(len(H)):
        np.matmul(H[begin:end, :end], A[:end], out=out[begin:end])
    return out
