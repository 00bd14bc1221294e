"""Symbolic analysis of a sparse symmetric matrix: the tree of dense fronts, made once per pattern.

A block v of the elimination tree owns s variables and touches r later ones, its `rows`.  Its front is a dense matrix of
s + r rows and columns.  Variables with dense columns (intercepts, linear effects, hubs) and the multipliers of linear
constraints form the *border*: they are eliminated last, in one dense block, so that they do not fill the factor
(an arrowhead matrix).
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp

from sitewise.numerics.sparse.dissection import Piece, dissect
from sitewise.numerics.sparse.independent import Independent

LEAF_SIZE = 96  # from 48 to 256 the time on a map of 20 000 places differs by a tenth


@dataclasses.dataclass(slots=True)
class Block:
    """One block of the elimination tree, in the order of elimination.

    start, size    its own variables, start … start + size − 1
    rows           later variables that its front touches, increasing
    kids           numbers of its children
    at, column     places in the front of the matrix entries `entry` in its own columns, on or below the diagonal; the
                   first `cut` of them are among its own variables
    up             place of each of `rows` in the front of the parent
    """

    start: int
    size: int
    rows: np.ndarray
    kids: list[int]
    at: np.ndarray
    column: np.ndarray
    entry: np.ndarray
    cut: int
    up: np.ndarray


@dataclasses.dataclass(slots=True, eq=False)
class Analysis:
    """The elimination tree of a symmetric matrix with entries (i, j), and the order of its variables.

    order        variable per place in the order of elimination
    place        place per variable
    i, j         entries on one side of the diagonal, each pair once, the whole diagonal included
    multipliers  number of Lagrange multipliers, the last variables of the order
    first        variables that are eliminated before the tree, and the matrix that they leave to it; or None
    """

    order: np.ndarray
    place: np.ndarray
    i: np.ndarray
    j: np.ndarray
    blocks: list[Block]
    multipliers: int
    first: Independent | None = None

    @property
    def size(self) -> int:
        return len(self.order)

    @property
    def factor_entries(self) -> int:
        """The number of entries of the factor."""
        first = 0 if self.first is None else len(self.first.diagonal) + len(self.first.entry)
        return first + sum(b.size * (b.size + 1) // 2 + b.size * len(b.rows) for b in self.blocks)

    @staticmethod
    def of(
        size: int,
        i: np.ndarray,
        j: np.ndarray,
        positions: np.ndarray | None = None,
        border: np.ndarray | None = None,
        multipliers: np.ndarray | None = None,
        leaf: int = LEAF_SIZE,
        first: np.ndarray | None = None,
    ) -> Analysis:
        """Analyse the pattern with the entries (i[e], j[e]), one of (i, j) and (j, i) each, diagonal included.

        `border` and `multipliers` are numbers of variables that are eliminated last, `first` of those that are
        eliminated before all others, because they have no entries between each other.
        """
        i, j = np.asarray(i), np.asarray(j)
        before = None if first is None or not len(first) else Independent.of(size, i, j, first)
        a, b = (i, j) if before is None else (before.i, before.j)
        none = np.empty(0, np.int64)
        last = np.concatenate([none if border is None else border, none if multipliers is None else multipliers])
        inner = np.ones(size, bool)
        inner[last] = False
        if before is not None:
            inner[before.variables] = False
        both = np.concatenate([a, b]), np.concatenate([b, a])
        graph = sp.csr_matrix((np.ones(len(both[0]), np.int8), both), (size, size))
        pieces = dissect(graph, np.flatnonzero(inner), positions, leaf)
        if len(last):
            taken = {kid for piece in pieces for kid in piece.kids}
            pieces.append(Piece(last, [k for k in range(len(pieces)) if k not in taken]))
        own = none if before is None else before.variables
        order = np.concatenate([own, *(piece.own for piece in pieces)])
        place = np.empty(size, np.int64)
        place[order] = np.arange(size)
        count = 0 if multipliers is None else len(multipliers)
        return Analysis(order, place, i, j, _blocks(pieces, len(own), place[a], place[b]), count, before)


def _blocks(pieces: list[Piece], start: int, i: np.ndarray, j: np.ndarray) -> list[Block]:
    """Return the blocks from the place `start` on, given the places of the entries' rows and columns."""
    high, low = np.maximum(i, j), np.minimum(i, j)
    entries = np.lexsort((high, low))
    high, low = high[entries], low[entries]
    ends = np.cumsum([start] + [len(piece.own) for piece in pieces])
    cuts = np.searchsorted(low, ends)
    blocks: list[Block] = []
    for t, piece in enumerate(pieces):
        first, last = ends[t], ends[t + 1]
        span = slice(cuts[t], cuts[t + 1])
        inner = [blocks[kid].rows for kid in piece.kids]
        touched = np.unique(np.concatenate([high[span], *inner]))
        rows = touched[touched >= last]
        front = np.concatenate([np.arange(first, last), rows])
        for kid in piece.kids:
            blocks[kid].up = np.searchsorted(front, blocks[kid].rows)
        later = high[span] >= last
        inner_first = np.argsort(later, kind="stable")
        at, column = np.searchsorted(front, high[span])[inner_first], (low[span] - first)[inner_first]
        cut, up = int(np.sum(~later)), np.empty(0, np.int64)
        blocks.append(Block(first, last - first, rows, piece.kids, at, column, entries[span][inner_first], cut, up))
    return blocks
