"""Zero-inflated negative binomial likelihood for overdispersed counts with excess zeros."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jax import Array

from sitewise.likelihoods.negative_binomial import NegativeBinomial
from sitewise.likelihoods.zero_inflated import ZeroInflated
from sitewise.types import ArrayField, module, positive


@module
class ZeroInflatedNegativeBinomial(ZeroInflated):
    """Zero-inflated negative binomial regression: overdispersed counts with excess zeros.

    As `ZeroInflatedPoisson`, with counts of variance μ + μ²/shape before inflation.

    Parameters
    ----------
    shape : float, default=1.0
        Smaller values mean more overdispersion; learned.
    """

    shape: ArrayField = positive(default=1.0)

    name: ClassVar[str] = "zero_inflated_negative_binomial"
    about: ClassVar[str] = "overdispersed counts with excess zeros"

    def plain(self) -> NegativeBinomial:
        return NegativeBinomial(self.shape, exposure=self.exposure, quadrature=self.quadrature)

    def _knee(self) -> tuple[Array, Array]:
        """(1 + μ/r)^(−r) = π at μ = r (π^(−1/r) − 1), where the slope in f is r μ/(r + μ)."""
        r = self.shape
        depth = jnp.maximum(-self._log_inflation, 1.0) / r
        log_mean = jnp.log(r) + depth + jnp.log(-jnp.expm1(-depth))
        return log_mean, jnp.maximum(1 / (r * -jnp.expm1(-depth)), 0.05)
