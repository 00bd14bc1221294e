"""Nested dissection: an elimination order in which the Cholesky factor of a sparse matrix has few entries.

The vertices are cut into halves, by coordinates if there are any, and otherwise by a breadth-first order of the graph
(reverse Cuthill–McKee).  A smallest vertex cover of the edges between the halves separates them and is eliminated after
both.  The halves are cut in the same way, down to blocks of `leaf` vertices.  In the plane the factor of n vertices
then has O(n log n) entries and takes O(n^1.5) operations.  For a bipartite graph, such as two crossed groups, the
cover is the smaller side: the larger side is eliminated first, as it should.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from sitewise.numerics.sparse.vertex_cover import edges_from, smallest_cover

DENSE_SHARE = 0.5  # of the pairs of vertices; with more edges a separator is no smaller than the halves


class Piece(NamedTuple):
    """A set of vertices that are eliminated together, after the pieces in `kids` (numbers of earlier pieces)."""

    own: np.ndarray
    kids: list[int]


def dissect(graph: sp.csr_matrix, vertices: np.ndarray, positions: np.ndarray | None, leaf: int) -> list[Piece]:
    """Return pieces that hold every one of `vertices` once; children come before their parent.

    `graph` has a symmetric pattern; `positions` has one row of coordinates per vertex of the graph, or is None.
    """
    pieces: list[Piece] = []
    right = np.zeros(graph.shape[0], bool)

    def build(ids: np.ndarray) -> list[int]:
        """Add the pieces of these vertices; return the numbers of those without a parent."""
        if len(ids) <= leaf or (positions is None and _is_dense(graph, ids, right)):
            return [_add(pieces, ids, [])] if len(ids) else []
        ranked = _along_graph(graph, ids) if positions is None else _along_axis(positions, ids)
        a, b = ids[ranked[: len(ids) // 2]], ids[ranked[len(ids) // 2 :]]
        right[b] = True
        starts, ends = edges_from(graph, a)
        cut = right[ends]
        right[b] = False
        cover = smallest_cover(a[starts[cut]], ends[cut])
        kids = [top for half in (a, b) for top in build(np.setdiff1d(half, cover, assume_unique=True))]
        return [_add(pieces, cover, kids)] if len(cover) else kids

    build(np.asarray(vertices))
    return pieces


def _is_dense(graph: sp.csr_matrix, ids: np.ndarray, mark: np.ndarray) -> bool:
    """Return whether more than DENSE_SHARE of all pairs of these vertices are edges; `mark` is False everywhere."""
    mark[ids] = True
    inside = np.sum(mark[edges_from(graph, ids)[1]])
    mark[ids] = False
    return bool(inside > DENSE_SHARE * len(ids) ** 2)


def _add(pieces: list[Piece], own: np.ndarray, kids: list[int]) -> int:
    pieces.append(Piece(own, kids))
    return len(pieces) - 1


def _along_axis(positions: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the order of the vertices along the coordinate of the largest extent, up to the order within halves."""
    at = positions[ids]
    axis = int(np.argmax(np.ptp(at, axis=0)))
    return np.argpartition(at[:, axis], len(ids) // 2)


def _along_graph(graph: sp.csr_matrix, ids: np.ndarray) -> np.ndarray:
    """Return the vertices in a breadth-first order of the graph among them."""
    return reverse_cuthill_mckee(graph[ids][:, ids].tocsr(), symmetric_mode=True)
