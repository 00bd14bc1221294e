"""Quantile regression: f is a quantile of y, with asymmetric Laplace noise around it.

    p(y | f) = τ(1 − τ)/scale · exp(−ρ(y − f)/scale),    ρ(d) = d (τ − [d < 0]),    τ = quantile

Maximising p minimises the pinball loss ρ.  log p is concave, with a kink at f = y and no curvature elsewhere: use VI,
EP or the hybrid.  The latent function is the quantile.  The noise is a working assumption, as Gaussian noise is in
least squares, and predictive distributions of y depend on this assumption.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm

from sitewise.likelihoods.base import Likelihood, Power
from sitewise.numerics.quadrature.gaussian_cdf import log_cdf
from sitewise.types import ArrayField, module, positive, static


@module
class AsymmetricLaplace(Likelihood):
    """Quantile regression: f is a quantile of y, with asymmetric Laplace noise around it.

    For quantile = ½ this is Laplace noise with twice the scale.

    Parameters
    ----------
    scale : float, default=1.0
        Scale of the noise; learned.
    quantile : float, default=0.5
        The quantile, between 0 and 1; ½ is the median.
    """

    scale: ArrayField = positive(default=1.0)
    quantile: float = static(default=0.5, kw_only=True)

    name: ClassVar[str] = "asymmetric_laplace"
    about: ClassVar[str] = "a quantile of the values: the median, or the quantile given in a likelihood object"
    location_scale: ClassVar[bool] = True
    robust: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    curved: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.quantile < 1:
            raise ValueError(f"AsymmetricLaplace: quantile must be between 0 and 1, as in 0.9; got {self.quantile!r}.")

    def _rates(self) -> tuple[Array, Array]:
        """Exponential rates at which p falls for y above f and for y below f."""
        return self.quantile / self.scale, (1 - self.quantile) / self.scale

    def _log_height(self) -> Array:
        return np.log(self.quantile * (1 - self.quantile)) - jnp.log(self.scale)

    def log_prob(self, y: Array, f: Array) -> Array:
        up, down = self._rates()
        d = y - f
        return self._log_height() - jnp.where(d > 0, up, -down) * d

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return y, jnp.broadcast_to(jnp.asarray(self.scale, y.dtype), y.shape)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        """Closed form by E ρ(d) = sφ(d₀/s) + d₀(Φ(d₀/s) − (1 − τ)) for d ~ N(d₀, s²)."""
        if self.quadrature is not None:
            return super().expected_log_prob(y, mean, var)
        sd, d = jnp.sqrt(var), y - mean
        loss = sd * norm.pdf(d / sd) + d * (norm.cdf(d / sd) - (1 - self.quantile))
        return self._log_height() - loss / self.scale

    def _halves(self, d: Array, var: Array, power: Power = 1.0) -> tuple[Array, Array]:
        """Return log E[e^{−ad}; d > 0] and log E[e^{bd}; d < 0], d ~ N(d₀, s²), where a, b are the rates times `power`:

        a²s²/2 − a d₀ + log Φ(d₀/s − as)    and    b²s²/2 + b d₀ + log Φ(−d₀/s − bs).
        """
        sd, (a, b) = jnp.sqrt(var), (power * rate for rate in self._rates())
        above = 0.5 * a * a * var - a * d + log_cdf(d / sd - a * sd)
        return above, 0.5 * b * b * var + b * d + log_cdf(-d / sd - b * sd)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        if self.quadrature is not None:
            return super().log_expected_prob(y, mean, var, power)
        return jnp.logaddexp(*self._halves(y - mean, var, power)) + power * self._log_height()

    def response_mean(self, f: Array) -> Array:
        t = self.quantile
        return f + self.scale * (1 - 2 * t) / (t * (1 - t))

    def response_var(self, f: Array) -> Array:
        t = self.quantile
        return jnp.broadcast_to(self.scale**2 * (1 - 2 * t * (1 - t)) / (t * (1 - t)) ** 2, f.shape)

    def cdf(self, y: Array, f: Array) -> Array:
        up, down = self._rates()
        d = y - f
        above = 1 - (1 - self.quantile) * jnp.exp(-up * jnp.maximum(d, 0.0))
        return jnp.where(d > 0, above, self.quantile * jnp.exp(down * jnp.minimum(d, 0.0)))

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        """Φ(d₀/s) − (1 − τ) E[e^{−ad}; d > 0] + τ E[e^{bd}; d < 0]."""
        d = y - mean
        above, below = self._halves(d, var)
        return norm.cdf(d / jnp.sqrt(var)) - (1 - self.quantile) * jnp.exp(above) + self.quantile * jnp.exp(below)

    def sample(self, key: Array, f: Array) -> Array:
        """Add the difference of two exponential variables with the two rates to f."""
        up, down = self._rates()
        above, below = jax.random.exponential(key, (2, *f.shape), f.dtype)
        return f + above / up - below / down
