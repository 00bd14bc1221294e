"""Priors on hyperparameters, for MAP learning and for sampling.

Densities are densities of the parameter, not of its logarithm.  All proper densities are normalised, such that
evidences with integrated parameters can be compared.  A prior is a pytree of its numbers, such that one compiled
program serves all tables from which the numbers were computed.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from sitewise.types import register_tree

__all__ = ["Gamma", "HyperPrior", "LogNormal", "LogUniform", "Normal"]

_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


class HyperPrior(Protocol):
    """Prior of a hyperparameter: an object with the log density `log_prob`."""

    def log_prob(self, value: jax.Array) -> jax.Array: ...


def _check(prior: Any, *positive: str) -> None:
    """Raise ValueError unless all fields of a prior are finite numbers, and the fields `positive` are positive."""
    for name, given in dataclasses.asdict(prior).items():
        for value in given if isinstance(given, tuple) else (given,):
            if not (
                isinstance(value, int | float | np.number)
                and np.isfinite(value)
                and (value > 0 or name not in positive)
            ):
                wanted = "a positive number" if name in positive else "a number"
                raise ValueError(f"{type(prior).__name__}: {name} must be {wanted}, got {value!r}.")


@dataclasses.dataclass(frozen=True)
class LogNormal:
    """log θ ~ N(location, scale²); `location` may be a tuple with one number per entry of θ."""

    location: float | tuple[float, ...] = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "scale")

    def log_prob(self, value: jax.Array) -> jax.Array:
        location = jnp.asarray(self.location)
        if location.ndim:
            if location.size != np.size(value):
                raise ValueError(
                    f"LogNormal has {location.size} locations, but the parameter has {np.size(value)} entries; give "
                    "one number, or one per entry."
                )
            location = location.reshape(np.shape(value))
        z = jnp.log(value)
        return -0.5 * ((z - location) / self.scale) ** 2 - z - jnp.log(self.scale) - _HALF_LOG_2PI


@dataclasses.dataclass(frozen=True)
class Normal:
    """θ ~ N(location, scale²)."""

    location: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "scale")

    def log_prob(self, value: jax.Array) -> jax.Array:
        return -0.5 * ((value - self.location) / self.scale) ** 2 - jnp.log(self.scale) - _HALF_LOG_2PI


@dataclasses.dataclass(frozen=True)
class Gamma:
    """θ ~ Gamma(shape, rate), with mean shape/rate."""

    shape: float = 2.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "shape", "rate")

    def log_prob(self, value: jax.Array) -> jax.Array:
        constant = self.shape * jnp.log(self.rate) - gammaln(self.shape)
        return (self.shape - 1) * jnp.log(value) - self.rate * value + constant


@dataclasses.dataclass(frozen=True)
class LogUniform:
    """Improper prior p(θ) ∝ 1/θ, flat in log θ, as in the paper's MCMC baseline."""

    def log_prob(self, value: jax.Array) -> jax.Array:
        return -jnp.log(value)


for _kind in (LogNormal, Normal, Gamma, LogUniform):
    register_tree(_kind, tuple(field.name for field in dataclasses.fields(_kind)), ())
