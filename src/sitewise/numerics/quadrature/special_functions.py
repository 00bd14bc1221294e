"""Series that state-space kernels need: terms and tails of the exponential series, and shares of harmonics."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from scipy import special

from sitewise.arrays.engine import Array

_SMALL = 2.5  # below this argument the tail is summed; above it, it is one minus the terms before
_TERMS = 26  # of the summed tail
_MORE_ORDERS = 40  # orders beyond the last one that is asked for; shares of higher orders are taken for 0


def gamma_term(j: int, x: Array) -> Array:
    """a_j(x) = e⁻ˣ xʲ/j!."""
    return jnp.exp(-x) * x**j / math.factorial(j)


def gamma_rest(k: int, x: Array) -> Array:
    """γ_k(x) = Σ_{j ≥ k} e⁻ˣ xʲ/j! = 1 − Σ_{j < k} e⁻ˣ xʲ/j!, the regularised incomplete gamma function of order k.

    For small x it is of the size xᵏ and the difference would have no digits left: there it is
    a_k (1 + x/(k+1) (1 + x/(k+2) (1 + …))), of positive terms.
    """
    small = jnp.minimum(x, _SMALL)
    series = jnp.ones_like(x)
    for j in reversed(range(1, _TERMS)):
        series = 1 + small / (k + j) * series
    terms = jnp.ones_like(x)
    for j in reversed(range(1, k)):
        terms = 1 + x / j * terms
    return jnp.where(x < _SMALL, gamma_term(k, small) * series, 1 - jnp.exp(-x) * terms)


def harmonic_shares(x: Array, highest: int) -> Array:
    """q_0 … q_J of exp(x (cos t − 1)) = Σ_j q_j cos(j t):  q_0 = e⁻ˣI_0(x),  q_j = 2 e⁻ˣI_j(x),  Σ_j q_j = 1.

    The ratios I_j/I_{j−1} = x/(2j + x I_{j+1}/I_j) follow downwards from a high order, which is stable and does not
    overflow; the sum gives the scale.
    """
    ratios, ratio = [], jnp.zeros_like(x)
    for j in range(highest + _MORE_ORDERS, 0, -1):
        ratio = x / (2 * j + x * ratio)
        ratios.append(ratio)
    shares = jnp.concatenate([jnp.ones((1, *x.shape), x.dtype), 2 * jnp.cumprod(jnp.stack(ratios[::-1]), axis=0)])
    return shares[: highest + 1] / shares.sum(axis=0)


def share_beyond(x: float, highest: int) -> float:
    """Σ_{j > J} q_j: the largest error of the sum up to J."""
    return float(2 * np.sum(special.ive(np.arange(highest + 1, highest + 1 + _MORE_ORDERS), x)))
