"""Products with the covariance Σ of a chain given its sites, and with Σ∘Σ, each by two sweeps.

In the notation of `markov_sites`, with g_k = h/c − Lᵀ N_{k+1} d, L and d those of the step from row i or k,

    Σ_ij = d_iᵀ L_{i+1}ᵀ … L_{j−1}ᵀ g_j  for i < j,        Σ_ii = var_i

so that Σ x follows from two recursions, and (Σ∘Σ) x from the same ones in matrices:

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
    """Of Σ: d, g and L of rows + 1, and the variances of the rows."""

    d: Array
    g: Array
    L: Array
    var: Array

    @staticmethod
    def of(out: Smoothed) -> Generators:
        return Generators(out.filtered.d, out.g, out.filtered.L, out.var)


def _longer(x: Array, g: Array) -> Array:
    """x with the empty row before the first."""
    xp = namespace(x, g)
    return xp.concatenate([xp.zeros(1, g.dtype), x])


def product(of: Generators, x: Array) -> Array:
    """Σ x."""
    d, g, L, var = of
    longer = _longer(x, g)
    return (vector_forward(L, longer, d, g)[1] + vector_backward(L, longer, g, d)[1])[1:] + var * x


def squared_product(of: Generators, x: Array) -> Array:
    """(Σ ∘ Σ) x."""
    d, g, L, var = of
    longer = _longer(x, g)
    return (matrix_forward(L, longer, d, g)[1] + matrix_backward(L, longer, g, d)[1])[1:] + var**2 * x


def _since(_: None, Phi: Array, row: Any) -> tuple[Array, Array]:
    """The product of the L since the last chosen row, where `fresh` is 1, without that row's own."""
    L, fresh = row
    eye = namespace(Phi).eye(len(Phi), dtype=Phi.dtype)
    return fresh * eye + (1 - fresh) * times(L, Phi), Phi


def block(of: Generators, chosen: Array) -> Array:
    """Σ of the chosen rows of the data, given by their numbers in increasing order."""
    xp, s, count = namespace(*of, chosen), of.d.shape[1], chosen.shape[0]
    at = chosen + 1
    fresh = (xp.bincount(at, length=len(of.g)) if xp is not np else np.bincount(at, minlength=len(of.g))) > 0
    across = sweep(_since, None, xp.eye(s, dtype=of.g.dtype), (of.L, fresh.astype(of.g.dtype)))[at]
    rows = across, of.L[at], of.d[at], of.g[at], of.var[chosen], xp.eye(count, dtype=of.g.dtype)

    def column(U: Array, row: Any) -> tuple[Array, Array]:
        """U holds L … L d_i of the chosen rows so far."""
        Phi, L, d, g, var, place = row
        U = apply(Phi, U)
        return apply(L, U) + place[:, None] * d, apply(U, g) + place * var

    U = xp.zeros((count, s), of.g.dtype)
    if is_host(*of):
        half = np.zeros((count, count))
        for j, row in enumerate(zip(*rows, strict=True)):
            U, half[j] = column(U, row)
    else:
        half = lax.scan(column, U, rows)[1]
    return half + xp.tril(half, -1).T
