"""Two classes, y > 0 and y ≤ 0, through the probit (Φ) or the logit link."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp

from sitewise.likelihoods.base import Likelihood, Power, is_one
from sitewise.numerics.gaussian_cdf import log_cdf
from sitewise.types import module


def _sign(y: jax.Array) -> jax.Array:
    return jnp.where(y > 0, 1.0, -1.0).astype(y.dtype)


@module
class _Bernoulli(Likelihood):
    support: ClassVar[str] = "classes"
    log_concave: ClassVar[bool] = True

    def landmark(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros_like(y), jnp.ones_like(y)

    def response_mean(self, f: jax.Array) -> jax.Array:
        return jnp.exp(self.log_prob(jnp.ones_like(f), f))

    def response_var(self, f: jax.Array) -> jax.Array:
        ones = jnp.ones_like(f)
        return jnp.exp(self.log_prob(ones, f) + self.log_prob(-ones, f))

    def cdf(self, y: jax.Array, f: jax.Array) -> jax.Array:
        return jnp.where(y < 0, 0.0, jnp.where(y < 1, 1 - self.response_mean(f), 1.0))

    def sample(self, key: jax.Array, f: jax.Array) -> jax.Array:
        return jax.random.bernoulli(key, self.response_mean(f)).astype(f.dtype)


@module
class BernoulliProbit(_Bernoulli):
    """p(y | f) = Φ(±f)."""

    name: ClassVar[str] = "probit"
    about: ClassVar[str] = "classes, through the probit link"

    def log_prob(self, y: jax.Array, f: jax.Array) -> jax.Array:
        return log_cdf(_sign(y) * f)

    def log_expected_prob(self, y: jax.Array, mean: jax.Array, var: jax.Array, power: Power = 1.0) -> jax.Array:
        """Φ(±m/√(1+v)) for power 1 (R&W eq. 3.82)."""
        if self.quadrature is not None or not is_one(power):
            return super().log_expected_prob(y, mean, var, power)
        return log_cdf(_sign(y) * mean / jnp.sqrt(1 + var))


_WIDE = 1e6


@module
class BernoulliLogit(_Bernoulli):
    """p(y | f) = 1/(1 + exp(∓f))."""

    name: ClassVar[str] = "logit"
    about: ClassVar[str] = "classes, through the logit link"

    def log_prob(self, y: jax.Array, f: jax.Array) -> jax.Array:
        return -jax.nn.softplus(-_sign(y) * f)

    def log_expected_prob(self, y: jax.Array, mean: jax.Array, var: jax.Array, power: Power = 1.0) -> jax.Array:
        """By quadrature; where the link is a step next to the Gaussian, Φ(±m/√(v + π²/3)), right to O(v⁻²)."""
        if self.quadrature is not None or not is_one(power):
            return super().log_expected_prob(y, mean, var, power)
        wide = var > _WIDE
        usual = super().log_expected_prob(y, mean, jnp.where(wide, _WIDE, var), power)
        return jnp.where(wide, log_cdf(_sign(y) * mean / jnp.sqrt(var + jnp.pi**2 / 3)), usual)
