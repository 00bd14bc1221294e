"""Poisson likelihood for counts: y ~ Poisson(exposure · rate(f))."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln
from scipy import special

from sitewise.arrays.engine import namespace
from sitewise.likelihoods.rate import Counts
from sitewise.numerics.quadrature.incomplete_gamma import upper_gamma_share
from sitewise.numerics.quadrature.tilted_counts import tilted_by_count
from sitewise.numerics.quadrature.tilted_logistic import slopes_by_var
from sitewise.types import module


@module
class Poisson(Counts):
    """Poisson regression for counts, with mean exposure · rate(f)."""

    name: ClassVar[str] = "poisson"
    about: ClassVar[str] = "counts"
    log_concave: ClassVar[bool] = True

    def log_prob(self, y: Array, f: Array) -> Array:
        """With d = log(mean/y):  log p = y log y − y − log y! − y (eᵈ − 1 − d), in which only d depends on f.

        At a count of 10⁶, y log(mean) − mean would lose eight digits of differences between neighbouring values of f.
        """
        y, log_exposure = self.split(y)
        seen = y > 0
        count = jnp.where(seen, y, 1.0)
        d = self.log_rate(f) + log_exposure - jnp.log(count)
        best = count * jnp.log(count) - count - gammaln(count + 1)
        none = -jnp.exp(log_exposure) * self.rate(f)
        return jnp.where(seen, best - count * (jnp.expm1(d) - d), none)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        y, log_exposure = self.split(y)
        return self._landmark_of_count(y + 0.5, log_exposure, 1 / namespace(y).sqrt(y + 1.0))

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """With the softplus link, log p = y log μ − μ bends at 0."""
        count, _ = self.split(y)
        return jnp.zeros_like(count), jnp.ones_like(count)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """Log link: the middle of the edge exp(−eᶠ).  Softplus link: its bend at 0, or the mode if it is far from 0."""
        count, log_exposure = self.split(y)
        if self.link == "log":
            return jnp.log(count + 1.5) - log_exposure, 1 / jnp.sqrt(count + 1.0)
        far = (count >= 12) | (count + 0.5 < jnp.exp(log_exposure))
        centre, slope = self._inverse_rate((count + 0.5) * jnp.exp(-log_exposure))
        width = (count + 0.5) * jnp.exp(-log_exposure) / (jnp.sqrt(count + 1) * slope)
        return self._with_mode(jnp.where(far, centre, 0.0), jnp.where(far, width, 1.0), centre)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """Closed form for the log link, by E[e^f] = exp(m + v/2)."""
        if self.quadrature is not None or self.link != "log":
            return super().expected_log_prob(y, mean, var)
        y, log_exposure = self.split(y)
        return y * (mean + log_exposure) - jnp.exp(mean + log_exposure + 0.5 * var) - gammaln(y + 1)

    def log_prob_slopes(self, y: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        if self.link != "log":
            return None
        value, mean = _log_prob(*self._split_on_host(y), f)
        return np.stack([value, self._split_on_host(y)[0] - mean, -mean, -mean])

    def expected_log_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        if self.quadrature is not None or self.link != "log":
            return None
        count, log_exposure = self._split_on_host(y)
        rate = np.exp(mean + log_exposure + 0.5 * var)
        value = count * (mean + log_exposure) - rate - special.gammaln(count + 1)
        return np.stack([value, count - rate, -rate, -rate, -rate])

    def log_expected_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        if self.quadrature is not None or self.link != "log":
            return None
        count, log_exposure = self._split_on_host(y)
        tilted = tilted_by_count(count, mean + log_exposure, var)
        if tilted is None:
            return None
        mode, log_integral, slopes = tilted
        value = _log_prob(count, 0.0, mode)[0] + log_integral
        return np.stack([value, *slopes[:3], *slopes_by_var(slopes)])

    def _split_on_host(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray | float]:
        return (y[..., 0], np.log(y[..., 1])) if self.exposure else (y, 0.0)

    def response_var(self, f: Array, side: Array | None = None) -> Array:
        return self.response_mean(f, side)

    def cdf(self, y: Array, f: Array) -> Array:
        y, log_exposure = self.split(y)
        return jnp.where(
            y < 0, 0.0, upper_gamma_share(jnp.floor(jnp.maximum(y, 0.0)) + 1, jnp.exp(log_exposure) * self.rate(f))
        )

    def sample(self, key: Array, f: Array, side: Array | None = None) -> Array:
        return jax.random.poisson(key, self.response_mean(f, side)).astype(f.dtype)


def _log_prob(count: np.ndarray, log_exposure: np.ndarray | float, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return `Poisson.log_prob` for the log link on NumPy arrays, and the mean count."""
    seen = count > 0
    least = np.where(seen, count, 1.0)
    log_mean = f + log_exposure
    d = log_mean - np.log(least)
    best = least * np.log(least) - least - special.gammaln(least + 1)
    mean = np.exp(log_mean)
    return np.where(seen, best - least * (np.expm1(d) - d), -mean), mean
