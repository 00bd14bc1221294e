"""Beta likelihood for shares in (0, 1): y ~ Beta(μ·precision, (1−μ)·precision) with mean μ = σ(f)."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betainc, gammaln
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood
from sitewise.types import ArrayField, module, positive


@module
class Beta(Likelihood):
    """Beta regression for shares between 0 and 1, with mean μ = σ(f) and variance μ(1−μ)/(1 + precision).

    Not log-concave for every y.

    Parameters
    ----------
    precision : float, default=10.0
        Larger values mean less noise; learned.
    """

    precision: ArrayField = positive(default=10.0)

    name: ClassVar[str] = "beta"
    about: ClassVar[str] = "shares between 0 and 1"
    support: ClassVar[str] = "shares"
    varying: ClassVar[tuple[str, ...]] = ("precision",)

    def log_prob(self, y: Array, f: Array) -> Array:
        """log Γ(a) is written as log Γ(1+a) − log a, which loses no digits where a → 0 for large |f|."""
        p = self.precision
        log_a, log_b = jnp.log(p) + jax.nn.log_sigmoid(f), jnp.log(p) + jax.nn.log_sigmoid(-f)
        a, b = jnp.exp(log_a), jnp.exp(log_b)
        norm = gammaln(p) - gammaln(1 + a) - gammaln(1 + b) + log_a + log_b
        return norm + (a - 1) * jnp.log(y) + (b - 1) * jnp.log1p(-y)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """The log odds of y; their standard deviation under Beta(a, b) is about √(1/a + 1/b)."""
        return jnp.log(y) - jnp.log1p(-y), jnp.minimum(1 / jnp.sqrt(self.precision * y * (1 - y)), 2.0)

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """log p bends between log odds of ±log(precision), where one of the two parameters is 1."""
        return jnp.zeros_like(y), jnp.broadcast_to(jnp.asarray(1 + 0.2 * jnp.log1p(self.precision), y.dtype), y.shape)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """For shares close to 0 or 1, p has a steep edge where y^a falls, at a = 1/|log y|."""
        centre, width = self.landmark(y)
        cliff = jnp.log(-0.5 * self.precision * jnp.log(jnp.minimum(y, 1 - y)))
        return jnp.sign(centre) * jnp.minimum(jnp.abs(centre), jnp.maximum(cliff, 0.0)), jnp.minimum(width, 1.5)

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        mean = float(np.average(y, weights=weight))
        return float(np.log(mean) - np.log1p(-mean))

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        from scipy import stats

        mean, var = float(np.mean(y)), max(float(np.var(y)), 1e-24)
        total = max(mean * (1 - mean) / var - 1, 1e-6)
        return stats.beta(mean * total, (1 - mean) * total)

    def response_mean(self, f: Array) -> Array:
        return jax.nn.sigmoid(f)

    def response_var(self, f: Array) -> Array:
        return jax.nn.sigmoid(f) * jax.nn.sigmoid(-f) / (1 + self.precision)

    def cdf(self, y: Array, f: Array) -> Array:
        a, b = self.precision * jax.nn.sigmoid(f), self.precision * jax.nn.sigmoid(-f)
        return betainc(a, b, jnp.clip(y, 0.0, 1.0))

    def sample(self, key: Array, f: Array) -> Array:
        a, b = self.precision * jax.nn.sigmoid(f), self.precision * jax.nn.sigmoid(-f)
        # Tiny shares underflow to 0, which is outside the support.
        info = jnp.finfo(f.dtype)
        return jnp.clip(jax.random.beta(key, a, b, f.shape, f.dtype), info.tiny, 1 - info.epsneg)

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        if np.any(np.asarray(y) <= 0) or np.any(np.asarray(y) >= 1):
            raise ValueError(
                "Beta: y must lie strictly between 0 and 1; move exact zeros and ones inside, or use Binomial."
            )
