"""Symmetric L × L blocks as numbers along fixed directions of R^L, so that vector sites are rows of scalar sites.

The directions a_k are the L unit vectors and then the sums e_a + e_b, a < b: P = L(L + 1)/2 of them.  With h_k = a_kᵀf,
a Gaussian site with a full precision block W is a product of P scalar sites,

    exp(bᵀf − ½ fᵀWf) = Π_k exp(nat1_k h_k − ½ prec_k h_k²),    b = Σ_k nat1_k a_k,    W = Σ_k prec_k a_k a_kᵀ

and P variances determine the covariance C of f: var_k = a_kᵀ C a_k.  Both maps are linear and one-to-one between blocks
and numbers, and they are dual: tr(W C) = Σ_k prec_k var_k.  Therefore −2 ∂/∂var_k of a function of C is the coordinate
prec_k of −2 ∂/∂C, and the formulas of scalar sites (∂mean = Σ(∂nat1 − mean ∘ ∂prec), …) hold for h as they are.

Coordinates have the directions on the first axis and the rows on the last, (P, n); blocks have the rows first,
(n, L, L).
"""

from __future__ import annotations

import functools
import math

import numpy as np

from sitewise.arrays.engine import Array, namespace


def count_directions(size: int) -> int:
    """Return P = L(L + 1)/2."""
    return size * (size + 1) // 2


def size_of(directions: int) -> int:
    """Return L, given P = L(L + 1)/2."""
    return (math.isqrt(8 * directions + 1) - 1) // 2


@functools.cache
def directions(size: int) -> np.ndarray:
    """Return the directions a_k as rows, (P, L)."""
    unit = np.eye(size)
    return np.stack([*unit, *(unit[a] + unit[b] for a, b in _pairs(size))])


def _pairs(size: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(size) for b in range(a + 1, size)]


def along(vectors: Array) -> Array:
    """Return h = A f: vectors (L, n) along the directions, (P, n)."""
    return directions(vectors.shape[0]) @ vectors


def combined(values: Array) -> Array:
    """Return b = Aᵀ nat1, (L, n), given (P, n)."""
    return directions(size_of(values.shape[0])).T @ values


def blocks_of_precisions(prec: Array) -> Array:
    """Return W = Σ_k prec_k a_k a_kᵀ, (n, L, L)."""
    A = directions(size_of(prec.shape[0]))
    return namespace(prec).einsum("kn,ka,kb->nab", prec, A, A)


def precisions_of_blocks(W: Array) -> Array:
    """Return the coordinates of symmetric blocks W: W_ab along e_a + e_b, and W_aa − Σ_{b≠a} W_ab along e_a."""
    size, xp = W.shape[-1], namespace(W)
    own = 2 * xp.diagonal(W, axis1=1, axis2=2) - xp.sum(W, axis=2)
    return xp.stack([*own.T, *(W[:, a, b] for a, b in _pairs(size))])


def variances_of_blocks(C: Array) -> Array:
    """Return var_k = a_kᵀ C a_k, (P, n)."""
    A = directions(C.shape[-1])
    return namespace(C).einsum("ka,nab,kb->kn", A, C, A)


def blocks_of_variances(var: Array) -> Array:
    """Return the covariances with these variances: C_ab = ½ (var_{a+b} − var_a − var_b)."""
    size, xp = size_of(var.shape[0]), namespace(var)
    place = {pair: size + k for k, pair in enumerate(_pairs(size))}

    def entry(a: int, b: int) -> Array:
        return var[a] if a == b else 0.5 * (var[place[min(a, b), max(a, b)]] - var[a] - var[b])

    return xp.stack([xp.stack([entry(a, b) for b in range(size)], axis=-1) for a in range(size)], axis=-2)
