"""Weibull likelihood for lifetimes: P(T > t) = exp(−(t/eᶠ)^shape), observed or censored."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln

from sitewise.likelihoods.lifetime import Lifetime
from sitewise.numerics.quadrature.gaussian_rules import expect
from sitewise.types import module


@module
class Weibull(Lifetime):
    """Survival analysis with Weibull lifetimes of hazard shape · t^(shape−1) · e^(−shape·f), observed or censored.

    The hazard rises for shape > 1, falls for shape < 1, and is constant for shape = 1 (exponential lifetimes).

    In u = shape · (log t − f) the survival function is exp(−eᵘ).
    """

    name: ClassVar[str] = "weibull"
    about: ClassVar[str] = "lifetimes, also censored, with a hazard that rises or falls"

    @staticmethod
    def _log_density(u: Array) -> Array:
        return u - jnp.exp(u)

    @staticmethod
    def _log_survival(u: Array) -> Array:
        return -jnp.exp(u)

    @staticmethod
    def _log_cdf(u: Array) -> Array:
        """Return log(1 − exp(−eᵘ)), which is u − eᵘ/2 + … for very negative u."""
        far = u < -30
        x = jnp.exp(jnp.where(far, 0.0, u))
        return jnp.where(far, u, jnp.log(-jnp.expm1(-x)))

    @classmethod
    def _log_between(cls, u: Array, gap: Array) -> Array:
        """Return −eᵘ + log(1 − exp(−eᵘ(e^gap − 1)))."""
        return -jnp.exp(u) + cls._log_cdf(u + gap + jnp.log(-jnp.expm1(-gap)))

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """Closed form by E[eᵘ] = exp(shape (log t − m) + shape² v/2) for observed and right-censored lifetimes.

        An interval adds E[log(1 − exp(−e^w))], w = shape (edge − f), by quadrature; a left-censored lifetime has only
        this term.
        """
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        k = self._k
        if not self.censored:
            return self._closed(jnp.log(y), mean, var, jnp.ones_like(y, bool))
        below, above, low, high = self._ends(y)
        open_ended = ~below & (above | (low == high))
        # Rows that discard the closed form get an argument at which it does not overflow.
        start = self._closed(jnp.where(below, mean - k * var, low), mean, var, ~above & open_ended)
        gap = k * jnp.where(open_ended | below, 1.0, high - low)
        edge = low + jnp.where(below, 0.0, (gap + jnp.log(-jnp.expm1(-gap))) / k)
        width = jnp.broadcast_to(1 / k, edge.shape)
        end = expect(lambda f: self._log_cdf(k * (edge - f)), mean, var, rule=self._rule(), centre=edge, width=width)
        return jnp.where(below, end, jnp.where(open_ended, start, start + end))

    def _closed(self, log_y: Array, mean: Array, var: Array, seen: Array) -> Array:
        """E[log density] of observed rows (`seen`), E[log survival] of right-censored rows."""
        u = self._k * (log_y - mean)
        value = jnp.where(seen, jnp.log(self._k) - log_y + u, 0.0)
        return value - jnp.exp(u + 0.5 * self._k**2 * var)

    def response_mean(self, f: Array) -> Array:
        return jnp.exp(f + gammaln(1 + 1 / self._k))

    def response_var(self, f: Array) -> Array:
        first, second = gammaln(1 + 1 / self._k), gammaln(1 + 2 / self._k)
        return jnp.exp(2 * f + second) * -jnp.expm1(2 * first - second)

    def sample(self, key: Array, f: Array) -> Array:
        return jnp.exp(f + jnp.log(jax.random.exponential(key, f.shape, f.dtype)) / self._k)
