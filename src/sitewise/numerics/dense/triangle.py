"""Pack the entries of a matrix that must be computed into a vector: all entries, or the lower blocks if symmetric."""

from __future__ import annotations

import numpy as np

_BLOCK_ROWS = 64


class All:
    """All entries of a matrix."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self._shape = shape

    def pack(self, matrix: np.ndarray) -> np.ndarray:
        """Return the entries as a vector."""
        return matrix.ravel()

    def unpack(self, entries: np.ndarray) -> np.ndarray:
        """Return the matrix with these entries."""
        return entries.reshape(self._shape)

    # Every entry is packed once, so cotangents are packed and unpacked like the entries.
    pack_sum, unpack_sum = pack, unpack


class Lower:
    """The entries of a symmetric n × n matrix in blocks of rows, each up to and including the diagonal block."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._blocks = [(a, min(a + _BLOCK_ROWS, n)) for a in range(0, n, _BLOCK_ROWS)]

    def pack(self, matrix: np.ndarray) -> np.ndarray:
        """Return the lower blocks as a vector."""
        return np.concatenate([matrix[a:b, :b].ravel() for a, b in self._blocks])

    def unpack(self, entries: np.ndarray) -> np.ndarray:
        """Return the symmetric matrix with these lower blocks."""
        out = self.unpack_sum(entries)
        for a, b in self._blocks:
            out[:a, a:b] = out[a:b, :a].T
        return out

    def pack_sum(self, cotangent: np.ndarray) -> np.ndarray:
        """Return the cotangent of the packed entries, given the cotangent of the matrix, symmetric or not."""
        pieces = []
        for a, b in self._blocks:
            piece = cotangent[a:b, :b].copy()
            piece[:, :a] += cotangent[:a, a:b].T
            pieces.append(piece.ravel())
        return np.concatenate(pieces)

    def unpack_sum(self, entries: np.ndarray) -> np.ndarray:
        """Return a matrix with the cotangent of the packed entries in their places, and zeros elsewhere."""
        out, at = np.zeros((self._n, self._n)), 0
        for a, b in self._blocks:
            size = (b - a) * b
            out[a:b, :b] = entries[at : at + size].reshape(b - a, b)
            at += size
        return out
