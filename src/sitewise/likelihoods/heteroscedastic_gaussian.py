"""Gaussian likelihood with a known noise variance per row: y = f + N(0, variance).  Every method is exact."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, Power
from sitewise.likelihoods.gaussian import Gaussian
from sitewise.types import module


@module
class HeteroscedasticGaussian(Likelihood):
    """Gaussian noise with a known error bar per row (heteroscedastic regression, meta-analysis).

    y has the columns value and variance, the square of the measurement's error bar.  No hyperparameter is learned.
    Predictive moments and draws of y require the variance of the new rows (`side`).  Moments and draws of f are always
    defined, as are log densities, whose y includes the variance.
    """

    name: ClassVar[str] = "heteroscedastic_gaussian"
    about: ClassVar[str] = "values with a known error bar per row"
    location_scale: ClassVar[bool] = True
    conjugate: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]] = ("value", "variance")
    keywords: ClassVar[tuple[str, ...]] = ("noise",)

    def _noise(self, y: Array) -> Gaussian:
        return Gaussian(jnp.sqrt(y[..., 1]), quadrature=self.quadrature)

    def log_prob(self, y: Array, f: Array) -> Array:
        return self._noise(y).log_prob(y[..., 0], f)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return self._noise(y).landmark(y[..., 0])

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        return self._noise(y).expected_log_prob(y[..., 0], mean, var)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        return self._noise(y).log_expected_prob(y[..., 0], mean, var, power)

    def log_expected_smoothed_prob(
        self, y: Array, mean: Array, var: Array, resid: Array, power: Power = 1.0, start: Array | None = None
    ) -> Array:
        return self._noise(y).log_expected_smoothed_prob(y[..., 0], mean, var, resid, power, start)

    def cdf(self, y: Array, f: Array) -> Array:
        return self._noise(y).cdf(y[..., 0], f)

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        return self._noise(y).expected_cdf(y[..., 0], mean, var)

    def row(self, value: Array, side: Array | None = None) -> Array:
        return jnp.stack([value, jnp.broadcast_to(self._variance(side), value.shape)], axis=-1)

    def response_mean(self, f: Array, side: Array | None = None) -> Array:
        return f

    def response_var(self, f: Array, side: Array | None = None) -> Array:
        return jnp.broadcast_to(self._variance(side), f.shape)

    def sample(self, key: Array, f: Array, side: Array | None = None) -> Array:
        return f + jnp.sqrt(self._variance(side)) * jax.random.normal(key, f.shape, f.dtype)

    @staticmethod
    def _variance(side: Array | None) -> Array:
        if side is None:
            raise NotImplementedError("HeteroscedasticGaussian: give the noise variance of the new rows to predict y.")
        return side

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        y = np.asarray(y)
        if not np.all(np.isfinite(y)) or np.any(y[..., 1] <= 0):
            raise ValueError("HeteroscedasticGaussian: values must be finite, and variances positive and finite.")
