"""Priors on hyperparameters, for MAP learning and for sampling.

Densities are densities of the parameter, not of its logarithm.  All proper densities are normalised, such that
evidences with integrated parameters can be compared.  A prior is a pytree of its numbers, such that one compiled
program serves all tables from which the numbers were computed.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np
from jax.scipy.special import gammaln
from scipy import special

from sitewise.arrays.engine import Array, namespace
from sitewise.types import register_tree

__all__ = ["Gamma", "HyperPrior", "LogNormal", "LogUniform", "Normal"]

_HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)


class HyperPrior(Protocol):
    """Prior of a hyperparameter: an object with the log density `log_prob`."""

    def log_prob(self, value: Array) -> Array: ...


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
    """Log-normal prior, log θ ~ N(location, scale²).

    Parameters
    ----------
    location : float or tuple of float, default=0.0
        Mean of log θ; a tuple has one number per entry of θ.
    scale : float, default=1.0
        Standard deviation of log θ.
    """

    location: float | tuple[float, ...] = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "scale")

    def log_prob(self, value: Array) -> Array:
        xp = namespace(value, self.scale)
        z = xp.log(value)
        standard = (z - self._location(value)) / self.scale
        return -0.5 * standard**2 - z - xp.log(self.scale) - _HALF_LOG_2PI

    def slope(self, value: np.ndarray) -> np.ndarray:
        return -(1 + (np.log(value) - self._location(value)) / self.scale**2) / value

    def _location(self, value: Array) -> Array:
        """Return the location per entry of θ."""
        if not isinstance(self.location, tuple):
            return self.location
        location = namespace(*self.location).asarray(self.location)
        if location.size != np.size(value):
            raise ValueError(
                f"LogNormal has {location.size} locations, but the parameter has {np.size(value)} entries; give "
                "one number, or one per entry."
            )
        return location.reshape(np.shape(value))


@dataclasses.dataclass(frozen=True)
class Normal:
    """Normal prior, θ ~ N(location, scale²).

    Parameters
    ----------
    location : float, default=0.0
        Mean.
    scale : float, default=1.0
        Standard deviation.
    """

    location: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "scale")

    def log_prob(self, value: Array) -> Array:
        log_scale = namespace(value, self.scale).log(self.scale)
        return -0.5 * ((value - self.location) / self.scale) ** 2 - log_scale - _HALF_LOG_2PI

    def slope(self, value: np.ndarray) -> np.ndarray:
        return -(value - self.location) / self.scale**2


@dataclasses.dataclass(frozen=True)
class Gamma:
    """Gamma prior, θ ~ Gamma(shape, rate), with mean shape/rate.

    Parameters
    ----------
    shape : float, default=2.0
        Shape.
    rate : float, default=1.0
        Rate.
    """

    shape: float = 2.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "shape", "rate")

    def log_prob(self, value: Array) -> Array:
        xp = namespace(value, self.shape, self.rate)
        log_gamma = special.gammaln(self.shape) if xp is np else gammaln(self.shape)
        return (self.shape - 1) * xp.log(value) - self.rate * value + self.shape * xp.log(self.rate) - log_gamma

    def slope(self, value: np.ndarray) -> np.ndarray:
        return (self.shape - 1) / value - self.rate


@dataclasses.dataclass(frozen=True)
class LogUniform:
    """Improper prior p(θ) ∝ 1/θ, flat in log θ, as in the paper's MCMC baseline."""

    def log_prob(self, value: Array) -> Array:
        return -namespace(value).log(value)

    def slope(self, value: np.ndarray) -> np.ndarray:
        return -1 / value


KINDS = (LogNormal, Normal, Gamma, LogUniform)  # each also has `slope`, the derivative of log_prob on NumPy arrays
for _kind in KINDS:
    register_tree(_kind, tuple(field.name for field in dataclasses.fields(_kind)), ())
