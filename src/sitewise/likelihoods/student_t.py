"""Student-t likelihood for robust regression: y = f + scale · t_df.  Not log-concave."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betainc, gammaln
from jax.scipy.stats import norm

from sitewise.likelihoods.base import Likelihood
from sitewise.numerics.quadrature.gaussian_rules import Landmark, Rule
from sitewise.types import ArrayField, module, positive

_CDF_POINTS = 64  # of the trapezoidal rule of `expected_cdf`


@module
class StudentT(Likelihood):
    """Robust regression with Student-t noise, y = f + scale · t_df; outliers have little influence.  Not log-concave.

    Parameters
    ----------
    scale : float, default=1.0
        Scale of the noise; learned.
    df : float, default=3.0
        Degrees of freedom; held fixed unless `Hyperparameters(train="likelihood.df")` names it.
    """

    scale: ArrayField = positive(default=1.0)
    df: ArrayField = positive(default=3.0, train=False)

    name: ClassVar[str] = "student_t"
    about: ClassVar[str] = "values with outliers"
    location_scale: ClassVar[bool] = True
    robust: ClassVar[bool] = True
    rule: ClassVar[Rule] = Landmark(flat=0.7)  # the density has poles and no steep edge
    varying: ClassVar[tuple[str, ...]] = ("scale",)

    def log_prob(self, y: Array, f: Array) -> Array:
        nu = self.df
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(np.pi * nu) - jnp.log(self.scale)
        return constant - (nu + 1) / 2 * jnp.log1p(((y - f) / self.scale) ** 2 / nu)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return y, jnp.broadcast_to(jnp.asarray(self.scale, y.dtype), y.shape)

    def _log_prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        """Scale the poles of the density, y ± i·scale·√df, to the poles ±1.4i for which the quadrature is made."""
        return y, jnp.broadcast_to(jnp.asarray(self.scale * jnp.sqrt(self.df) / 1.4, y.dtype), y.shape)

    def _prob_landmarks(self, y: Array) -> tuple[Array, Array]:
        return self._log_prob_landmarks(y)

    def response_mean(self, f: Array) -> Array:
        return jnp.where(self.df > 1, f, jnp.nan)

    def response_var(self, f: Array) -> Array:
        var = self.scale**2 * self.df / jnp.where(self.df > 2, self.df - 2, 1.0)
        return jnp.broadcast_to(jnp.where(self.df > 2, var, jnp.inf), f.shape)

    def cdf(self, y: Array, f: Array) -> Array:
        z = (y - f) / self.scale
        tail = 0.5 * betainc(self.df / 2, 0.5, self.df / (self.df + z * z))
        return jnp.where(z > 0, 1 - tail, tail)

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        """Quadrature over the variance of the noise.

        Student-t noise is Gaussian noise of variance scale²/w with w ~ Gamma(df/2, df/2).  For f ~ N(m, v),

            P(Y ≤ y) = E_w Φ((y − m) / √(v + scale²/w)).

        With a = df/2 and w = eᵘ, the density of u is exp(a (u − eᵘ) + a log a − log Γ(a)): smooth, 1/√a wide, falling
        like e^{au} to the left.  The trapezoidal rule in t, where u = sinh(t)·width, is accurate to 10⁻⁸ for df ≥ ½.
        """
        a = jnp.asarray(self.df, mean.dtype) / 2
        width = 1 / jnp.sqrt(1 + a)
        low, high = 8.5 / jnp.sqrt(a) + 36 / a, jnp.log1p(8.5 / jnp.sqrt(a) + 36 / a)
        first, last = -jnp.arcsinh(low / width), jnp.arcsinh(high / width)
        t = first + (last - first) * np.linspace(0.0, 1.0, _CDF_POINTS).reshape((-1,) + (1,) * mean.ndim)
        u = width * jnp.sinh(t)
        weight = jnp.exp(a * (u - jnp.exp(u)) + a * jnp.log(a) - gammaln(a)) * width * jnp.cosh(t)
        share = norm.cdf((y - mean) / jnp.sqrt(var + self.scale**2 * jnp.exp(-u)))
        return jnp.sum(weight * share, axis=0) * (last - first) / (_CDF_POINTS - 1)

    def sample(self, key: Array, f: Array) -> Array:
        return f + self.scale * jax.random.t(key, self.df, f.shape, f.dtype)
