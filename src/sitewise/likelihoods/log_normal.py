"""L1. Positive values: log y = f + N(0, scale²).  Gaussian noise on log y, so every method is exact."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.likelihoods.base import Likelihood
from sitewise.likelihoods.gaussian import Gaussian
from sitewise.types import module, positive


@module
class LogNormal(Likelihood):
    """exp f is the median of y."""

    scale: jax.Array = positive(default=1.0)

    log_concave: ClassVar[bool] = True

    def _noise(self) -> Gaussian:
        return Gaussian(self.scale, quadrature=self.quadrature)

    def log_prob(self, y, f):
        return self._noise().log_prob(jnp.log(y), f) - jnp.log(y)

    def landmark(self, y):
        return self._noise().landmark(jnp.log(y))

    def expected_log_prob(self, y, mean, var):
        return self._noise().expected_log_prob(jnp.log(y), mean, var) - jnp.log(y)

    def log_expected_prob(self, y, mean, var, power=1.0):
        return self._noise().log_expected_prob(jnp.log(y), mean, var, power) - power * jnp.log(y)

    def log_expected_smoothed_prob(self, y, mean, var, resid, power=1.0, start=None):
        inner = self._noise().log_expected_smoothed_prob(jnp.log(y), mean, var, resid, power, start)
        return inner - power * jnp.log(y)

    def response_mean(self, f):
        return jnp.exp(f + 0.5 * self.scale**2)

    def response_var(self, f):
        return jnp.expm1(self.scale**2) * jnp.exp(2 * f + self.scale**2)

    def cdf(self, y, f):
        return jnp.where(y > 0, self._noise().cdf(jnp.log(jnp.where(y > 0, y, 1.0)), f), 0.0)

    def sample(self, key, f):
        return jnp.exp(self._noise().sample(key, f))

    def check(self, y):
        super().check(y)
        if np.any(np.asarray(y) <= 0):
            raise ValueError("LogNormal: y must be positive.")
