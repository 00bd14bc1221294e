"""Predictions of f and of y.

The functions here depend on (likelihood, mean, variance) of f at some rows only, whatever the source of those moments
is: a posterior, a cavity, a component of a mixture.  `Posterior` applies them to q(f), which is derived from
(model, data, sites) whenever it is needed and is never stored.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from numpy.typing import ArrayLike

from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.numerics.cholesky import semidefinite_root
from sitewise.numerics.quadrature import Landmark, expect
from sitewise.priors import LatentPosterior
from sitewise.sites import Sites
from sitewise.types import fixed, module

_WIDENINGS, _HALVINGS = 40, 80  # of the bracket that holds a quantile


def _expectation(function: Callable[[jax.Array], jax.Array], mean: jax.Array, var: jax.Array) -> jax.Array:
    return expect(function, mean, var, rule=Landmark(), centre=jnp.zeros_like(mean), width=jnp.ones_like(mean))


def y_mean(likelihood: Likelihood, mean: jax.Array, var: jax.Array) -> jax.Array:
    """E[y] for f ~ N(mean, var)."""
    return _expectation(likelihood.response_mean, mean, var)


def y_moments(likelihood: Likelihood, mean: jax.Array, var: jax.Array) -> tuple[jax.Array, jax.Array]:
    """E[y], and Var[y] = E[Var[y|f]] + Var[E[y|f]]."""
    centre = y_mean(likelihood, mean, var)
    spread = _expectation(lambda f: (likelihood.response_mean(f) - centre) ** 2, mean, var)
    return centre, _expectation(likelihood.response_var, mean, var) + spread


def log_density(likelihood: Likelihood, mean: jax.Array, var: jax.Array, y: ArrayLike) -> jax.Array:
    """log p(y) = log ∫ p(y|f) N(f; mean, var) df."""
    return likelihood.log_expected_prob(jnp.asarray(y, mean.dtype), mean, var)


def probability(likelihood: Likelihood, mean: jax.Array, var: jax.Array) -> jax.Array:
    """P(y = 1) for a two-class likelihood."""
    return jnp.exp(likelihood.log_expected_prob(jnp.ones_like(mean), mean, var))


def y_cdf(likelihood: Likelihood, mean: jax.Array, var: jax.Array, y: ArrayLike) -> jax.Array:
    """P(Y ≤ y)."""
    return _expectation(lambda f: likelihood.cdf(jnp.asarray(y), f), mean, var)


def y_quantile(likelihood: Likelihood, mean: jax.Array, var: jax.Array, level: float) -> jax.Array:
    """The `level` quantile of y, by bisection on the predictive distribution function.

    For counts it is the smallest whole number that reaches the level.
    """
    centre, y_var = y_moments(likelihood, mean, var)
    spread = jnp.sqrt(jnp.maximum(y_var, 1e-300))
    spread = jnp.where(jnp.isfinite(spread), spread, jnp.sqrt(var) + 1.0)

    def reached(y: jax.Array) -> jax.Array:
        return y_cdf(likelihood, mean, var, likelihood.row(y)) >= level

    def widen(_: jax.Array, bounds: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        low, high, step = bounds
        return jnp.where(reached(low), low - step, low), jnp.where(reached(high), high, high + step), 2 * step

    def halve(_: jax.Array, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        up = reached(middle)
        return jnp.where(up, low, middle), jnp.where(up, middle, high)

    low, high, _ = lax.fori_loop(0, _WIDENINGS, widen, (centre - spread, centre + spread, spread))
    return lax.fori_loop(0, _HALVINGS, halve, (low, high))[1]


@module
class Posterior:
    """q(f) and the likelihood; every method takes a table of new inputs."""

    latent: LatentPosterior = fixed()
    likelihood: Likelihood = fixed()

    def f(self, X: ArrayLike) -> tuple[jax.Array, jax.Array]:
        """Mean and variance of the latent function at each row; for several functions, their means and covariances."""
        return self.latent.marginals(jnp.asarray(X))

    def f_joint(self, X: ArrayLike) -> tuple[jax.Array, jax.Array]:
        """Mean and covariance matrix of the latent function."""
        return self.latent.joint(jnp.asarray(X))

    def f_samples(self, key: jax.Array, X: ArrayLike, samples: int) -> jax.Array:
        """Joint draws of the latent function, one per row of the result; the functions of a softmax come first."""
        mean, cov = self.f_joint(X)
        noise = jax.random.normal(key, (samples, mean.shape[0]), mean.dtype)
        draws = mean + noise @ semidefinite_root(cov).T
        latents = self.likelihood.latents
        return draws if latents == 1 else jnp.moveaxis(draws.reshape(samples, latents, -1), 1, 0)

    def y_samples(self, key: jax.Array, X: ArrayLike, samples: int) -> jax.Array:
        """Joint draws of observations."""
        first, second = jax.random.split(key)
        return self.likelihood.sample(second, self.f_samples(first, X, samples))

    def y_mean(self, X: ArrayLike) -> jax.Array:
        """E[y | X]."""
        return y_mean(self.likelihood, *self.f(X))

    def y_var(self, X: ArrayLike) -> jax.Array:
        """Var[y | X]."""
        return y_moments(self.likelihood, *self.f(X))[1]

    def probability(self, X: ArrayLike) -> jax.Array:
        """P(y = 1 | X) for a two-class likelihood."""
        return probability(self.likelihood, *self.f(X))

    def log_density(self, X: ArrayLike, y: ArrayLike) -> jax.Array:
        """log p(y | X) of each row."""
        return log_density(self.likelihood, *self.f(X), y)

    def y_cdf(self, X: ArrayLike, y: ArrayLike) -> jax.Array:
        """P(Y ≤ y | X) of each row."""
        return y_cdf(self.likelihood, *self.f(X), y)

    def quantile(self, X: ArrayLike, level: float) -> jax.Array:
        """The `level` quantile of y at each row; for counts it is the smallest whole number that reaches the level."""
        return y_quantile(self.likelihood, *self.f(X), level)


def posterior(model: Model, data: Data, sites: Sites) -> Posterior:
    """q(f) = prior × sites, ready for prediction."""
    return Posterior(model.prior.posterior(data.X, sites.scaled(data.weight)), model.likelihood)
