"""The entries of a matrix that have to be computed: all of them, or about half of those of a symmetric one."""

from __future__ import annotations

import numpy as np

_ROWS = 64  # of a block


class All:
    """Every entry."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape

    def pack(self, matrix: np.ndarray) -> np.ndarray:
        """The entries as a vector."""
        return matrix.ravel()

    def unpack(self, entries: np.ndarray) -> np.ndarray:
        """The matrix of these entries."""
        return entries.reshape(self._shape)

    # The cotangent of a packed matrix adds up what belongs to equal entries.
    pack_sum, unpack_sum = pack, unpack


class Lower:
    """The entries of a symmetric matrix in blocks of rows, each up to the block on the diagonal."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._blocks = [(a, min(a + _ROWS, n)) for a in range(0, n, _ROWS)]

    def pack(self, matrix: np.ndarray) -> np.ndarray:
        return np.concatenate([matrix[a:b, :b].ravel() for a, b in self._blocks])

    def unpack(self, entries: np.ndarray) -> np.ndarray:
        out = self.unpack_sum(entries)
        for a, b in self._blocks:
            out[:a, a:b] = out[a:b, :a].T
        return out

    def pack_sum(self, cotangent: np.ndarray) -> np.ndarray:
        """The cotangent of the packed entries, given that of the matrix, which need not be symmetric."""
        pieces = []
        for a, b in self._blocks:
            piece = cotangent[a:b, :b].copy()
            piece[:, :a] += cotangent[:a, a:b].T
            pieces.append(piece.ravel())
        return np.concatenate(pieces)

    def unpack_sum(self, entries: np.ndarray) -> np.ndarray:
        """A matrix with this cotangent of the packed entries; the others are zero."""
        out, at = np.zeros((self._n, self._n)), 0
        for a, b in self._blocks:
            size = (b - a) * b
            out[a:b, :b] = entries[at : at + size].reshape(b - a, b)
            at += size
        return out
