"""Log-logistic lifetimes: P(T > t) = 1/(1 + (t/eᶠ)^shape), observed or censored."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from sitewise.likelihoods.lifetime import Lifetime
from sitewise.types import module


@module
class LogLogistic(Lifetime):
    """exp f is the median.  For a shape above 1 the hazard rises and then falls; the tail is that of t^(−shape), so
    that the mean is infinite for a shape of at most 1, and the variance for one of at most 2.

    In u = shape · (log t − f) the survival function is σ(−u), with σ the logistic function.
    """

    name: ClassVar[str] = "log_logistic"
    about: ClassVar[str] = "lifetimes, also censored, with a long tail"

    @staticmethod
    def _log_density(u: Array) -> Array:
        return jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u)

    @staticmethod
    def _log_survival(u: Array) -> Array:
        return jax.nn.log_sigmoid(-u)

    @staticmethod
    def _log_cdf(u: Array) -> Array:
        return jax.nn.log_sigmoid(u)

    @staticmethod
    def _log_between(u: Array, gap: Array) -> Array:
        """σ(b) − σ(a) = σ(b) σ(−a) (1 − e^(a−b)), a product without cancellation."""
        return jax.nn.log_sigmoid(u + gap) + jax.nn.log_sigmoid(-u) + jnp.log(-jnp.expm1(-gap))

    def _half_turn(self, least: float) -> Array:
        """π/shape, or a value that is not used where the moment is infinite."""
        return jnp.pi / jnp.where(self._k > least, self._k, 2 * least)

    def response_mean(self, f: Array) -> Array:
        b = self._half_turn(1.0)
        return jnp.where(self._k > 1, jnp.exp(f) * b / jnp.sin(b), jnp.inf)

    def response_var(self, f: Array) -> Array:
        b = self._half_turn(2.0)
        return jnp.where(self._k > 2, jnp.exp(2 * f) * (2 * b / jnp.sin(2 * b) - (b / jnp.sin(b)) ** 2), jnp.inf)

    def sample(self, key: Array, f: Array) -> Array:
        return jnp.exp(f + jax.random.logistic(key, f.shape, f.dtype) / self._k)
