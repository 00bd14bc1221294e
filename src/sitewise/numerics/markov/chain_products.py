"""Products with the posterior covariance Σ of a Markov chain, and with Σ∘Σ, by two recursions each.

In the notation of `filtering`, with g_k = h/c − Lᵀ N_{k+1} d, where L and d belong to the step from row i or k,

    Σ_ij = d_iᵀ L_{i+1}ᵀ … L_{j−1}ᵀ g_j  for i < j,        Σ_ii = var_i

Σ x therefore follows from two recursions of vectors, and (Σ∘Σ) x from the same recursions of matrices:

    u_{k+1} = L u_k + x_k d,             v_k = Lᵀ v_{k+1} + x_k g_k,           (Σ x)_k = g_kᵀu_k + var_k x_k + dᵀv_{k+1}
    U_{k+1} = L U_k Lᵀ + x_k d dᵀ,       V_k = Lᵀ V_{k+1} L + x_k g_k g_kᵀ,     g_kᵀU_k g_k + var_k² x_k + dᵀV_{k+1} d
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jax import lax

from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.arrays.sweeps import sweep
from sitewise.numerics.dense.small_matrices import apply, times
from sitewise.numerics.markov.filtering import Smoothed
from sitewise.numerics.markov.recursions import matrix_backward, matrix_forward, vector_backward, vector_forward


class Generators(NamedTuple):
    """The arrays that generate Σ: d, g and L with rows + 1 entries (see `filtering`), and the variance of each row."""

    d: Array
    g: Array
    L: Array
    var: Array

    @staticmethod
    def of(out: Smoothed) -> Generators:
        return Generators(out.filtered.d, out.g, out.filtered.L, out.var)


def _with_empty_row(x: Array, g: Array) -> Array:
    """Put a zero before x for the empty row 0 of a chain's arrays (see `filtering`)."""
    xp = namespace(x, g)
    return xp.concatenate([xp.zeros(1, g.dtype), x])


def product(of: Generators, x: Array) -> Array:
    """Return Σ x."""
    d, g, L, var = of
    padded = _with_empty_row(x, g)
    return (vector_forward(L, padded, d, g)[1] + vector_backward(L, padded, g, d)[1])[1:] + var * x


def squared_product(of: Generators, x: Array) -> Array:
    """Return (Σ ∘ Σ) x."""
    d, g, L, var = of
    padded = _with_empty_row(x, g)
    return (matrix_forward(L, padded, d, g)[1] + matrix_backward(L, padded, g, d)[1])[1:] + var**2 * x


def _product_since_chosen(_: None, Phi: Array, row: Any) -> tuple[Array, Array]:
    """Carry the product of the matrices L since the last chosen row, without the L of that row itself.

    `fresh` is 1 at a chosen row, after which the product starts again at I.
    """
    L, fresh = row
    eye = namespace(Phi).eye(len(Phi), dtype=Phi.dtype)
    return fresh * eye + (1 - fresh) * times(L, Phi), Phi


def block(of: Generators, chosen: Array) -> Array:
    """Return Σ between the chosen rows of the data; `chosen` holds their numbers in increasing order."""
    xp, s, count = namespace(*of, chosen), of.d.shape[1], chosen.shape[0]
    at = chosen + 1
    fresh = (xp.bincount(at, length=len(of.g)) if xp is not np else np.bincount(at, minlength=len(of.g))) > 0
    across = sweep(_product_since_chosen, None, xp.eye(s, dtype=of.g.dtype), (of.L, fresh.astype(of.g.dtype)))[at]
    rows = across, of.L[at], of.d[at], of.g[at], of.var[chosen], xp.eye(count, dtype=of.g.dtype)

    def lower_row(U: Array, row: Any) -> tuple[Array, Array]:
        """Compute a row of the lower triangle; U holds L … L d_i for every chosen row i so far."""
        Phi, L, d, g, var, place = row
        U = apply(Phi, U)
        return apply(L, U) + place[:, None] * d, apply(U, g) + place * var

    U = xp.zeros((count, s), of.g.dtype)
    if is_host(*of):
        half = np.zeros((count, count))
        for j, row in enumerate(zip(*rows, strict=True)):
            U, half[j] = lower_row(U, row)
    else:
        half = lax.scan(lower_row, U, rows)[1]
    return half + xp.tril(half, -1).T
