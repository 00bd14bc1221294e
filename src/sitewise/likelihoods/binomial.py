"""Successes in a given number of trials, each with probability σ(f) or Φ(f)."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betainc, gammaln
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood
from sitewise.numerics.gaussian_cdf import log_cdf
from sitewise.types import module, static


@module
class Binomial(Likelihood):
    """y has the columns successes and trials; link is "logit" or "probit"."""

    link: str = static(default="logit", kw_only=True)

    support: ClassVar[str] = "counts"
    log_concave: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]] = ("successes", "trials")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.link not in ("logit", "probit"):
            raise ValueError(f"Binomial: link must be 'logit' or 'probit', got {self.link!r}.")

    def _log_success(self, f: Array) -> Array:
        return jax.nn.log_sigmoid(f) if self.link == "logit" else log_cdf(f)

    def log_prob(self, y: Array, f: Array) -> Array:
        k, n = y[..., 0], y[..., 1]
        choose = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        return choose + k * self._log_success(f) + (n - k) * self._log_success(-f)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        """Where the probability is (k + ½)/(n + 1), and the width there; by p(1−p) ≤ (Φ')² · 2 also for the probit."""
        p = (y[..., 0] + 0.5) / (y[..., 1] + 1)
        width = 1 / jnp.sqrt((y[..., 1] + 1) * p * (1 - p))
        if self.link == "probit":
            return jax.scipy.stats.norm.ppf(p), jnp.minimum(width, 1.0)
        return jnp.log(p) - jnp.log1p(-p), width

    def row(self, value: Array) -> Array:
        return jnp.stack([value, jnp.ones_like(value)], axis=-1)

    def response_mean(self, f: Array) -> Array:
        return jnp.exp(self._log_success(f))

    def response_var(self, f: Array) -> Array:
        return jnp.exp(self._log_success(f) + self._log_success(-f))

    def cdf(self, y: Array, f: Array) -> Array:
        k, n = jnp.floor(y[..., 0]), y[..., 1]
        inside = (k >= 0) & (k < n)
        k, n = jnp.where(inside, k, 0.0), jnp.where(inside, n, 1.0)
        below = betainc(n - k, k + 1, jnp.exp(self._log_success(-f)))
        return jnp.where(inside, below, jnp.where(y[..., 0] < 0, 0.0, 1.0))

    def sample(self, key: Array, f: Array) -> Array:
        return jax.random.bernoulli(key, self.response_mean(f)).astype(f.dtype)

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        y = np.asarray(y)
        if np.any(y != np.floor(y)) or np.any(y[..., 0] < 0) or np.any(y[..., 1] < 1) or np.any(y[..., 0] > y[..., 1]):
            raise ValueError(
                "Binomial: successes and trials must be whole numbers with 0 ≤ successes ≤ trials, trials ≥ 1."
            )
