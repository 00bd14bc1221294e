"""Incomplete gamma functions and scaled Bessel functions for the state-space form of kernels."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from scipy import special

from sitewise.arrays.engine import Array

_MAX_TAIL_ARGUMENT = 2.5  # up to this x the tail γ_k is summed; beyond it, γ_k is one minus the leading terms
_TAIL_TERMS = 26  # terms of the summed tail
_EXTRA_ORDERS = 40  # Bessel orders computed beyond the highest requested order; higher orders are taken as 0


def gamma_term(j: int, x: Array) -> Array:
    """Return a_j(x) = e⁻ˣ xʲ/j!."""
    return jnp.exp(-x) * x**j / math.factorial(j)


def gamma_rest(k: int, x: Array) -> Array:
    """Return the regularised incomplete gamma function γ_k(x) = Σ_{j ≥ k} e⁻ˣ xʲ/j! = 1 − Σ_{j < k} e⁻ˣ xʲ/j!.

    For small x it is of the order xᵏ, and the difference would have no correct digits.  It is then computed as
    a_k (1 + x/(k+1) (1 + x/(k+2) (1 + …))), whose terms are positive.
    """
    small = jnp.minimum(x, _MAX_TAIL_ARGUMENT)
    series = jnp.ones_like(x)
    for j in reversed(range(1, _TAIL_TERMS)):
        series = 1 + small / (k + j) * series
    terms = jnp.ones_like(x)
    for j in reversed(range(1, k)):
        terms = 1 + x / j * terms
    return jnp.where(x < _MAX_TAIL_ARGUMENT, gamma_term(k, small) * series, 1 - jnp.exp(-x) * terms)


def harmonic_shares(x: Array, highest: int) -> Array:
    """Return the Fourier coefficients q_0 … q_J of exp(x (cos t − 1)) = Σ_j q_j cos(j t), J = `highest`.

        q_0 = e⁻ˣI_0(x),  q_j = 2 e⁻ˣI_j(x),  Σ_j q_j = 1

    The ratios I_j/I_{j−1} = x/(2j + x I_{j+1}/I_j) are computed downwards from a high order, which is stable and does
    not overflow; Σ_j q_j = 1 gives the scale.
    """
    ratios, ratio = [], jnp.zeros_like(x)
    for j in range(highest + _EXTRA_ORDERS, 0, -1):
        ratio = x / (2 * j + x * ratio)
        ratios.append(ratio)
    shares = jnp.concatenate([jnp.ones((1, *x.shape), x.dtype), 2 * jnp.cumprod(jnp.stack(ratios[::-1]), axis=0)])
    return shares[: highest + 1] / shares.sum(axis=0)


def share_beyond(x: float, highest: int) -> float:
    """Return Σ_{j > J} q_j, the largest error of the Fourier series up to order J = `highest`."""
    return float(2 * np.sum(special.ive(np.arange(highest + 1, highest + 1 + _EXTRA_ORDERS), x)))
