"""Priors on hyperparameters, for MAP learning and for sampling.

A density is that of the parameter itself and not of its logarithm, up to a constant.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import jax
import jax.numpy as jnp

__all__ = ["Gamma", "HyperPrior", "LogNormal", "LogUniform", "Normal"]


class HyperPrior(Protocol):
    def log_prob(self, value: jax.Array) -> jax.Array: ...


@dataclasses.dataclass(frozen=True)
class LogNormal:
    """log θ ~ N(location, scale²)."""

    location: float = 0.0
    scale: float = 1.0

    def log_prob(self, value: jax.Array) -> jax.Array:
        z = jnp.log(value)
        return -0.5 * ((z - self.location) / self.scale) ** 2 - z


@dataclasses.dataclass(frozen=True)
class Normal:
    location: float = 0.0
    scale: float = 1.0

    def log_prob(self, value: jax.Array) -> jax.Array:
        return -0.5 * ((value - self.location) / self.scale) ** 2


@dataclasses.dataclass(frozen=True)
class Gamma:
    shape: float = 2.0
    rate: float = 1.0

    def log_prob(self, value: jax.Array) -> jax.Array:
        return (self.shape - 1) * jnp.log(value) - self.rate * value


@dataclasses.dataclass(frozen=True)
class LogUniform:
    """p(θ) ∝ 1/θ, flat in log θ: as in the paper's MCMC baseline."""

    def log_prob(self, value: jax.Array) -> jax.Array:
        return -jnp.log(value)
