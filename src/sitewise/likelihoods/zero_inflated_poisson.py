"""Zero-inflated Poisson likelihood for counts with excess zeros."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from sitewise.likelihoods.poisson import Poisson
from sitewise.likelihoods.zero_inflated import ZeroInflated
from sitewise.types import module


@module
class ZeroInflatedPoisson(ZeroInflated):
    """Zero-inflated Poisson regression: counts with excess zeros, μ = exposure · rate(f).

    p(0) = inflation + (1 − inflation) e^(−μ),   p(y) = (1 − inflation) Poisson(y; μ) for y > 0
    """

    name: ClassVar[str] = "zero_inflated_poisson"
    about: ClassVar[str] = "counts with excess zeros"

    def plain(self) -> Poisson:
        return Poisson(exposure=self.exposure, quadrature=self.quadrature)

    def _knee(self) -> tuple[Array, Array]:
        """e^(−μ) = π at μ = −log π, where the slope in f is μ."""
        mean = jnp.maximum(-self._log_inflation, 1.0)
        return jnp.log(mean), 1 / mean
