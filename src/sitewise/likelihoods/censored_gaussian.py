"""Gaussian noise, but some values are only known to lie below, above or between limits."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, Power, is_one
from sitewise.likelihoods.gaussian import Gaussian
from sitewise.numerics.gaussian_cdf import log_interval
from sitewise.types import module, positive


@module
class CensoredGaussian(Likelihood):
    """y has the columns low and high, between which the value f + N(0, scale²) lies:

    low = high    it was observed                        N(low; f, scale²)
    low = −inf    left-censored: at most high            Φ((high − f)/scale)
    high = inf    right-censored: at least low           Φ((f − low)/scale)
    else          interval-censored                      Φ((high − f)/scale) − Φ((low − f)/scale)
    """

    scale: jax.Array = positive(default=1.0)

    log_concave: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]] = ("low", "high")

    def _parts(self, y: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Which rows were observed, and limits that are safe to compute with on either branch."""
        low, high = y[..., 0], y[..., 1]
        seen = low == high
        return seen, jnp.where(seen, low, 0.0), jnp.where(seen, -jnp.inf, low), jnp.where(seen, 0.0, high)

    def log_prob(self, y: jax.Array, f: jax.Array) -> jax.Array:
        seen, value, low, high = self._parts(y)
        between = log_interval(low, high, f, self.scale)
        return jnp.where(seen, Gaussian(self.scale).log_prob(value, f), between)

    def landmark(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        low, high = y[..., 0], y[..., 1]
        low, high = jnp.where(jnp.isinf(low), high, low), jnp.where(jnp.isinf(high), low, high)
        return 0.5 * (low + high), self.scale + 0.25 * (high - low)

    def log_expected_prob(self, y: jax.Array, mean: jax.Array, var: jax.Array, power: Power = 1.0) -> jax.Array:
        """The same with noise of variance scale² + v, for power 1."""
        if self.quadrature is not None or not is_one(power):
            return super().log_expected_prob(y, mean, var, power)
        return CensoredGaussian(jnp.sqrt(self.scale**2 + var)).log_prob(y, mean)

    def row(self, value: jax.Array) -> jax.Array:
        return jnp.stack([value, value], axis=-1)

    def response_mean(self, f: jax.Array) -> jax.Array:
        return f

    def response_var(self, f: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.scale**2, f.shape)

    def cdf(self, y: jax.Array, f: jax.Array) -> jax.Array:
        """Of the value itself, at `high`."""
        return jnp.exp(log_interval(-jnp.inf, y[..., 1], f, self.scale))

    def sample(self, key: jax.Array, f: jax.Array) -> jax.Array:
        return Gaussian(self.scale).sample(key, f)

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        low, high = np.asarray(y)[..., 0], np.asarray(y)[..., 1]
        if np.any(low > high) or np.any(np.isinf(low) & np.isinf(high)):
            raise ValueError("CensoredGaussian: every row needs low ≤ high, and at least one of them finite.")
