"""Conditioning on Gaussian sites for many models of a few hundred rows at once, as matrix products.

On an accelerator a batch of factorisations by its library takes longer than the same work in matrix products.  The
inverse of the Cholesky factor is computed by halves, with leaves of `LEAF` rows:

    A = [[A₁, Cᵀ], [C, A₂]],    Y = C L₁⁻ᵀ,    L₂L₂ᵀ = A₂ − YYᵀ,    L⁻¹ = [[L₁⁻¹, 0], [−L₂⁻¹ Y L₁⁻¹, L₂⁻¹]]

Distances do not change while hyperparameters are learned.  With one lengthscale, d²(ℓ) = d²(1)/ℓ², so d²(1) is computed
once; with one per feature, d² is one matrix product.  The formulas for the sites are those of
`sitewise.numerics.dense.gaussian_sites`, for precisions that are not negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular

from sitewise.numerics.dense.gaussian_sites import Conditioned, Factors
from sitewise.priors import FullPrior, Marginals
from sitewise.priors.full import FullGram
from sitewise.sites import Sites
from sitewise.types import replace

LEAF = 64
_EQUAL_ROWS = 1e-13  # a squared distance below this share of the squared norms is a rounding error


def inverse_factor(A: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return L⁻¹ and Σ log L_ii of A = L Lᵀ; NaN if A is not positive definite."""
    rows = A.shape[0]
    if rows <= LEAF:
        L = lax.linalg.cholesky(A, symmetrize_input=False)
        return solve_triangular(L, jnp.eye(rows, dtype=A.dtype), lower=True), jnp.sum(jnp.log(jnp.diagonal(L)))
    half = -(-rows // LEAF) * (LEAF // 2)
    first, log_first = inverse_factor(A[:half, :half])
    Y = A[half:, :half] @ first.T
    second, log_second = inverse_factor(A[half:, half:] - Y @ Y.T)
    below = -(second @ (Y @ first))
    zeros = jnp.zeros((half, rows - half), A.dtype)
    return jnp.block([[first, zeros], [below, second]]), log_first + log_second


def condition(gram: FullGram, sites: Sites) -> tuple[Marginals, Factors]:
    """Return q and its factors, as `FullGram.condition_with_factor` of a prior with mean 0 and prec ≥ 0."""
    K, b, w = gram.K, sites.nat1, sites.prec
    seen, prior = w > 0, jnp.diagonal(K)
    divisor = jnp.where(seen, w, 1.0)
    root = jnp.where(seen, jnp.sqrt(divisor), 0.0)
    inverse, half_log_det = inverse_factor(root[:, None] * K * root + jnp.eye(len(w), dtype=K.dtype))
    alpha = root * (inverse.T @ (inverse @ jnp.where(seen, b / jnp.sqrt(divisor), 0.0)))
    H = inverse * root
    V, mean = H @ K, K @ alpha
    left = jnp.sum(inverse * inverse, axis=0)  # diag B⁻¹ = 1 − w var, for variances that are a small share of the prior
    var = jnp.maximum(prior - jnp.sum(V * V, axis=0), jnp.finfo(K.dtype).eps * prior)
    var = jnp.minimum(jnp.where(seen & (left < 0.5), (1 - left) / divisor, var), prior)
    out = Conditioned(mean, var, 0.5 * b @ mean - half_log_det, jnp.zeros((), K.dtype))
    return gram._marginals(sites, out), Factors(H, V, alpha, None)


def unit_distances(X: jax.Array) -> jax.Array:
    """Return |x_i − x_j|², 0 for equal rows, by one matrix product."""
    X = X - X.mean(axis=0)
    norms = jnp.sum(X * X, axis=1)
    sums = norms[:, None] + norms
    d2 = sums - 2 * X @ X.T
    return jnp.where(d2 <= _EQUAL_ROWS * sums, 0.0, d2)


def gram_with_pull(prior: FullPrior, X: jax.Array, d2: jax.Array) -> tuple[FullGram, Callable[[FullGram], FullPrior]]:
    """Return the Gram matrix of a stationary kernel and its pullback; `d2` are the distances at ℓ = 1."""

    def matrix(kernel: Any) -> jax.Array:
        one = kernel.lengthscale.ndim == 0
        scaled = d2 / kernel.lengthscale**2 if one else unit_distances(X / kernel.lengthscale)
        return kernel.variance * kernel.shape(scaled) + prior.jitter * jnp.eye(X.shape[0], dtype=X.dtype)

    K, pull = jax.vjp(matrix, prior.kernel)
    return FullGram(K, prior.mean.at(X)), lambda bar: replace(prior, kernel=pull(bar.K)[0])
