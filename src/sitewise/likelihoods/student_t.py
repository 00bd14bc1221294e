"""Student-t noise for robust regression: y = f + scale · t_df.  Not log-concave."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betainc, gammaln

from sitewise.likelihoods.base import Likelihood
from sitewise.types import ArrayField, module, positive


@module
class StudentT(Likelihood):
    """`df` is held constant unless it is trained by name; the published value is 3."""

    scale: ArrayField = positive(default=1.0)
    df: ArrayField = positive(default=3.0, train=False)

    name: ClassVar[str] = "student_t"
    about: ClassVar[str] = "values with outliers"
    location_scale: ClassVar[bool] = True
    robust: ClassVar[bool] = True

    def log_prob(self, y: Array, f: Array) -> Array:
        nu = self.df
        norm = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(np.pi * nu) - jnp.log(self.scale)
        return norm - (nu + 1) / 2 * jnp.log1p(((y - f) / self.scale) ** 2 / nu)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return y, jnp.broadcast_to(jnp.asarray(self.scale, y.dtype), y.shape)

    def response_mean(self, f: Array) -> Array:
        return jnp.where(self.df > 1, f, jnp.nan)

    def response_var(self, f: Array) -> Array:
        var = self.scale**2 * self.df / jnp.where(self.df > 2, self.df - 2, 1.0)
        return jnp.broadcast_to(jnp.where(self.df > 2, var, jnp.inf), f.shape)

    def cdf(self, y: Array, f: Array) -> Array:
        z = (y - f) / self.scale
        tail = 0.5 * betainc(self.df / 2, 0.5, self.df / (self.df + z * z))
        return jnp.where(z > 0, 1 - tail, tail)

    def sample(self, key: Array, f: Array) -> Array:
        return f + self.scale * jax.random.t(key, self.df, f.shape, f.dtype)
