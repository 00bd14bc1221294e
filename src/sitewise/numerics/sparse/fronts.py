"""Fronts of a multifrontal factorisation: assembly from the matrix and from the children, and the way back.

A front is three dense blocks, of own variables s and later ones r: F_ss, F_rs, and F_rr, which only children fill.
Symmetric blocks are valid on and below the diagonal.  Arrays are in Fortran's order, and entries are addressed by one
number each: NumPy adds at pairs of indices (`np.ix_`) four times more slowly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from sitewise.numerics.sparse.analysis import Analysis, Block

Front = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # F_ss, F_rs, F_rr; F_rr is None if it is zero


def assembled(analysis: Analysis, t: int, values: np.ndarray, updates: dict[int, np.ndarray]) -> Front:
    """Return the front of block t; takes the updates of its children out of `updates`."""
    block = analysis.blocks[t]
    s, r = block.size, len(block.rows)
    F_ss, F_rs = np.zeros((s, s), order="F"), np.zeros((r, s), order="F")
    F_rr: np.ndarray | None = None
    own = values[block.entry]
    F_ss[block.at[: block.cut], block.column[: block.cut]] = own[: block.cut]
    F_rs[block.at[block.cut :] - s, block.column[block.cut :]] = own[block.cut :]
    for kid in block.kids:
        update = updates.pop(kid, None)
        if update is None:
            continue
        up = analysis.blocks[kid].up
        cut = int(np.searchsorted(up, s))
        inner, outer = up[:cut], up[cut:] - s
        _add(F_ss, inner, inner, update[:cut, :cut])
        if len(outer):
            _add(F_rs, outer, inner, update[cut:, :cut])
            if F_rr is None:
                F_rr = np.zeros((r, r), order="F")
            _add(F_rr, outer, outer, update[cut:, cut:])
    return F_ss, F_rs, F_rr


def _add(F: np.ndarray, rows: np.ndarray, columns: np.ndarray, more: np.ndarray) -> None:
    """Add `more` at the given rows and columns, each of which occurs once."""
    flat = F.reshape(-1, order="F")
    flat[(columns[:, None] * len(F) + rows).reshape(-1)] += more.T.reshape(-1)


def taken(F: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return F at the given rows and columns, in Fortran's order."""
    flat = F.reshape(-1, order="F")
    return flat.take(columns[:, None] * len(F) + rows).T


def minus_square(half: np.ndarray, F: np.ndarray | None) -> np.ndarray:
    """Return F − half halfᵀ on and below the diagonal; F is overwritten."""
    if F is None:
        return blas.dsyrk(-1.0, half, lower=1)
    return blas.dsyrk(-1.0, half, beta=1.0, c=F, lower=1, overwrite_c=1)


def minus_products(X: np.ndarray, G: np.ndarray, F: np.ndarray | None) -> np.ndarray:
    """Return F − X Gᵀ − G Xᵀ on and below the diagonal; F is overwritten."""
    if F is None:
        return blas.dsyr2k(-1.0, X, G, lower=1)
    return blas.dsyr2k(-1.0, X, G, beta=1.0, c=F, lower=1, overwrite_c=1)


class InverseFront(NamedTuple):
    """Σ, or its derivative, on the front of a block: Σ_ss, Σ_rs, and Σ_rr on and below the diagonal."""

    own: np.ndarray
    cross: np.ndarray
    rest: np.ndarray | None

    def read(self, block: Block, out: np.ndarray) -> None:
        """Write the entries of the block's own columns to `out`."""
        at, column, entry, cut = block.at, block.column, block.entry, block.cut
        out[entry[:cut]] = self.own[at[:cut], column[:cut]]
        out[entry[cut:]] = self.cross[at[cut:] - block.size, column[cut:]]

    def for_kid(self, up: np.ndarray) -> np.ndarray:
        """Return Σ at the places `up` of the front, on and below the diagonal."""
        s = len(self.own)
        cut = int(np.searchsorted(up, s))
        inner, outer = up[:cut], up[cut:] - s
        found = np.empty((len(up), len(up)), order="F")
        found[:cut, :cut] = taken(self.own, inner, inner)
        if len(outer):
            assert self.rest is not None
            found[cut:, :cut] = taken(self.cross, outer, inner)
            found[cut:, cut:] = taken(self.rest, outer, outer)
        return found


def inverse_front(inverse: np.ndarray, G: np.ndarray, rest: np.ndarray | None) -> InverseFront:
    """Return Σ on a front, given F_ss⁻¹ and Σ_rr: Σ_rs = −Σ_rr G and Σ_ss = F_ss⁻¹ + Gᵀ Σ_rr G."""
    if rest is None or not len(rest):
        return InverseFront(inverse, np.empty((0, len(inverse))), None)
    cross = blas.dsymm(-1.0, rest, G, lower=1)
    return InverseFront(inverse - G.T @ cross, cross, rest)
