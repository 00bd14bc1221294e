"""The latent function at new rows given draws of hyperparameters and latent values.

Given one draw (θ, z), f at new rows is Gaussian (see `latent.conditional`); over the draws it is a mixture of them.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.mcmc.latent import conditional
from sitewise.mcmc.reference import prior_root
from sitewise.numerics import cholesky
from sitewise.parameters import Trainable


def _given(trainable: Trainable, model, data, vector, X_new):
    here = trainable.from_vector(model, vector)
    _, A, _ = prior_root(here, data)
    return here, *conditional(here, data, A, X_new)


@functools.partial(jax.jit, static_argnums=0)
def marginals(trainable: Trainable, model, data, vectors, z, X_new):
    """(likelihood, mean, var) of every draw: parameters with a leading axis of draws, and two (draws, rows) tables."""

    def one(draw):
        vector, z = draw
        here, V, mu, var = _given(trainable, model, data, vector, X_new)
        return here.likelihood, mu + V.T @ z, var

    return lax.map(one, (vectors, z))


@functools.partial(jax.jit, static_argnums=0)
def joint(trainable: Trainable, model, data, vectors, z, X_new):
    """Mean and covariance matrix of f over all draws: the mean of the covariances plus the covariance of the means."""

    def one(total, draw):
        vector, z = draw
        here, V, mu, _ = _given(trainable, model, data, vector, X_new)
        return total + here.prior.kernel.matrix(X_new) - V.T @ V, mu + V.T @ z

    rows = X_new.shape[0]
    total, means = lax.scan(one, jnp.zeros((rows, rows), X_new.dtype), (vectors, z))
    mean = jnp.mean(means, axis=0)
    return mean, (total + (means - mean).T @ (means - mean)) / vectors.shape[0]


@functools.partial(jax.jit, static_argnums=0)
def functions(trainable: Trainable, model, data, vectors, z, key, X_new):
    """(likelihood, f) of every draw: the function drawn jointly at all new rows, one for each (θ, z)."""

    def one(arguments):
        vector, z, key = arguments
        here, V, mu, _ = _given(trainable, model, data, vector, X_new)
        root = cholesky.semidefinite_root(here.prior.kernel.matrix(X_new) - V.T @ V)
        return here.likelihood, mu + V.T @ z + root @ jax.random.normal(key, mu.shape, mu.dtype)

    return lax.map(one, (vectors, z, jax.random.split(key, vectors.shape[0])))
