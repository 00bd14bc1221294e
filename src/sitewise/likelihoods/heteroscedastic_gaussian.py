"""Gaussian noise whose variance is given for every row: y = f + N(0, variance).  Every method is exact."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, Power
from sitewise.likelihoods.gaussian import Gaussian
from sitewise.types import module


@module
class HeteroscedasticGaussian(Likelihood):
    """y has the columns value and variance: the square of each measurement's error bar.

    It has no parameters.  The noise of a new row is not known, so the moments of y are not defined; those of f are
    defined, and so are log densities, which are given y with its variance.
    """

    conjugate: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]] = ("value", "variance")

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

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        y = np.asarray(y)
        if not np.all(np.isfinite(y)) or np.any(y[..., 1] <= 0):
            raise ValueError("HeteroscedasticGaussian: values must be finite, and variances positive and finite.")
