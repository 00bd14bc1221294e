"""Prior times Gaussian sites in whitened coordinates, for MCMC moves along the columns of the prior's factor."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.arrays.engine import Array, namespace
from sitewise.numerics.dense.cholesky import cholesky, jittered_cholesky, safe_root
from sitewise.numerics.dense.triangular import (
    lower_gram,
    lower_inverse,
    lower_solve,
    lower_transposed_solve,
    plus_diagonal,
)


class Whitened(NamedTuple):
    """N(0, A Aᵀ) times Gaussian sites in the coordinates z of g = A z: z ~ N(z_mean, M⁻¹), M = L Lᵀ."""

    z_mean: Array
    L: Array
    log_z: Array


def whitened_sites(A: Array, b: Array, w: Array) -> Whitened:
    """Condition z ~ N(0, I) on sites of g = A z, for a lower triangular A.

        M = I + AᵀWA,  z_mean = M⁻¹Aᵀb,  log_z = −½ log|M| + ½ bᵀA z_mean

    This is as well conditioned as `gaussian_sites`, and A is never inverted: g = A(z_mean + L⁻ᵀu), u ~ N(0, I).
    """
    xp = namespace(A, b, w)
    L, _ = jittered_cholesky(plus_diagonal(lower_gram(safe_root(w)[:, None] * A), 1.0))
    pulled = lower_solve(L, A.T @ b)
    log_z = -xp.sum(xp.log(xp.diagonal(L))) + 0.5 * pulled @ pulled
    return Whitened(lower_transposed_solve(L, pulled), L, log_z)


class Split(NamedTuple):
    """N(0, Q⁻¹) split into a correlated part a and independent noise with standard deviations sd: g = a + sd∘ε.

    Given g, a ~ N(pull g, root rootᵀ).
    """

    pull: jax.Array
    root: jax.Array
    sd: jax.Array


def independent_part(A: jax.Array, w: jax.Array) -> Split:
    """Split off as much independent noise as Q = (AAᵀ)⁻¹ + W allows, with variances in proportion to 1/diag Q.

    With D = c/diag Q and S = D½ Q D½, Q⁻¹ − D is positive definite iff S < I, which sets c; then
    a | g has mean (I − DQ)g and covariance D − DQD = D½(I − S)D½.
    """
    eye = jnp.eye(A.shape[0], dtype=A.dtype)
    Q = lower_gram(lower_inverse(A)) + jnp.diag(w)
    scale = 1 / jnp.sqrt(jnp.diagonal(Q))
    S = scale[:, None] * Q * scale[None, :]
    x = lax.fori_loop(0, 40, lambda _, x: (lambda y: y / jnp.linalg.norm(y))(S @ x), jnp.ones(A.shape[0], A.dtype))
    share = 0.95 / (x @ S @ x / (x @ x))  # power iteration gives a lower bound on the largest eigenvalue

    def too_large(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        share, root = state
        return (share > 1e-12) & ~jnp.all(jnp.isfinite(root))

    def reduce(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        share = 0.7 * state[0]
        return share, cholesky(eye - share * S)

    share, root = lax.while_loop(too_large, reduce, (share, cholesky(eye - share * S)))
    sd = jnp.sqrt(share) * scale
    return Split(eye - sd[:, None] ** 2 * Q, sd[:, None] * root, sd)
