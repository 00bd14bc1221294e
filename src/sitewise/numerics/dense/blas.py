"""Products with a triangular matrix, by NumPy's matrix products of blocks of columns.

NumPy releases Python's lock during a product, so that several threads can multiply blocks of rows at the same time;
SciPy's `blas.dtrmm` holds the lock.  Four blocks of columns need 5/8 of the multiplications of a full product.
"""

from __future__ import annotations

import itertools

import numpy as np

_MAX_BLOCKS = 4
_MIN_BLOCK_COLUMNS = 32  # narrower blocks cost more than they save


def times_upper(A: np.ndarray, U: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Return A U, or A Uᵀ, for an upper triangular U; the lower triangle of U is not used."""
    return times_upper_in_place(np.array(A, np.float64, order="C"), U, transposed)


def times_upper_in_place(A: np.ndarray, U: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Overwrite A, an array in double precision, with A U or A Uᵀ for an upper triangular U, and return A."""
    size = A.shape[1]
    if U.shape != (size, size):
        raise ValueError(f"A table of shape {A.shape} was multiplied by a triangle of shape {U.shape}.")
    U = np.triu(U)
    blocks = min(_MAX_BLOCKS, max(1, size // _MIN_BLOCK_COLUMNS))
    edges = [size * block // blocks for block in range(blocks + 1)]
    spans = list(itertools.pairwise(edges))
    # A block of the product needs the columns of A up to its own end (from its own beginning on, for Uᵀ): blocks are
    # overwritten in the order in which no later block needs them.
    if transposed:
        for begin, end in spans:
            A[:, begin:end] = A[:, begin:] @ U[begin:end, begin:].T
    else:
        for begin, end in reversed(spans):
            A[:, begin:end] = A[:, :end] @ U[:end, begin:end]
    return A
