"""Censored Gaussian likelihood (Tobit): some values are only known to lie below, above or between limits."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, Power, is_one
from sitewise.likelihoods.gaussian import Gaussian
from sitewise.likelihoods.landmarks import limit_landmarks, middle_landmark
from sitewise.numerics.quadrature.gaussian_cdf import log_interval
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule
from sitewise.types import ArrayField, module, positive


@module
class CensoredGaussian(Likelihood):
    """Tobit regression: Gaussian noise with left-, right- or interval-censored values.

    The value f + N(0, scale²) lies between the columns low and high of y:

        low = high    observed                               N(low; f, scale²)
        low = −inf    left-censored: at most high            Φ((high − f)/scale)
        high = inf    right-censored: at least low           Φ((f − low)/scale)
        else          interval-censored                      Φ((high − f)/scale) − Φ((low − f)/scale)

    Parameters
    ----------
    scale : float, default=1.0
        Standard deviation of the noise; learned.
    """

    scale: ArrayField = positive(default=1.0)

    name: ClassVar[str] = "censored_gaussian"
    about: ClassVar[str] = "values with Gaussian noise, some only known to lie beyond a bound"
    location_scale: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    rule: ClassVar[Rule] = Landmark(points=72)  # more than the default, for the two ends of an interval
    keywords: ClassVar[tuple[str, ...]] = ("lower", "upper", "event", "until")
    columns: ClassVar[tuple[str, ...]] = ("low", "high")

    def _parts(self, y: Array) -> tuple[Array, Array, Array, Array]:
        """Return which rows are observed, and values and limits that are finite in the branch that uses them."""
        low, high = y[..., 0], y[..., 1]
        seen = low == high
        return seen, jnp.where(seen, low, 0.0), jnp.where(seen, -jnp.inf, low), jnp.where(seen, 0.0, high)

    def log_prob(self, y: Array, f: Array) -> Array:
        seen, value, low, high = self._parts(y)
        between = log_interval(low, high, f, self.scale)
        return jnp.where(seen, Gaussian(self.scale).log_prob(value, f), between)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return middle_landmark(y[..., 0], y[..., 1], self.scale)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        return limit_landmarks(y[..., 0], y[..., 1], self.scale)

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        return self._prob_landmarks(y)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """Closed form for power 1: `log_prob` with noise of variance scale² + v."""
        if self.quadrature is not None or not is_one(power):
            return super().log_expected_prob(y, mean, var, power)
        return CensoredGaussian(jnp.sqrt(self.scale**2 + var)).log_prob(y, mean)

    def row(self, value: Array) -> Array:
        return jnp.stack([value, value], axis=-1)

    def response_mean(self, f: Array) -> Array:
        return f

    def response_var(self, f: Array) -> Array:
        return jnp.broadcast_to(self.scale**2, f.shape)

    def cdf(self, y: Array, f: Array) -> Array:
        """Distribution function of the uncensored value, at `high`."""
        return jnp.exp(log_interval(-jnp.inf, y[..., 1], f, self.scale))

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        return Gaussian(self.scale).expected_cdf(y[..., 1], mean, var)

    def sample(self, key: Array, f: Array) -> Array:
        return Gaussian(self.scale).sample(key, f)

    def missing_information(self, y: np.ndarray) -> str:
        if np.any(np.all(np.isfinite(y), axis=-1)):
            return ""
        return (
            "All values are censored: the data contain no observed value, so that predictions are determined "
            "by the prior."
        )

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        low, high = np.asarray(y)[..., 0], np.asarray(y)[..., 1]
        if np.any(low > high) or np.any(np.isinf(low) & np.isinf(high)):
            raise ValueError("CensoredGaussian: every row needs low ≤ high, and at least one finite limit.")
