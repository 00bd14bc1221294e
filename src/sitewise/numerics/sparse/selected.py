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
from scipy.linalg import blas

from sitewise.numerics.sparse.factor import Factor
from sitewise.numerics.sparse.fronts import InverseFront, assembled, inverse_front, minus_products


def inverse_on_pattern(factor: Factor) -> np.ndarray:
    """Return the entries of the inverse at the entries (i, j) of the analysis."""
    blocks, first = factor.analysis.blocks, factor.analysis.first
    out = np.empty(len(factor.analysis.i if first is None else first.i))
    held: dict[int, np.ndarray] = {}
    for t in range(len(blocks) - 1, -1, -1):
        front = inverse_front(factor.block_inverse(t), factor.G[t], held.pop(t, None))
        front.read(blocks[t], out)
        for kid in blocks[t].kids:
            held[kid] = front.for_kid(blocks[kid].up)
    return out if factor.first is None else factor.first.inverse(out, len(factor.analysis.i))


def product_on_pattern(factor: Factor, direction: np.ndarray) -> np.ndarray:
    """Return the entries of Σ M Σ, with M symmetric and `direction` its values at the entries (i, j)."""
    first, blocks = factor.first, factor.analysis.blocks
    slopes = _forward(factor, direction if first is None else first.reduced_dot(direction))
    out = np.empty(len(direction if first is None else first.pattern.i))
    inverse_out = np.empty_like(out)
    held: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for t in range(len(blocks) - 1, -1, -1):
        G, inverse, (F_dot, G_dot) = factor.G[t], factor.block_inverse(t), slopes[t]
        rest, rest_dot = held.pop(t, (None, None))
        front = inverse_front(inverse, G, rest)
        own, cross = inverse @ F_dot @ inverse, front.cross
        if front.rest is not None:
            moved, both = blas.dsymm(1.0, rest_dot, G, lower=1), G_dot.T @ front.cross
            cross = blas.dsymm(-1.0, rest, G_dot, beta=-1.0, c=moved, lower=1)
            own += both + both.T - G.T @ moved
        # The derivative of the inverse has the opposite sign.
        dot = InverseFront(-own, cross, rest_dot)
        dot.read(blocks[t], out)
        front.read(blocks[t], inverse_out)
        for kid in blocks[t].kids:
            held[kid] = front.for_kid(blocks[kid].up), dot.for_kid(blocks[kid].up)
    return -out if first is None else -first.inverse_dot(inverse_out, out, direction)


def _forward(factor: Factor, direction: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return Ḟ_ss and Ġ of every block."""
    out: list[tuple[np.ndarray, np.ndarray]] = []
    updates: dict[int, np.ndarray] = {}
    for t, block in enumerate(factor.analysis.blocks):
        F_ss, F_rs, F_rr = assembled(factor.analysis, t, direction, updates)
        own, G = np.tril(F_ss) + np.tril(F_ss, -1).T, factor.G[t]
        if not len(block.rows):
            out.append((own, G))
            continue
        GF = G @ own
        updates[t] = minus_products(F_rs - 0.5 * GF, G, F_rr)
        out.append((own, (F_rs - GF) @ factor.block_inverse(t)))
    return out
