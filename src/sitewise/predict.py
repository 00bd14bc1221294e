"""L3. Predictions from (model, data, sites).

`Posterior` is derived from its three nouns whenever it is needed, never stored as state of its own.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from sitewise import linalg
from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.sites import Sites
from sitewise.types import fixed, module


@module
class Posterior:
    """q(f) with the likelihood on top; every method takes a table of new inputs."""

    latent: Any = fixed()
    likelihood: Likelihood = fixed()

    def f(self, X: ArrayLike) -> tuple[jax.Array, jax.Array]:
        """Mean and variance of the latent function at each row; of several, their means and covariance matrix."""
        return self.latent.marginals(X)

    def f_joint(self, X: ArrayLike) -> tuple[jax.Array, jax.Array]:
        """Mean and covariance matrix of the latent function."""
        return self.latent.joint(X)

    def f_samples(self, key: jax.Array, X: ArrayLike, samples: int) -> jax.Array:
        """Joint draws of the latent function, one per row of the result; of several (softmax), these come first."""
        mean, cov = self.latent.joint(X)
        noise = jax.random.normal(key, (samples, mean.shape[0]), mean.dtype)
        draws = mean + noise @ linalg.semidefinite_root(cov).T
        latents = self.likelihood.latents
        return draws if latents == 1 else jnp.moveaxis(draws.reshape(samples, latents, -1), 1, 0)

    def y_samples(self, key: jax.Array, X: ArrayLike, samples: int) -> jax.Array:
        """Joint draws of observations."""
        first, second = jax.random.split(key)
        return self.likelihood.sample(second, self.f_samples(first, X, samples))

    def _expect(self, function, X):
        from sitewise.quadrature import Landmark, expect

        mean, var = self.f(X)
        return expect(function, mean, var, rule=Landmark(), centre=jnp.zeros_like(mean), width=jnp.ones_like(mean))

    def y_mean(self, X: ArrayLike) -> jax.Array:
        """E[y | X]."""
        return self._expect(self.likelihood.response_mean, X)

    def y_var(self, X: ArrayLike) -> jax.Array:
        """Var[y | X] = E[Var[y|f]] + Var[E[y|f]]."""
        mean = self.y_mean(X)
        lik = self.likelihood
        spread = self._expect(lambda f: (lik.response_mean(f) - mean) ** 2, X)
        return self._expect(lik.response_var, X) + spread

    def probability(self, X: ArrayLike) -> jax.Array:
        """P(y = 1 | X) for a two-class likelihood."""
        mean, var = self.f(X)
        return jnp.exp(self.likelihood.log_expected_prob(jnp.ones_like(mean), mean, var))

    def log_density(self, X: ArrayLike, y: ArrayLike) -> jax.Array:
        """log p(y | X) of each row: log ∫ p(y|f) q(f) df."""
        mean, var = self.f(X)
        return self.likelihood.log_expected_prob(jnp.asarray(y, mean.dtype), mean, var)

    def y_cdf(self, X: ArrayLike, y: ArrayLike) -> jax.Array:
        """P(Y ≤ y | X) of each row."""
        return self._expect(lambda f: self.likelihood.cdf(jnp.asarray(y), f), X)

    def quantile(self, X: ArrayLike, level: float) -> jax.Array:
        """The `level` quantile of y at each row, by bisection on the predictive distribution function.

        For counts the smallest whole number that reaches the level.
        """
        var = self.f(X)[1]
        centre, spread = self.y_mean(X), jnp.sqrt(jnp.maximum(self.y_var(X), 1e-300))
        spread = jnp.where(jnp.isfinite(spread), spread, jnp.sqrt(var) + 1.0)

        def reached(y):
            return self.y_cdf(X, self.likelihood.row(y)) >= level

        def widen(_, bounds):
            low, high, step = bounds
            return jnp.where(reached(low), low - step, low), jnp.where(reached(high), high, high + step), 2 * step

        low, high, _ = jax.lax.fori_loop(0, 40, widen, (centre - spread, centre + spread, spread))

        def halve(_, bounds):
            low, high = bounds
            middle = 0.5 * (low + high)
            up = reached(middle)
            return jnp.where(up, low, middle), jnp.where(up, middle, high)

        return jax.lax.fori_loop(0, 80, halve, (low, high))[1]


def posterior(model: Model, data: Data, sites: Sites) -> Posterior:
    """q(f) = prior × sites, ready for prediction."""
    return Posterior(model.prior.posterior(data.X, sites.scaled(data.weight)), model.likelihood)
