"""Dense algebra of NumPy matrices in double precision by LAPACK and BLAS, in the order of C.

LAPACK reads columns where C stores rows: the transpose of a lower triangular matrix is passed as an upper triangular
one, and nothing is copied.
"""

from __future__ import annotations

import functools

import numpy as np
from scipy.linalg import blas, lapack


def cholesky(a: np.ndarray) -> np.ndarray:
    """Lower Cholesky factor; NaN where `a` is not positive definite.  `a` is overwritten."""
    factor, info = lapack.dpotrf(np.ascontiguousarray(a).T, lower=0, clean=1, overwrite_a=1)
    if info != 0:
        return np.full(a.shape, np.nan)
    return factor.T


def lower_solve(L: np.ndarray, x: np.ndarray, transposed: bool = False) -> np.ndarray:
    """L⁻¹x, or L⁻ᵀx."""
    if x.ndim == 1:
        return blas.dtrsv(L.T, x, lower=0, trans=0 if transposed else 1)
    # Xᵀ Lᵀ⁻¹ in C's order is what BLAS sees as a product from the right.
    return blas.dtrsm(1.0, L.T, np.ascontiguousarray(x).T, side=1, lower=0, trans_a=1 if transposed else 0).T


def upper_solve(U: np.ndarray, x: np.ndarray) -> np.ndarray:
    """U⁻¹x for a vector x."""
    return lower_solve(np.ascontiguousarray(U.T), x, True)


_LEAF = 64  # rows of a triangle that is inverted directly


def lower_inverse(L: np.ndarray) -> np.ndarray:
    """L⁻¹ by halves, [[A, 0], [C, D]]⁻¹ = [[A⁻¹, 0], [−D⁻¹CA⁻¹, D⁻¹]]: LAPACK's own takes twice as long at n = 281."""
    out = np.zeros(L.shape)
    _invert(L, out)
    return out


def _invert(L: np.ndarray, out: np.ndarray) -> None:
    n = len(L)
    if n <= _LEAF:
        out[:] = lapack.dtrtri(L.T, lower=0)[0].T
        return
    h = n // 2
    _invert(L[:h, :h], out[:h, :h])
    _invert(L[h:, h:], out[h:, h:])
    np.matmul(out[h:, h:] @ L[h:, :h], out[:h, :h], out=out[h:, :h])
    np.negative(out[h:, :h], out=out[h:, :h])


@functools.lru_cache(maxsize=1)
def _above(n: int) -> np.ndarray:
    return np.triu(np.ones((n, n), bool), 1)


def mirrored(a: np.ndarray) -> np.ndarray:
    """`a` with its lower triangle copied to the upper one, in place."""
    np.copyto(a, a.T, where=_above(len(a)))
    return a


def lower_gram(H: np.ndarray) -> np.ndarray:
    """HᵀH for a lower triangular H."""
    product, _ = lapack.dlauum(H.T, lower=0)
    return mirrored(product.T)


def lower_times(H: np.ndarray, A: np.ndarray) -> np.ndarray:
    """H A for a lower triangular H."""
    return blas.dtrmm(1.0, H.T, np.ascontiguousarray(A).T, side=1, lower=0).T
