"""Quadratic forms aᵀ Σ a of many sparse vectors a, with Σ the inverse of a factorised matrix.

L⁻¹ a is not zero only on the path from the variables of a to the root of the elimination tree.  The vectors travel up
the tree together, each along its own path: aᵀ Σ a = Σ_t |J_t x_s|² + rest, x_r ← x_r − G x_s.

A vector need not travel to the root.  As soon as everything that is left of it lies in the front of one block, the rest
is xᵀ Σ x on this front, and Takahashi's equations give Σ there.  The vectors of new places on a map end after one or
two blocks.  This costs one pass down the tree, which pays for many vectors.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas

from sitewise.numerics.sparse.analysis import Block
from sitewise.numerics.sparse.factor import Factor
from sitewise.numerics.sparse.fronts import inverse_front
from sitewise.numerics.sparse.independent import Eliminated

MIN_TREE_PASS_SHARE = 0.02  # vectors per variable, above which a pass down the tree pays
MAX_SPARSE_SHARE = 0.1  # of numbers that are not zero, for a sparse product


def quadratic_forms(factor: Factor, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return a_iᵀ Σ a_i, where a_i has the entries weight[i] at the variables index[i]; repeated ones add up."""
    analysis, count = factor.analysis, len(index)
    out = np.zeros(count)
    if not factor.ok:
        return np.full(count, np.nan)
    if not index.size:
        return out
    place = analysis.place[index]
    if factor.first is not None:
        place, weight = _without_first(factor, factor.first, place, weight, out)
    # Entries of weight 0 are moved to the last entry of their vector, so that they touch no block of their own.
    place = np.where(weight != 0, place, -1)
    place = np.where(place < 0, place.max(axis=1, initial=0, keepdims=True), place)
    used = np.any(weight != 0, axis=1)
    stops = count > MIN_TREE_PASS_SHARE * analysis.size
    ended = _upwards(factor, place, weight, np.flatnonzero(used), stops, out)
    if ended:
        _downwards(factor, ended, out)
    return out


def _without_first(
    factor: Factor, first: Eliminated, place: np.ndarray, weight: np.ndarray, out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Eliminate the variables before the blocks: add their share to `out`, return places and weights that are left."""
    count, size = len(place), factor.analysis.size
    a = sp.csr_matrix((weight.ravel(), place.ravel(), np.arange(count + 1) * place.shape[1]), (count, size))
    own = a[:, : first.size]
    own.sum_duplicates()
    out += own.power(2) @ (1.0 / first.d)
    left = sp.csr_matrix(a - (own @ sp.diags(1.0 / first.d)) @ first.matrix(factor.analysis.place))
    left = sp.csr_matrix(left @ sp.diags((np.arange(size) >= first.size).astype(float)))
    left.eliminate_zeros()
    each = np.diff(left.indptr)
    at, column = np.repeat(np.arange(count), each), np.arange(left.nnz) - np.repeat(left.indptr[:-1], each)
    places = np.full((count, max(int(each.max(initial=0)), 1)), size - 1)
    weights = np.zeros(places.shape)
    places[at, column], weights[at, column] = left.indices, left.data
    return places, weights


Ended = dict[int, tuple[np.ndarray, np.ndarray]]  # per block: vectors, and what is left of them on its front


def _upwards(
    factor: Factor, place: np.ndarray, weight: np.ndarray, vectors: np.ndarray, stops: bool, out: np.ndarray
) -> Ended:
    """Eliminate the vectors, adding to `out`; with `stops`, return what is left where one front holds it."""
    blocks = factor.analysis.blocks
    column = np.repeat(vectors, place.shape[1])
    flat, value = place[vectors].ravel(), weight[vectors].ravel()
    ranked = np.argsort(flat, kind="stable")
    column, flat, value = column[ranked], flat[ranked], value[ranked]
    starts = np.searchsorted(flat, [block.start for block in blocks] + [factor.analysis.size])
    gone = np.zeros(len(out), bool)
    held: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    ended: Ended = {}
    first: list[int] = []
    for t, block in enumerate(blocks):
        first.append(min([block.start, *(first[kid] for kid in block.kids)]))
        own = slice(starts[t], starts[t + 1])
        below = [(blocks[kid].up, *held.pop(kid)) for kid in block.kids if kid in held]
        here = ~gone[column[own]]
        mine, at, values = column[own][here], flat[own][here] - block.start, value[own][here]
        active = np.unique(np.concatenate([mine, *(columns for _, columns, _ in below)]))
        if not len(active):
            continue
        s = block.size
        x = np.zeros((s + len(block.rows), len(active)), order="F")
        np.add.at(x, (at, np.searchsorted(active, mine)), values)
        for up, columns, rest in below:
            x[np.ix_(up, np.searchsorted(active, columns))] += rest
        if stops:
            inside, where = _inside(block, first[t], place[active])
            if inside.any():
                later = where >= s
                late_column, late_entry = np.nonzero(later & inside[:, None])
                np.add.at(x, (where[late_column, late_entry], late_column), weight[active[late_column], late_entry])
                ended[t] = active[inside], x[:, inside]
                gone[active[inside]] = True
                active, x = active[~inside], x[:, ~inside]
        if t == len(blocks) - 1 and factor.last is not None:
            out[active] += _forms_of(factor.last.inverse, x[:s])
        else:
            out[active] += np.sum((factor.J[t] @ x[:s]) ** 2, axis=0)
        if len(block.rows) and len(active):
            held[t] = active, x[s:] - factor.G[t] @ x[:s]
    return ended


def _inside(block: Block, first: int, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which vectors lie on the front, apart from variables below it in the tree, and the later places there.

    `first` is the first variable below the block.
    """
    later = place >= block.start + block.size
    if not len(block.rows):
        return np.all(~later & (place >= first), axis=1), np.full_like(place, -1)
    found = np.minimum(np.searchsorted(block.rows, place), len(block.rows) - 1)
    on_front = np.where(later, block.rows[found] == place, place >= first)
    return np.all(on_front, axis=1), np.where(later, found + block.size, -1)


def _downwards(factor: Factor, ended: Ended, out: np.ndarray) -> None:
    """Add xᵀ Σ x on the fronts where vectors ended."""
    blocks = factor.analysis.blocks
    needed = np.zeros(len(blocks), bool)
    for t, block in enumerate(blocks):
        needed[t] = t in ended or any(needed[kid] for kid in block.kids)
    held: dict[int, np.ndarray] = {}
    for t in range(len(blocks) - 1, -1, -1):
        if not needed[t]:
            continue
        front = inverse_front(factor.block_inverse(t), factor.G[t], held.pop(t, None))
        if t in ended:
            vectors, x = ended[t]
            s = blocks[t].size
            out[vectors] += _forms_of(front.own, x[:s])
            if front.rest is not None:
                moved = 2 * (front.cross @ x[:s]) + blas.dsymm(1.0, front.rest, x[s:], lower=1)
                out[vectors] += np.sum(x[s:] * moved, axis=0)
        for kid in blocks[t].kids:
            if needed[kid]:
                held[kid] = front.for_kid(blocks[kid].up)


def _forms_of(S: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return xᵀ S x per column, by a sparse product if few numbers of x are not zero (crossed groups)."""
    if np.count_nonzero(x) > MAX_SPARSE_SHARE * x.size:
        return np.sum(x * (S @ x), axis=0)
    return np.sum(x.T * (sp.csr_matrix(x.T) @ S), axis=1)
