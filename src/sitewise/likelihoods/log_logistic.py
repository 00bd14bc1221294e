"""Log-logistic likelihood for lifetimes: P(T > t) = 1/(1 + (t/eᶠ)^shape), observed or censored."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from sitewise.likelihoods.lifetime import Lifetime
from sitewise.types import module


@module
class LogLogistic(Lifetime):
    """Survival analysis with log-logistic lifetimes of median exp f, observed or censored.

    For a shape above 1 the hazard rises and then falls.  P(T > t) falls like t^(−shape): the mean is infinite for
    shape ≤ 1, the variance for shape ≤ 2.

    In u = shape · (log t − f) the survival function is σ(−u), with σ the logistic function.
    """

    name: ClassVar[str] = "log_logistic"
    about: ClassVar[str] = "lifetimes, also censored, with a long tail"
    varying: ClassVar[tuple[str, ...]] = ("shape",)

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
        """By σ(b) − σ(a) = σ(b) σ(−a) (1 − e^(a−b)), a product without cancellation."""
        return jax.nn.log_sigmoid(u + gap) + jax.nn.log_sigmoid(-u) + jnp.log(-jnp.expm1(-gap))

    def _pi_over_shape(self, order: float) -> Array:
        """π/shape; an arbitrary finite value for shape ≤ order, where the moment of this order is infinite."""
        return jnp.pi / jnp.where(self._k > order, self._k, 2 * order)

    def response_mean(self, f: Array) -> Array:
        b = self._pi_over_shape(1.0)
        return jnp.where(self._k > 1, jnp.exp(f) * b / jnp.sin(b), jnp.inf)

    def response_var(self, f: Array) -> Array:
        b = self._pi_over_shape(2.0)
        return jnp.where(self._k > 2, jnp.exp(2 * f) * (2 * b / jnp.sin(2 * b) - (b / jnp.sin(b)) ** 2), jnp.inf)

    def sample(self, key: Array, f: Array) -> Array:
        return jnp.exp(f + jax.random.logistic(key, f.shape, f.dtype) / self._k)
