"""Log-normal likelihood for positive values: log y = f + N(0, scale²).  Every inference method is exact."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, Power, positive_baseline
from sitewise.likelihoods.gaussian import Gaussian
from sitewise.types import ArrayField, module, positive


@module
class LogNormal(Likelihood):
    """Log-normal regression for positive values with median exp f; every inference method is exact.

    Parameters
    ----------
    scale : float, default=1.0
        Standard deviation of log y; learned.
    """

    scale: ArrayField = positive(default=1.0)

    name: ClassVar[str] = "log_normal"
    about: ClassVar[str] = "positive values, Gaussian on the log scale"
    support: ClassVar[str] = "positive"
    conjugate: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    varying: ClassVar[tuple[str, ...]] = ("scale",)

    def _noise(self) -> Gaussian:
        return Gaussian(self.scale, quadrature=self.quadrature)

    def log_prob(self, y: Array, f: Array) -> Array:
        return self._noise().log_prob(jnp.log(y), f) - jnp.log(y)

    def landmark(self, y: Array) -> tuple[Array, Array]:
        return self._noise().landmark(jnp.log(y))

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> Array:
        return self._noise().expected_log_prob(jnp.log(y), mean, var) - jnp.log(y)

    def expected_log_prob_of_both(self, parameter: str, y: Array, mean: Array, cov: Array) -> Array | None:
        closed = Gaussian(quadrature=self.quadrature).expected_log_prob_of_both(parameter, jnp.log(y), mean, cov)
        return None if closed is None else closed - jnp.log(y)

    def log_expected_prob(self, y: Array, mean: Array, var: Array, power: Power = 1.0) -> Array:
        return self._noise().log_expected_prob(jnp.log(y), mean, var, power) - power * jnp.log(y)

    def log_expected_smoothed_prob(
        self, y: Array, mean: Array, var: Array, resid: Array, power: Power = 1.0, start: Array | None = None
    ) -> Array:
        inner = self._noise().log_expected_smoothed_prob(jnp.log(y), mean, var, resid, power, start)
        return inner - power * jnp.log(y)

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        return float(np.average(np.log(y), weights=weight))

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        return positive_baseline(y)

    def response_mean(self, f: Array) -> Array:
        return jnp.exp(f + 0.5 * self.scale**2)

    def response_var(self, f: Array) -> Array:
        return jnp.expm1(self.scale**2) * jnp.exp(2 * f + self.scale**2)

    def cdf(self, y: Array, f: Array) -> Array:
        return jnp.where(y > 0, self._noise().cdf(jnp.log(jnp.where(y > 0, y, 1.0)), f), 0.0)

    def expected_cdf(self, y: Array, mean: Array, var: Array) -> Array:
        inside = self._noise().expected_cdf(jnp.log(jnp.where(y > 0, y, 1.0)), mean, var)
        return jnp.where(y > 0, inside, 0.0)

    def sample(self, key: Array, f: Array) -> Array:
        return jnp.exp(self._noise().sample(key, f))

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        if np.any(np.asarray(y) <= 0):
            raise ValueError("LogNormal: y must be positive; use Gaussian or StudentT for values of any sign.")
