"""L1. Positive values whose deviation is proportional to their mean: y ~ Gamma(shape, mean exp f)."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammainc, gammaln

from sitewise.likelihoods.base import Likelihood
from sitewise.types import module, positive


@module
class Gamma(Likelihood):
    """Var[y | f] = exp(2f)/shape; shape = 1 is the exponential distribution."""

    shape: jax.Array = positive(default=1.0)

    log_concave: ClassVar[bool] = True

    def _constant(self, y):
        return self.shape * jnp.log(self.shape) + (self.shape - 1) * jnp.log(y) - gammaln(self.shape)

    def log_prob(self, y, f):
        return self._constant(y) - self.shape * (f + y * jnp.exp(-f))

    def landmark(self, y):
        return jnp.log(y), jnp.broadcast_to(1 / jnp.sqrt(jnp.asarray(self.shape, y.dtype)), y.shape)

    def expected_log_prob(self, y, mean, var):
        """E[e^−f] = exp(−m + v/2)."""
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        return self._constant(y) - self.shape * (mean + y * jnp.exp(0.5 * var - mean))

    def response_mean(self, f):
        return jnp.exp(f)

    def response_var(self, f):
        return jnp.exp(2 * f) / self.shape

    def cdf(self, y, f):
        return gammainc(self.shape, self.shape * jnp.maximum(y, 0.0) * jnp.exp(-f))

    def sample(self, key, f):
        return jnp.exp(f) * jax.random.gamma(key, self.shape, f.shape, f.dtype) / self.shape

    def check(self, y):
        super().check(y)
        if np.any(np.asarray(y) <= 0):
            raise ValueError("Gamma: y must be positive.")
