"""Smallest vertex covers of bipartite graphs: the smallest separators of two sets of vertices.

A set of vertices that touches every edge between two halves of a graph separates the halves.  By König's theorem the
smallest one has as many vertices as a maximum matching, and follows from it: with U the unmatched left vertices and R
everything that alternating paths from U reach, the cover is (left \\ R) ∪ (right ∩ R).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_bipartite_matching


def edges_from(graph: sp.csr_matrix, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges that start at the given vertices: places of the starts in `vertices`, and the ends."""
    count = graph.indptr[vertices + 1] - graph.indptr[vertices]
    before = np.cumsum(count) - count
    entry = np.arange(count.sum()) + np.repeat(graph.indptr[vertices] - before, count)
    return np.repeat(np.arange(len(vertices)), count), graph.indices[entry]


def smallest_cover(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return a smallest set of vertices that touches all edges (starts[e], ends[e]) of a bipartite graph.

    Vertices are numbers; no number occurs on both sides.
    """
    left_name, i = np.unique(starts, return_inverse=True)
    right_name, j = np.unique(ends, return_inverse=True)
    if not len(i):
        return np.empty(0, np.int64)
    if len(left_name) > len(right_name):  # paths from unmatched vertices of the larger side take many times as long
        left_name, i, right_name, j = right_name, j, left_name, i
    graph = sp.csr_matrix((np.ones(len(i), np.int8), (i, j)), (len(left_name), len(right_name)))
    mate = maximum_bipartite_matching(graph, perm_type="column")
    matched = mate >= 0
    mate_of_right = np.full(len(right_name), -1)
    mate_of_right[mate[matched]] = np.flatnonzero(matched)
    left, right, front = ~matched, np.zeros(len(right_name), bool), np.flatnonzero(~matched)
    while len(front):
        reached = np.unique(edges_from(graph, front)[1])
        reached = reached[~right[reached]]
        right[reached] = True
        front = mate_of_right[reached]  # each has a mate, because the matching is maximal
        front = front[~left[front]]
        left[front] = True
    return np.concatenate([left_name[~left], right_name[right]])
