"""L1. Counts: y ~ Poisson(exp f)."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaincc, gammaln

from sitewise.likelihoods.base import Likelihood
from sitewise.types import module


@module
class Poisson(Likelihood):
    log_concave: ClassVar[bool] = True

    def log_prob(self, y, f):
        return y * f - jnp.exp(f) - gammaln(y + 1)

    def landmark(self, y):
        return jnp.log(y + 0.5), 1 / jnp.sqrt(y + 1.0)

    def expected_log_prob(self, y, mean, var):
        """E[e^f] = exp(m + v/2)."""
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        return y * mean - jnp.exp(mean + 0.5 * var) - gammaln(y + 1)

    def response_mean(self, f):
        return jnp.exp(f)

    def response_var(self, f):
        return jnp.exp(f)

    def cdf(self, y, f):
        return jnp.where(y < 0, 0.0, gammaincc(jnp.floor(jnp.maximum(y, 0.0)) + 1, jnp.exp(f)))

    def sample(self, key, f):
        return jax.random.poisson(key, jnp.exp(f)).astype(f.dtype)

    def check(self, y):
        y = np.asarray(y)
        if np.any(y < 0) or np.any(y != np.floor(y)):
            raise ValueError("Poisson: y must hold counts 0, 1, 2, ...")
