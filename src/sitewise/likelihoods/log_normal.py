"""Positive values: log y = f + N(0, scale²).  Gaussian noise on log y, so every method is exact."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from sitewise.likelihoods.base import Likelihood, Power, positive_baseline
from sitewise.likelihoods.gaussian import Gaussian
from sitewise.types import module, positive


@module
class LogNormal(Likelihood):
    """exp f is the median of y."""

    scale: jax.Array = positive(default=1.0)

    name: ClassVar[str] = "log_normal"
    about: ClassVar[str] = "positive values, Gaussian on the log scale"
    support: ClassVar[str] = "positive"
    conjugate: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True

    def _noise(self) -> Gaussian:
        return Gaussian(self.scale, quadrature=self.quadrature)

    def log_prob(self, y: jax.Array, f: jax.Array) -> jax.Array:
        return self._noise().log_prob(jnp.log(y), f) - jnp.log(y)

    def landmark(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self._noise().landmark(jnp.log(y))

    def expected_log_prob(self, y: jax.Array, mean: jax.Array, var: jax.Array) -> jax.Array:
        return self._noise().expected_log_prob(jnp.log(y), mean, var) - jnp.log(y)

    def log_expected_prob(self, y: jax.Array, mean: jax.Array, var: jax.Array, power: Power = 1.0) -> jax.Array:
        return self._noise().log_expected_prob(jnp.log(y), mean, var, power) - power * jnp.log(y)

    def log_expected_smoothed_prob(
        self,
        y: jax.Array,
        mean: jax.Array,
        var: jax.Array,
        resid: jax.Array,
        power: Power = 1.0,
        start: jax.Array | None = None,
    ) -> jax.Array:
        inner = self._noise().log_expected_smoothed_prob(jnp.log(y), mean, var, resid, power, start)
        return inner - power * jnp.log(y)

    def level(self, y: np.ndarray, weight: np.ndarray) -> float:
        return float(np.average(np.log(y), weights=weight))

    @staticmethod
    def baseline(y: np.ndarray) -> Any:
        return positive_baseline(y)

    def response_mean(self, f: jax.Array) -> jax.Array:
        return jnp.exp(f + 0.5 * self.scale**2)

    def response_var(self, f: jax.Array) -> jax.Array:
        return jnp.expm1(self.scale**2) * jnp.exp(2 * f + self.scale**2)

    def cdf(self, y: jax.Array, f: jax.Array) -> jax.Array:
        return jnp.where(y > 0, self._noise().cdf(jnp.log(jnp.where(y > 0, y, 1.0)), f), 0.0)

    def sample(self, key: jax.Array, f: jax.Array) -> jax.Array:
        return jnp.exp(self._noise().sample(key, f))

    def check(self, y: ArrayLike) -> None:
        super().check(y)
        if np.any(np.asarray(y) <= 0):
            raise ValueError("LogNormal: y must be positive.")
