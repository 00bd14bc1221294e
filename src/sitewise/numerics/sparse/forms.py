"""Quadratic forms aᵀ Σ a of many sparse vectors a, with Σ the inverse of a factorised matrix.

L⁻¹ a is not zero only on the path from the variables of a to the root of the elimination tree.  The vectors therefore
travel up the tree together, each along its own path: aᵀ Σ a = Σ_t |J_t x_s|², x_r ← x_r − G x_s.
"""

from __future__ import annotations

import numpy as np

from sitewise.numerics.sparse.factor import Factor


def quadratic_forms(factor: Factor, index: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return a_iᵀ Σ a_i, where a_i has the entries weight[i] at the variables index[i]; repeated ones add up."""
    analysis, count = factor.analysis, len(index)
    out = np.zeros(count)
    if not factor.ok:
        return np.full(count, np.nan)
    if not index.size:
        return out
    column = np.repeat(np.arange(count), index.shape[1])
    place, value = analysis.place[index.ravel()], weight.ravel()
    kept = value != 0
    column, place, value = column[kept], place[kept], value[kept]
    ranked = np.argsort(place, kind="stable")
    column, place, value = column[ranked], place[ranked], value[ranked]
    starts = np.searchsorted(place, [block.start for block in analysis.blocks] + [analysis.size])
    held: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for t, block in enumerate(analysis.blocks):
        own = slice(starts[t], starts[t + 1])
        below = [(analysis.blocks[kid].up, *held.pop(kid)) for kid in block.kids if kid in held]
        active = np.unique(np.concatenate([column[own], *(columns for _, columns, _ in below)]))
        if not len(active):
            continue
        s = block.size
        x = np.zeros((s + len(block.rows), len(active)))
        np.add.at(x, (place[own] - block.start, np.searchsorted(active, column[own])), value[own])
        for up, columns, rest in below:
            x[np.ix_(up, np.searchsorted(active, columns))] += rest
        if factor.last is not None and t == len(analysis.blocks) - 1:
            out[active] += np.sum(x[:s] * (factor.last.inverse @ x[:s]), axis=0)
        else:
            out[active] += np.sum((factor.J[t] @ x[:s]) ** 2, axis=0)
        if len(block.rows):
            held[t] = active, x[s:] - factor.G[t] @ x[:s]
    return out
