"""Draws of a chain, and of a chain given sites, each by a few sweeps.

A draw of the chain is z_{k+1} = A z_k + R ε with R Rᵀ = Q.  A draw given sites follows from one without (Matheron's
rule): with Σ = (K⁻¹ + W)⁻¹, f ~ N(0, K) and ε ~ N(0, I)

    f + Σ (b − W f − W^½ ε)        has the mean Σ b and the covariance        Σ K⁻¹ Σ + Σ W Σ = Σ

so that Σ is needed in products only (`markov_products`).  It asks for w ≥ 0, and for no inverse.
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


def _root(_: None, Q: Array) -> Array:
    return small_semidefinite_cholesky(Q)


def _normal(key: Array, shape: tuple[int, ...], like: Array) -> Array:
    found = jax.random.normal(key, shape, like.dtype)
    return np.asarray(found) if is_host(like) else found


def _path(chain: Chain, root: Array, noise: Array) -> Array:
    """f of the rows, of one draw."""
    ones = namespace(noise).ones(len(noise), noise.dtype)
    return vector_forward(chain.A, ones, apply(root, noise), chain.h)[1][1:]


def _one_by_one(function: Any, *arrays: Array) -> Array:
    """function of each entry of the first axis: a loop on the host, a batch in a traced program."""
    if is_host(*arrays):
        return np.stack([function(*rows) for rows in zip(*arrays, strict=True)])
    return jax.vmap(function)(*arrays)


def of_chain(chain: Chain, key: Array, samples: int) -> Array:
    """Draws of f at the rows of a chain, in the order of time; one per row of the result."""
    root = each(_root, None, chain.Q)
    return _one_by_one(lambda e: _path(chain, root, e), _normal(key, (samples, *chain.h.shape), chain.h))


def given_sites(chain: Chain, b: Array, w: Array, key: Array, samples: int) -> Array:
    """Draws of f given sites exp(b f − ½ w f²) with w ≥ 0."""
    xp, (first, second) = namespace(b, w), jax.random.split(key)
    root, sigma = each(_root, None, chain.Q), chain_products.Generators.of(filtering.condition(chain, b, w))

    def one(states: Array, rows: Array) -> Array:
        f = _path(chain, root, states)
        return f + chain_products.product(sigma, b - w * f - xp.sqrt(w) * rows)

    noise = _normal(first, (samples, *chain.h.shape), chain.h), _normal(second, (samples, *b.shape), chain.h)
    return _one_by_one(one, *noise)
