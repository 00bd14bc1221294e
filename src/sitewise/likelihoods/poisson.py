"""L1. Counts: y ~ Poisson(exposure · rate(f))."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaincc, gammaln

from sitewise.likelihoods.rate import Counts
from sitewise.types import module


@module
class Poisson(Counts):
    log_concave: ClassVar[bool] = True

    def log_prob(self, y, f):
        y, log_exposure = self.split(y)
        if self.link == "log":
            return y * (f + log_exposure) - jnp.exp(f + log_exposure) - gammaln(y + 1)
        return y * (self.log_rate(f) + log_exposure) - jnp.exp(log_exposure) * self.rate(f) - gammaln(y + 1)

    def landmark(self, y):
        y, log_exposure = self.split(y)
        return self._landmark(y + 0.5, log_exposure, 1 / jnp.sqrt(y + 1.0))

    def expected_log_prob(self, y, mean, var):
        """E[e^f] = exp(m + v/2)."""
        if self.quadrature is not None or self.link != "log":
            return super().expected_log_prob(y, mean, var)
        y, log_exposure = self.split(y)
        return y * (mean + log_exposure) - jnp.exp(mean + log_exposure + 0.5 * var) - gammaln(y + 1)

    def response_var(self, f):
        return self.rate(f)

    def cdf(self, y, f):
        y, log_exposure = self.split(y)
        return jnp.where(
            y < 0, 0.0, gammaincc(jnp.floor(jnp.maximum(y, 0.0)) + 1, jnp.exp(log_exposure) * self.rate(f))
        )

    def sample(self, key, f):
        return jax.random.poisson(key, self.rate(f)).astype(f.dtype)
