"""e⁻ˣ xʲ/j! and the sums of what follows them, without cancellation."""

from __future__ import annotations

import math

import jax.numpy as jnp

from sitewise.runtime.engine import Array

_SMALL = 2.5  # below this the sum of the rest, above it one minus the terms before
_TERMS = 26


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
