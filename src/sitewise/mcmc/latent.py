"""Posterior draws of the latent function at fixed hyperparameters, and what they predict.

Given a draw f = μ + A z at the training rows, f* at a new row is Gaussian with

    mean μ* + Vᵀz,   variance k** − Σ V²,   V = A⁻¹ k*

so p(y*|X*) is averaged over the draws with that Gaussian integrated out (closed form for the probit): no draw of f*
is needed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.data import Data
from sitewise.mcmc import ais
from sitewise.mcmc.elliptical import State
from sitewise.mcmc.reference import Target
from sitewise.model import Model
from sitewise.numerics import triangular


def conditional(model: Model, data: Data, A: jax.Array, X_new: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(V, μ*, variance) of f* given z."""
    prior = model.prior
    # New rows first: distances are centred on the second table, and a prediction must not depend on its neighbours.
    cross = jnp.where(data.mask[:, None], prior.kernel.matrix(X_new, data.X).T, 0.0)
    V = triangular.lower_solve(A, cross)
    full = prior.kernel.variances(X_new)
    floor = jnp.finfo(full.dtype).eps * full
    return V, prior.mean(X_new), jnp.maximum(full - jnp.sum(V * V, axis=0), floor)


def log_density(
    settings: ais.Annealing,
    key: jax.Array,
    target: Target,
    model: Model,
    state: State,
    X_new: jax.Array,
    y_new: jax.Array,
    draws,
    thin: int,
) -> jax.Array:
    """log p(y*|X*) of every new row, averaged over `draws` states of each chain, `thin` moves apart."""
    ref = target.ref
    V, mu, var = conditional(model, target.data, ref.prior_root, X_new)

    def body(t, carry):
        state, total = carry
        state = ais.settle(settings, jax.random.fold_in(key, t), target, state, thin)
        z = triangular.lower_solve(ref.prior_root, state.position - ref.prior_mean[:, None])
        mean = mu[:, None] + V.T @ z
        density = model.likelihood.log_expected_prob(y_new[:, None], mean, var[:, None] + 0 * mean)
        return state, jnp.logaddexp(total, jax.scipy.special.logsumexp(density, axis=1))

    start = (state, jnp.full(X_new.shape[0], -jnp.inf, mu.dtype))
    _, total = lax.fori_loop(0, draws, body, start)
    return total - jnp.log(jnp.asarray(draws * settings.chains, total.dtype))
