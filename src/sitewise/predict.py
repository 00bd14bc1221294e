"""Predictions of f and of y.

The functions here depend on (likelihood, mean, variance) of f at some rows only, whatever the source of those moments
is: a posterior, a cavity, a component of a mixture.  `Posterior` applies them to q(f), which is derived from
(model, data, sites) whenever it is needed and is never stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike

from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.numerics.cholesky import semidefinite_root
from sitewise.numerics.quadrature import Landmark, expect
from sitewise.priors import LatentPosterior
from sitewise.rows import of_each_row
from sitewise.runtime.engine import Array, is_host, namespace, on_host, to_host
from sitewise.runtime.precision import working_precision
from sitewise.sites import Sites
from sitewise.types import fixed, module

_WIDENINGS, _HALVINGS = 40, 80  # of the bracket that holds a quantile
_QUANTILES = 16  # rows of a program for quantiles: each takes hundreds of quadratures, and so would a row of padding


def _expectation(function: Callable[[Array], Array], mean: Array, var: Array) -> Array:
    return expect(function, mean, var, rule=Landmark(), centre=jnp.zeros_like(mean), width=jnp.ones_like(mean))


def y_mean(likelihood: Likelihood, mean: Array, var: Array) -> Array:
    """E[y] for f ~ N(mean, var)."""
    return of_each_row(_y_mean, None, likelihood, mean, var)[0]


def _y_mean(_: None, likelihood: Likelihood, mean: Array, var: Array) -> tuple[Array]:
    return (_expectation(likelihood.response_mean, mean, var),)


def y_moments(likelihood: Likelihood, mean: Array, var: Array) -> tuple[Array, Array]:
    """E[y], and Var[y] = E[Var[y|f]] + Var[E[y|f]]."""
    centre, spread = of_each_row(_y_moments, None, likelihood, mean, var)
    return centre, spread


def _y_moments(_: None, likelihood: Likelihood, mean: Array, var: Array) -> tuple[Array, Array]:
    centre = _expectation(likelihood.response_mean, mean, var)
    spread = _expectation(lambda f: (likelihood.response_mean(f) - centre) ** 2, mean, var)
    return centre, _expectation(likelihood.response_var, mean, var) + spread


def log_density(likelihood: Likelihood, mean: Array, var: Array, y: ArrayLike) -> Array:
    """log p(y) = log ∫ p(y|f) N(f; mean, var) df."""
    return of_each_row(_log_density, None, likelihood, mean, var, _like(y, mean))[0]


def _log_density(_: None, likelihood: Likelihood, mean: Array, var: Array, y: Array) -> tuple[Array]:
    return (likelihood.log_expected_prob(y, mean, var),)


def probability(likelihood: Likelihood, mean: Array, var: Array) -> Array:
    """P(y = 1) for a two-class likelihood."""
    xp = namespace(mean, var)
    return xp.exp(log_density(likelihood, mean, var, xp.ones_like(mean)))


def y_cdf(likelihood: Likelihood, mean: Array, var: Array, y: ArrayLike) -> Array:
    """P(Y ≤ y)."""
    return of_each_row(_y_cdf, None, likelihood, mean, var, _like(y, mean))[0]


def _y_cdf(_: None, likelihood: Likelihood, mean: Array, var: Array, y: Array) -> tuple[Array]:
    return (_expectation(lambda f: likelihood.cdf(y, f), mean, var),)


def _like(y: ArrayLike, mean: Array) -> Array:
    """y as an array of the kind of `mean`; one number stands for every row."""
    xp = namespace(mean)
    values = xp.asarray(y, mean.dtype)
    return xp.broadcast_to(values, mean.shape) if values.ndim == 0 else values


def y_quantile(likelihood: Likelihood, mean: Array, var: Array, level: float) -> Array:
    """The `level` quantile of y, by bisection on the predictive distribution function.

    For counts it is the smallest whole number that reaches the level.
    """
    return of_each_row(_y_quantile, None, likelihood, mean, var, _like(level, mean), piece=_QUANTILES)[0]


def _y_quantile(_: None, likelihood: Likelihood, mean: Array, var: Array, level: Array) -> tuple[Array]:
    centre, y_var = _y_moments(None, likelihood, mean, var)
    spread = jnp.sqrt(jnp.maximum(y_var, 1e-300))
    spread = jnp.where(jnp.isfinite(spread), spread, jnp.sqrt(var) + 1.0)

    def reached(y: Array) -> Array:
        return _y_cdf(None, likelihood, mean, var, likelihood.row(y))[0] >= level

    def widen(_: Array, bounds: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        low, high, step = bounds
        return jnp.where(reached(low), low - step, low), jnp.where(reached(high), high, high + step), 2 * step

    def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        up = reached(middle)
        return jnp.where(up, low, middle), jnp.where(up, middle, high)

    low, high, _ = lax.fori_loop(0, _WIDENINGS, widen, (centre - spread, centre + spread, spread))
    return (lax.fori_loop(0, _HALVINGS, halve, (low, high))[1],)


@module
class Posterior:
    """q(f) and the likelihood; every method takes a table of new inputs."""

    latent: LatentPosterior = fixed()
    likelihood: Likelihood = fixed()

    def f(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and variance of the latent function at each row; for several functions, their means and covariances."""
        with self._computing(X):
            return self.latent.marginals(self._inputs(X))

    def _on_host(self, *more: Any) -> bool:
        return is_host(*jax.tree.leaves(self)) and on_host(more)

    def _inputs(self, X: ArrayLike) -> Array:
        return np.asarray(X, np.float64) if self._on_host(X) else jnp.asarray(X)

    def _computing(self, X: ArrayLike) -> AbstractContextManager[None]:
        return working_precision() if self._on_host(X) else contextlib.nullcontext()

    def f_joint(self, X: ArrayLike) -> tuple[Array, Array]:
        """Mean and covariance matrix of the latent function."""
        with self._computing(X):
            return self.latent.joint(self._inputs(X))

    def f_samples(self, key: Array, X: ArrayLike, samples: int) -> Array:
        """Joint draws of the latent function, one per row of the result; the functions of a softmax come first."""
        with self._computing(X):
            mean, cov = self.f_joint(X)
            noise = jax.random.normal(key, (samples, mean.shape[0]), mean.dtype)
            draws = mean + noise @ semidefinite_root(cov).T
            latents = self.likelihood.latents
            return draws if latents == 1 else jnp.moveaxis(draws.reshape(samples, latents, -1), 1, 0)

    def y_samples(self, key: Array, X: ArrayLike, samples: int) -> Array:
        """Joint draws of observations."""
        first, second = jax.random.split(key)
        with self._computing(X):
            return self.likelihood.sample(second, self.f_samples(first, X, samples))

    def y_mean(self, X: ArrayLike) -> Array:
        """E[y | X]."""
        return y_mean(self.likelihood, *self.f(X))

    def y_var(self, X: ArrayLike) -> Array:
        """Var[y | X]."""
        return y_moments(self.likelihood, *self.f(X))[1]

    def probability(self, X: ArrayLike) -> Array:
        """P(y = 1 | X) for a two-class likelihood."""
        return probability(self.likelihood, *self.f(X))

    def log_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """log p(y | X) of each row."""
        return log_density(self.likelihood, *self.f(X), y)

    def y_cdf(self, X: ArrayLike, y: ArrayLike) -> Array:
        """P(Y ≤ y | X) of each row."""
        return y_cdf(self.likelihood, *self.f(X), y)

    def quantile(self, X: ArrayLike, level: float) -> Array:
        """The `level` quantile of y at each row; for counts it is the smallest whole number that reaches the level."""
        return y_quantile(self.likelihood, *self.f(X), level)


def posterior(model: Model, data: Data, sites: Sites) -> Posterior:
    """q(f) = prior × sites, ready for prediction.  On a processor it holds NumPy arrays, in double precision."""
    if model.prior.host and on_host(model, data, sites):
        with working_precision():
            return _posterior(*to_host((model, data, sites)))
    return _posterior(model, jax.tree.map(jnp.asarray, data), sites)


def _posterior(model: Model, data: Data, sites: Sites) -> Posterior:
    return Posterior(model.prior.posterior(data.X, sites.scaled(data.weight)), model.likelihood)
