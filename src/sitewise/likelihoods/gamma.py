"""Gamma likelihood for positive values, standard deviation proportional to the mean: y ~ Gamma(shape, mean exp f)."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammainc, gammaln
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, positive_baseline
from sitewise.types import ArrayField, module, positive


@module
class Gamma(Likelihood):
    """Gamma regression for positive values, with mean exp f and variance exp(2f)/shape.

    Parameters
    ----------
    shape : float, default=1.0
        1 is the exponential distribution, larger values mean less noise; learned.
    """

    shape: ArrayField = positive(default=1.0)

    name: ClassVar[str] = "gamma"
    about: ClassVar[str] = "positive values"
    support: ClassVar[str] = "positive"
    log_concave: ClassVar[bool] = True
    varying: ClassVar[tuple[str, ...]] = ("shape",)

    def _constant(self, y: Array) -> Array:
        return self.shape * jnp.log(self.shape) + (self.shape - 1) * jnp.log(y) - gammaln(self.shape)

    def log_prob(self, y: Array, f: Array) -> Array:
        return self._constant(y) - self.shape * (f + y * jnp.exp(-f))

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return jnp.log(y), jnp.broadcast_to(1 / jnp.sqrt(jnp.asarray(self.shape, y.dtype)), y.shape)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """Closed form by E[e^−f] = exp(−m + v/2)."""
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        return self._constant(y) - self.shape * (mean + y * jnp.exp(0.5 * var - mean))

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        return float(np.log(np.average(y, weights=weight)))

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        return positive_baseline(y)

    def response_mean(self, f: Array) -> Array:
        return jnp.exp(f)

    def response_var(self, f: Array) -> Array:
        return jnp.exp(2 * f) / self.shape

    def cdf(self, y: Array, f: Array) -> Array:
        return gammainc(self.shape, self.shape * jnp.maximum(y, 0.0) * jnp.exp(-f))

    def sample(self, key: Array, f: Array) -> Array:
        return jnp.exp(f) * jax.random.gamma(key, self.shape, f.shape, f.dtype) / self.shape

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        if np.any(np.asarray(y) <= 0):
            raise ValueError("Gamma: y must be positive; use Gaussian or StudentT for values of any sign.")
