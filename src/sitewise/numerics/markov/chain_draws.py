"""Random draws of a Gaussian Markov chain, from the prior or conditioned on Gaussian sites, in O(n s³).

A draw from the prior is z_{k+1} = A z_k + R ε with R Rᵀ = Q.  A draw conditioned on sites is a draw from the prior plus
a correction (Matheron's rule): with Σ = (K⁻¹ + W)⁻¹, f ~ N(0, K) and ε ~ N(0, I)

    f + Σ (b − W f − W^½ ε)        has the mean Σ b and the covariance        Σ K⁻¹ Σ + Σ W Σ = Σ

The correction needs products with Σ only (`chain_products`), and no inverse.  The precisions must satisfy w ≥ 0.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.arrays.sweeps import each
from sitewise.numerics.dense.small_matrices import apply, small_semidefinite_cholesky
from sitewise.numerics.markov import chain_products, filtering
from sitewise.numerics.markov.filtering import Chain
from sitewise.numerics.markov.recursions import vector_forward


def _noise_root(_: None, Q: Array) -> Array:
    return small_semidefinite_cholesky(Q)


def _standard_normal(key: Array, shape: tuple[int, ...], like: Array) -> Array:
    """Draw standard normal numbers as an array of the same kind and precision as `like`."""
    drawn = jax.random.normal(key, shape, like.dtype)
    return np.asarray(drawn) if is_host(like) else drawn


def _draw_rows(chain: Chain, root: Array, noise: Array) -> Array:
    """Return f at all rows of one draw, given the standard normal noise of each step."""
    ones = namespace(noise).ones(len(noise), noise.dtype)
    return vector_forward(chain.A, ones, apply(root, noise), chain.h)[1][1:]


def _map_first_axis(function: Any, *arrays: Array) -> Array:
    """Apply `function` along the first axis of all arrays: a loop on NumPy arrays, a vmap in a traced program."""
    if is_host(*arrays):
        return np.stack([function(*rows) for rows in zip(*arrays, strict=True)])
    return jax.vmap(function)(*arrays)


def of_chain(chain: Chain, key: Array, samples: int) -> Array:
    """Draw f at the rows of a chain from the prior, in the order of time; one draw per row of the result."""
    root = each(_noise_root, None, chain.Q)
    noise = _standard_normal(key, (samples, *chain.h.shape), chain.h)
    return _map_first_axis(lambda one: _draw_rows(chain, root, one), noise)


def given_sites(chain: Chain, b: Array, w: Array, key: Array, samples: int) -> Array:
    """Draw f conditioned on sites exp(b f − ½ w f²) with w ≥ 0; one draw per row of the result."""
    xp, (first, second) = namespace(b, w), jax.random.split(key)
    root, sigma = each(_noise_root, None, chain.Q), chain_products.Generators.of(filtering.condition(chain, b, w))

    def one_draw(state_noise: Array, row_noise: Array) -> Array:
        f = _draw_rows(chain, root, state_noise)
        return f + chain_products.product(sigma, b - w * f - xp.sqrt(w) * row_noise)

    state_noise = _standard_normal(first, (samples, *chain.h.shape), chain.h)
    row_noise = _standard_normal(second, (samples, *b.shape), chain.h)
    return _map_first_axis(one_draw, state_noise, row_noise)
