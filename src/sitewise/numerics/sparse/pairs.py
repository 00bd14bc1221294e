"""Numbers for the distinct pairs among many pairs of variables: the entries of a symmetric matrix."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def distinct_pairs(one: np.ndarray, other: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return i ≥ j of the distinct unordered pairs, by i and then j, and the number of every given pair among them.

    A counting sort by i and short sorts by j: for millions of pairs a third of the time and memory of `numpy.unique`.
    """
    kind = np.int32 if max(size, one.size) < np.iinfo(np.int32).max else np.int64
    high = np.maximum(one, other, dtype=kind, casting="unsafe")
    low = np.minimum(one, other, dtype=kind, casting="unsafe")
    count = len(high)
    each = np.arange(count + 1, dtype=kind)
    by_high = sp.csr_matrix((np.ones(count, np.int8), high, each), (count, size)).tocsc()
    order, ends = by_high.indices, by_high.indptr
    sorted_ = sp.csr_matrix((order, low[order], ends), (size, size))
    sorted_.sort_indices()
    j, order = sorted_.indices, sorted_.data
    new = np.ones(count, bool)
    new[1:] = j[1:] != j[:-1]
    new[ends[:-1][np.diff(ends) > 0]] = True
    number = np.empty(count, kind)
    number[order] = np.cumsum(new, dtype=kind) - 1
    i = np.repeat(np.arange(size), np.diff(ends))[new]
    return i, j[new].astype(np.int64), number
