"""Laplace noise, robust and log-concave: y = f + Laplace(scale), p = exp(−|y − f|/scale) / (2 scale).

Laplace's method does not apply, because log p has a kink at f = y and no curvature elsewhere: use VI, EP or the hybrid.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sitewise.likelihoods.base import Likelihood, Power
from sitewise.numerics.quadrature.gaussian_cdf import log_cdf
from sitewise.types import ArrayField, module, positive


@module
class LaplaceNoise(Likelihood):
    """Robust regression with Laplace noise of standard deviation √2 · scale; log-concave.

    Parameters
    ----------
    scale : float, default=1.0
        Scale of the noise; learned.
    """

    scale: ArrayField = positive(default=1.0)

    name: ClassVar[str] = "laplace_noise"
    about: ClassVar[str] = "values with outliers, log-concave"
    location_scale: ClassVar[bool] = True
    robust: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    curved: ClassVar[bool] = False

    def log_prob(self, y: Array, f: Array) -> Array:
        return -jnp.abs(y - f) / self.scale - jnp.log(2 * self.scale)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return y, jnp.broadcast_to(jnp.asarray(self.scale, y.dtype), y.shape)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """Closed form by E|z| = 2sφ(d/s) + d(2Φ(d/s) − 1) for z ~ N(d, s²)."""
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        sd = jnp.sqrt(var)
        z = (y - mean) / sd
        density = jnp.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
        size = sd * (2 * density + z * jax.scipy.special.erf(z / np.sqrt(2)))
        return -size / self.scale - jnp.log(2 * self.scale)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        """With s² = var, d = y − m, b = scale/power:  E e^{−|z|/b} = e^{s²/2b²} Σ± e^{∓d/b} Φ(±d/s − s/b)."""
        if self.quadrature is not None:
            return super().log_expected_prob(y, mean, var, power)
        sd, b = jnp.sqrt(var), self.scale / power
        d = y - mean
        right = -d / b + log_cdf(d / sd - sd / b)
        left = d / b + log_cdf(-d / sd - sd / b)
        return 0.5 * var / b**2 + jnp.logaddexp(right, left) - power * jnp.log(2 * self.scale)

    def response_mean(self, f: Array) -> Array:
        return f

    def response_var(self, f: Array) -> Array:
        return jnp.broadcast_to(2 * self.scale**2, f.shape)

    def cdf(self, y: Array, f: Array) -> Array:
        z = (y - f) / self.scale
        tail = 0.5 * jnp.exp(-jnp.abs(z))
        return jnp.where(z > 0, 1 - tail, tail)

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        """With s² = var, d = y − m, b = scale:  Φ(d/s) − ½ e^{s²/2b²} Σ± ±e^{∓d/b} Φ(±d/s − s/b)."""
        sd, b, d = jnp.sqrt(var), self.scale, y - mean
        right, left = (
            jnp.exp(0.5 * var / b**2 - sign * d / b + log_cdf(sign * d / sd - sd / b)) for sign in (1.0, -1.0)
        )
        return jax.scipy.stats.norm.cdf(d / sd) - 0.5 * (right - left)

    def sample(self, key: Array, f: Array) -> Array:
        return f + self.scale * jax.random.laplace(key, f.shape, f.dtype)
