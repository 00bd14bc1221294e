"""Gaussian likelihood: y = f + N(0, scale²).  Every inference method is exact."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm

from sitewise.likelihoods.base import Likelihood, Power
from sitewise.types import ArrayField, module, positive

_LOG_2PI = float(np.log(2 * np.pi))


@module
class Gaussian(Likelihood):
    """Gaussian noise, y = f + N(0, scale²); every inference method is exact.

    Parameters
    ----------
    scale : float, default=1.0
        Standard deviation of the noise; learned.
    """

    scale: ArrayField = positive(default=1.0)

    name: ClassVar[str] = "gaussian"
    about: ClassVar[str] = "values with Gaussian noise"
    location_scale: ClassVar[bool] = True
    conjugate: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    varying: ClassVar[tuple[str, ...]] = ("scale",)

    def log_prob(self, y: Array, f: Array) -> Array:
        return -0.5 * (((y - f) / self.scale) ** 2 + _LOG_2PI) - jnp.log(self.scale)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return y, jnp.broadcast_to(jnp.asarray(self.scale, y.dtype), y.shape)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        return self.log_prob(y, mean) - 0.5 * var / self.scale**2

    def expected_log_prob_of_both(self, parameter: str, y: Array, mean: Array, cov: Array) -> Array | None:
        """With g = log scale: E[(y − f)² e^−2g] = e^(2 Var g − 2 E g) [(y − E f + 2 Cov(f, g))² + Var f]."""
        if self.quadrature is not None:
            return None
        square = (y - mean[0] + 2 * cov[:, 0, 1]) ** 2 + cov[:, 0, 0]
        return -0.5 * _LOG_2PI - mean[1] - 0.5 * square * jnp.exp(2 * cov[:, 1, 1] - 2 * mean[1])

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        if self.quadrature is not None:
            return super().log_expected_prob(y, mean, var, power)
        # p^α = c·N(y; f, s²/α),  log c = ½(1−α) log(2πs²) − ½ log α
        s2 = self.scale**2
        log_c = 0.5 * (1 - power) * jnp.log(2 * np.pi * s2) - 0.5 * jnp.log(power)
        total = s2 / power + var
        return log_c - 0.5 * ((y - mean) ** 2 / total + jnp.log(2 * np.pi * total))

    def log_expected_prob_slopes(self, y: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray | None:
        """Return derivatives of ℓ = −½ [(y − m)²/t + log 2πt], t = v + scale²; ∂ℓ/∂scale = scale [(y − m)²/t − 1]/t."""
        if self.quadrature is not None:
            return None
        scale = np.asarray(self.scale, float)
        total = scale**2 + var
        first, second = (y - mean) / total, -1 / total
        square = first * (y - mean)
        value = -0.5 * (square + np.log(2 * np.pi * total))
        by_scale = scale * (square - 1) / total
        return np.stack(
            [value, first, second, np.zeros_like(first), first * second, second**2, by_scale]
        )  # fmt: skip

    def log_expected_smoothed_prob(
        self, y: Array, mean: Array, var: Array, resid: Array, power: Power = 1.0, start: Array | None = None
    ) -> Array:
        """Closed form by p̃ = p·exp(−½ resid/s²)."""
        if self.quadrature is not None:
            return super().log_expected_smoothed_prob(y, mean, var, resid, power, start)
        return self.log_expected_prob(y, mean, var, power) - 0.5 * power * resid / self.scale**2

    def response_mean(self, f: Array) -> Array:
        return f

    def response_var(self, f: Array) -> Array:
        return jnp.broadcast_to(self.scale**2, f.shape)

    def cdf(self, y: Array, f: Array) -> Array:
        return norm.cdf((y - f) / self.scale)

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        return norm.cdf((y - mean) / jnp.sqrt(self.scale**2 + var))

    def sample(self, key: Array, f: Array) -> Array:
        return f + self.scale * jax.random.normal(key, f.shape, f.dtype)
