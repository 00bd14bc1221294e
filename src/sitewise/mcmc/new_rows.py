"""Predictions from MCMC: the latent function at new rows, given draws of the latent values at the training rows.

Given a draw f = μ + A z at the training rows, f* at a new row is Gaussian with

    mean μ* + Vᵀz,   variance k** − Σ V²,   V = A⁻¹ k*

Over all draws, f* is a mixture of these Gaussians.  p(y*|X*) is averaged over the draws, with f* integrated out per
draw (in closed form for the probit); no draw of f* is needed.  `log_density` takes draws at fixed hyperparameters; the
other functions take draws (θ, z) of hyperparameters and latent values.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.arrays import programs
from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.mcmc import ais
from sitewise.mcmc.elliptical import State
from sitewise.mcmc.reference import Target, prior_root
from sitewise.model import Model
from sitewise.numerics.dense import cholesky, triangular
from sitewise.parameters import Trainable


def conditional(model: Model, data: Data, A: jax.Array, X_new: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return (V, μ*, variance) of f* given z."""
    prior = model.prior
    # New rows first: distances are centred on the second table, and predictions must not depend on other new rows.
    cross = jnp.where(data.mask[:, None], prior.kernel.matrix(X_new, data.X).T, 0.0)
    V = triangular.lower_solve(A, cross)
    full = prior.kernel.variances(X_new)
    floor = jnp.finfo(full.dtype).eps * full
    return V, prior.mean.at(X_new), jnp.maximum(full - jnp.sum(V * V, axis=0), floor)


def log_density(
    settings: ais.Annealing,
    key: jax.Array,
    target: Target,
    model: Model,
    state: State,
    X_new: jax.Array,
    y_new: jax.Array,
    draws: int | jax.Array,
    thin: int,
) -> jax.Array:
    """Return log p(y*|X*) per new row, averaged over `draws` states per chain, `thin` moves apart."""
    ref = target.ref
    V, mu, var = conditional(model, target.data, ref.prior_root, X_new)

    def body(t: jax.Array, carry: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
        state, total = carry
        state = ais.settle(settings, jax.random.fold_in(key, t), target, state, thin)
        z = triangular.lower_solve(ref.prior_root, state.position - ref.prior_mean[:, None])
        mean = mu[:, None] + V.T @ z
        density = model.likelihood.log_expected_prob(y_new[:, None], mean, var[:, None] + 0 * mean)
        return state, jnp.logaddexp(total, jax.scipy.special.logsumexp(density, axis=1))

    start = (state, jnp.full(X_new.shape[0], -jnp.inf, mu.dtype))
    _, total = lax.fori_loop(0, draws, body, start)
    return total - jnp.log(jnp.asarray(draws * settings.chains, total.dtype))


def _conditional_at(
    trainable: Trainable, model: Model, data: Data, vector: jax.Array, X_new: jax.Array
) -> tuple[Model, jax.Array, jax.Array, jax.Array]:
    """Return the model at θ = vector, and (V, μ*, variance) of f* under this model."""
    here = trainable.from_vector(model, vector)
    _, A, _ = prior_root(here, data)
    return here, *conditional(here, data, A, X_new)


@functools.partial(programs.jit, static_argnums=0)
def marginals(
    trainable: Trainable, model: Model, data: Data, vectors: jax.Array, z: jax.Array, X_new: jax.Array
) -> tuple[Likelihood, jax.Array, jax.Array]:
    """Return (likelihood, mean, var) of f* per draw; arrays have a leading axis of draws."""

    def one(draw: tuple[jax.Array, jax.Array]) -> tuple[Likelihood, jax.Array, jax.Array]:
        vector, z = draw
        here, V, mu, var = _conditional_at(trainable, model, data, vector, X_new)
        return here.likelihood, mu + V.T @ z, var

    return lax.map(one, (vectors, z))


@functools.partial(programs.jit, static_argnums=0)
def joint(
    trainable: Trainable, model: Model, data: Data, vectors: jax.Array, z: jax.Array, X_new: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the mean and covariance matrix of f* over all draws.

    The covariance is the mean of the covariances plus the covariance of the means.
    """

    def one(total: jax.Array, draw: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        vector, z = draw
        here, V, mu, _ = _conditional_at(trainable, model, data, vector, X_new)
        return total + here.prior.kernel.matrix(X_new) - V.T @ V, mu + V.T @ z

    rows = X_new.shape[0]
    total, means = lax.scan(one, jnp.zeros((rows, rows), X_new.dtype), (vectors, z))
    mean = jnp.mean(means, axis=0)
    return mean, (total + (means - mean).T @ (means - mean)) / vectors.shape[0]


@functools.partial(programs.jit, static_argnums=0)
def functions(
    trainable: Trainable,
    model: Model,
    data: Data,
    vectors: jax.Array,
    z: jax.Array,
    key: jax.Array,
    X_new: jax.Array,
) -> tuple[Likelihood, jax.Array]:
    """Return (likelihood, f*) per draw (θ, z), where f* is drawn jointly at all new rows."""

    def one(arguments: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[Likelihood, jax.Array]:
        vector, z, key = arguments
        here, V, mu, _ = _conditional_at(trainable, model, data, vector, X_new)
        root = cholesky.semidefinite_root(here.prior.kernel.matrix(X_new) - V.T @ V)
        return here.likelihood, mu + V.T @ z + root @ jax.random.normal(key, mu.shape, mu.dtype)

    return lax.map(one, (vectors, z, jax.random.split(key, vectors.shape[0])))
