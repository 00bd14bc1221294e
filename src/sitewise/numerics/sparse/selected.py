"""Entries of the inverse on the pattern of a factorised matrix, and of its derivatives.

Parents first, with Σ the inverse, s the own and r the later variables of a block (Takahashi's equations by blocks):

    Σ_rs = −Σ_rr G,     Σ_ss = F_ss⁻¹ + Gᵀ Σ_rr G

The derivative of the inverse in the direction M, −ΣMΣ, follows by differentiating the factorisation and these
equations.  With dots for the derivatives of the fronts, and U the update of a block,

    U̇ = Ḟ_rr − Ḟ_rs Gᵀ − G Ḟ_rsᵀ + G Ḟ_ss Gᵀ,     Ġ = (Ḟ_rs − G Ḟ_ss) F_ss⁻¹
    Σ̇_rs = −Σ̇_rr G − Σ_rr Ġ,                        Σ̇_ss = −F_ss⁻¹ Ḟ_ss F_ss⁻¹ + Gᵀ Σ̇_rr G + Ġᵀ Σ_rr G + Gᵀ Σ_rr Ġ

It costs about three factorisations, and gives (Σ∘Σ) x without a row of Σ.
"""

from __future__ import annotations

import numpy as np

from sitewise.numerics.sparse.factor import Factor, add_update


def inverse_on_pattern(factor: Factor) -> np.ndarray:
    """Return the entries of the inverse at the entries (i, j) of the analysis."""
    blocks = factor.analysis.blocks
    out = np.empty(len(factor.analysis.i))
    held: dict[int, np.ndarray] = {}
    for t in range(len(blocks) - 1, -1, -1):
        block, G = blocks[t], factor.G[t]
        s, r = block.size, len(block.rows)
        front = np.empty((s + r, s + r))
        front[:s, :s] = factor.block_inverse(t)
        if r:
            rest = held.pop(t)
            SG = rest @ G
            front[:s, :s] += G.T @ SG
            front[s:, :s] = -SG
            front[:s, s:] = -SG.T
            front[s:, s:] = rest
        out[block.entry] = front[block.at, block.column]
        for kid in block.kids:
            up = blocks[kid].up
            held[kid] = front[np.ix_(up, up)]
    return out


def product_on_pattern(factor: Factor, direction: np.ndarray) -> np.ndarray:
    """Return the entries of Σ M Σ, with M symmetric and `direction` its values at the entries (i, j)."""
    slopes = _forward(factor, direction)
    blocks = factor.analysis.blocks
    out = np.empty(len(factor.analysis.i))
    held: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for t in range(len(blocks) - 1, -1, -1):
        block, G = blocks[t], factor.G[t]
        s, r = block.size, len(block.rows)
        own = factor.block_inverse(t)
        F_dot, G_dot = slopes[t]
        front, dot = np.empty((s + r, s + r)), np.empty((s + r, s + r))
        front[:s, :s], dot[:s, :s] = own, -own @ F_dot @ own
        if r:
            rest, rest_dot = held.pop(t)
            SG, SG_dot = rest @ G, rest_dot @ G + rest @ G_dot
            both = G_dot.T @ SG
            front[:s, :s] += G.T @ SG
            dot[:s, :s] += G.T @ (SG_dot - rest @ G_dot) + both + both.T
            front[s:, :s], dot[s:, :s] = -SG, -SG_dot
            front[:s, s:], dot[:s, s:] = -SG.T, -SG_dot.T
            front[s:, s:], dot[s:, s:] = rest, rest_dot
        out[block.entry] = -dot[block.at, block.column]
        for kid in block.kids:
            places = np.ix_(blocks[kid].up, blocks[kid].up)
            held[kid] = front[places], dot[places]
    return out


def _forward(factor: Factor, direction: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return Ḟ_ss and Ġ of every block."""
    out: list[tuple[np.ndarray, np.ndarray]] = []
    updates: dict[int, np.ndarray] = {}
    blocks = factor.analysis.blocks
    for t, block in enumerate(blocks):
        s, r, G = block.size, len(block.rows), factor.G[t]
        F = np.zeros((s + r, s + r), order="F")
        F[block.at, block.column] = direction[block.entry]
        for kid in block.kids:
            add_update(F, blocks[kid].up, updates.pop(kid, None))
        own = np.tril(F[:s, :s]) + np.tril(F[:s, :s], -1).T
        if not r:
            out.append((own, G))
            continue
        GF, F_rs = G @ own, F[s:, :s]
        cross = (F_rs - 0.5 * GF) @ G.T
        updates[t] = F[s:, s:] - cross - cross.T  # only the lower triangle of F_rr is assembled, and only it is used
        out.append((own, (F_rs - GF) @ factor.block_inverse(t)))
    return out
