"""Products with a triangular matrix, by BLAS, outside of Python's lock.

SciPy's `blas.dtrmm` holds the lock while it computes, so that blocks of rows on two threads would take turns.  Here the
same routine is called by its address, which SciPy gives to compiled code (`scipy.linalg.cython_blas`); ctypes lets go
of the lock.
"""

from __future__ import annotations

import ctypes

import numpy as np
from scipy.linalg import cython_blas

_get_name = ctypes.pythonapi.PyCapsule_GetName
_get_name.restype, _get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

_CHAR, _INT, _DOUBLE = ctypes.c_char_p, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_double)
_ONE = ctypes.byref(ctypes.c_double(1.0))


def _address(name: str) -> int:
    capsule = cython_blas.__pyx_capi__[name]
    return _get_pointer(capsule, _get_name(capsule))


# side, uplo, transa, diag; m, n; alpha; a, lda; b, ldb
_dtrmm = ctypes.CFUNCTYPE(
    None, _CHAR, _CHAR, _CHAR, _CHAR, _INT, _INT, _DOUBLE, ctypes.c_void_p, _INT, ctypes.c_void_p, _INT
)(_address("dtrmm"))


def times_upper(A: np.ndarray, U: np.ndarray, transposed: bool = False) -> np.ndarray:
    """A U, or A Uᵀ, for an upper triangular U: half the multiplications of a product of full matrices."""
    return times_upper_in_place(np.array(A, np.float64, order="C"), U, transposed)


def times_upper_in_place(A: np.ndarray, U: np.ndarray, transposed: bool = False) -> np.ndarray:
    """As `times_upper`, in the place of A: contiguous double-precision numbers that may be written."""
    U = np.asarray(U, np.float64)
    if not (U.flags.f_contiguous or U.flags.c_contiguous):
        U = np.ascontiguousarray(U)
    rows, size = A.shape
    if U.shape != (size, size):
        raise ValueError(f"A table of shape {A.shape} was multiplied by a triangle of shape {U.shape}.")
    if A.dtype != np.float64 or not A.flags.c_contiguous or not A.flags.writeable:
        raise ValueError("A product in place needs contiguous double-precision numbers that may be written.")
    # BLAS reads columns where C stores rows: it computes UᵀAᵀ (or UAᵀ), and reads a U stored by rows as Uᵀ.
    by_columns = U.flags.f_contiguous
    m, n = ctypes.byref(ctypes.c_int(size)), ctypes.byref(ctypes.c_int(rows))
    if A.size:
        _dtrmm(
            b"L", b"U" if by_columns else b"L", b"T" if by_columns != transposed else b"N", b"N",
            m, n, _ONE, U.ctypes.data, m, A.ctypes.data, m,
        )  # fmt: skip
    return A
