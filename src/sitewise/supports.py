"""Supports of parameters: possible values (positive, bounded, simplex, ordered) and maps to unconstrained numbers.

A *support* is a set of values with a smooth one-to-one map to all real numbers, the *raw* values r.  With the inverse
map θ(r) (`backward`), the laws are

    backward(forward(θ)) = θ,    pull(r, θ̄) = (∂θ/∂r)ᵀ θ̄,    log_volume(r) = log |det ∂θ/∂r|

(A simplex of K values has K − 1 raw values; its volume is the volume of the first K − 1 values.)  Supports are hashable
and can be part of a compilation key.  The maps take NumPy or JAX arrays.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sitewise.arrays.engine import Array, namespace

__all__ = ["Bounded", "Ordered", "Positive", "Real", "Simplex", "Support"]

POSITIVE_BOUNDS = (1e-5, 1e6)  # default bounds of positive values, and of the gaps between ordered values
_MAX_SIMPLEX_RATIO = 1e6  # of a value to the last value
_BOUND_MARGIN = 1e-6  # smallest distance of a bounded value from an end of its interval, as a share of the width
_END_MARGIN = 1e-4  # distance, as a share of the width, below which a bounded value counts as being at the end

_TRANSFORMS = ("log", "softplus")


class Support:
    """Base class of supports."""

    def problem(self, value: np.ndarray) -> str:
        """Describe what is wrong with values, as in "must be positive"; empty if they are valid."""
        raise NotImplementedError

    def raw_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the raw values, given the shape of the values."""
        return shape

    def forward(self, value: Array) -> Array:
        """Return the raw values r(θ)."""
        raise NotImplementedError

    def backward(self, raw: Array) -> Array:
        """Return the values θ(r)."""
        raise NotImplementedError

    def pull(self, raw: Array, bar: Array) -> Array:
        """Return the cotangent of the raw values, given the cotangent `bar` of the values."""
        raise NotImplementedError

    def log_volume(self, raw: Array) -> Array:
        """Return log |det ∂θ/∂r|, one number."""
        raise NotImplementedError

    def log_flat(self, raw: Array) -> Array:
        """Return the log density of the raw values if θ has no prior: by default, θ is uniform."""
        return self.log_volume(raw)

    def limits(self, name: str, shape: tuple[int, ...], given: tuple[float, float] | None) -> np.ndarray:
        """Return (low, high) per raw value, from the bounds `given` for the values of the parameter `name`."""
        raise NotImplementedError

    def labels(self, name: str, shape: tuple[int, ...]) -> list[str]:
        """Return one name per raw value."""
        return [name] if shape == () else [f"{name}[{i}]" for i in range(int(np.prod(shape, dtype=int)))]

    def at_end(self, raw: np.ndarray) -> np.ndarray:
        """Return which raw values are so large that θ is at an end of its support."""
        return np.zeros(np.shape(raw), bool)


def _checked_bounds(name: str, given: Any, default: tuple[float, float]) -> tuple[float, float]:
    """Return bounds as two numbers low < high; raise ValueError if they are not."""
    try:
        low, high = default if given is None else map(float, given)
    except (TypeError, ValueError):
        low = high = np.nan
    if not low < high:
        raise ValueError(f"The bounds of {name} must be (low, high) with low < high, got {given}.")
    return low, high


def _repeated(pair: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """Return the same (low, high) for every raw value."""
    return np.tile(np.asarray(pair, float), (int(np.prod(shape, dtype=int)), 1))


def _log_logistic(raw: Array) -> Array:
    """Return log 1/(1 + e⁻ʳ), accurate and finite for all r."""
    return -namespace(raw).logaddexp(-raw, 0.0)


@dataclasses.dataclass(frozen=True, repr=False)
class Real(Support):
    """All real numbers: θ = r."""

    def __repr__(self) -> str:
        return "real"

    def problem(self, value: np.ndarray) -> str:
        return "" if np.all(np.isfinite(value)) else "must be finite"

    def forward(self, value: Array) -> Array:
        return value

    def backward(self, raw: Array) -> Array:
        return raw

    def pull(self, raw: Array, bar: Array) -> Array:
        return bar

    def log_volume(self, raw: Array) -> Array:
        return namespace(raw).zeros(())

    def limits(self, name: str, shape: tuple[int, ...], given: tuple[float, float] | None) -> np.ndarray:
        return _repeated(_checked_bounds(name, given, (-np.inf, np.inf)), shape)


@dataclasses.dataclass(frozen=True, repr=False)
class Positive(Support):
    """(0, ∞): θ = eʳ, or θ = log(1 + eʳ) with transform="softplus".  Without a prior, log θ is uniform."""

    transform: str = "log"

    def __post_init__(self) -> None:
        if self.transform not in _TRANSFORMS:
            raise ValueError(f"transform must be one of {', '.join(_TRANSFORMS)}, got {self.transform!r}.")

    def __repr__(self) -> str:
        return "positive" if self.transform == "log" else f"positive({self.transform})"

    def problem(self, value: np.ndarray) -> str:
        return "" if np.all((value > 0) & np.isfinite(value)) else "must be positive and finite"

    def forward(self, value: Array) -> Array:
        xp = namespace(value)
        return xp.log(value) if self.transform == "log" else value + xp.log(-xp.expm1(-value))

    def backward(self, raw: Array) -> Array:
        xp = namespace(raw)
        return xp.exp(raw) if self.transform == "log" else xp.logaddexp(raw, 0.0)

    def _log_slope(self, raw: Array) -> Array:
        return raw if self.transform == "log" else _log_logistic(raw)

    def pull(self, raw: Array, bar: Array) -> Array:
        return bar * namespace(raw).exp(self._log_slope(raw))

    def log_volume(self, raw: Array) -> Array:
        return namespace(raw).sum(self._log_slope(raw))

    def log_flat(self, raw: Array) -> Array:
        xp = namespace(raw)
        return xp.zeros(()) if self.transform == "log" else self.log_volume(raw) - xp.sum(xp.log(self.backward(raw)))

    def limits(self, name: str, shape: tuple[int, ...], given: tuple[float, float] | None) -> np.ndarray:
        low, high = _checked_bounds(name, given, POSITIVE_BOUNDS)
        if low < 0 or high <= 0:
            raise ValueError(f"{name} is positive; give bounds in its own units, not as logarithms; got {given}.")
        return _repeated(self.forward(np.array([max(low, 1e-300), high])), shape)


@dataclasses.dataclass(frozen=True, repr=False)
class Bounded(Support):
    """(low, high): θ = low + (high − low) / (1 + e⁻ʳ)."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (self.low < self.high and np.isfinite(self.high - self.low)):
            raise ValueError(f"bounded needs two numbers low < high, got {self.low} and {self.high}.")

    def __repr__(self) -> str:
        return f"bounded({self.low:g}, {self.high:g})"

    def problem(self, value: np.ndarray) -> str:
        inside = (value > self.low) & (value < self.high)
        return "" if np.all(inside) else f"must be between {self.low:g} and {self.high:g}, both excluded"

    def forward(self, value: Array) -> Array:
        xp = namespace(value)
        return xp.log(value - self.low) - xp.log(self.high - value)

    def backward(self, raw: Array) -> Array:
        return self.low + (self.high - self.low) * namespace(raw).exp(_log_logistic(raw))

    def _log_slope(self, raw: Array) -> Array:
        return np.log(self.high - self.low) + _log_logistic(raw) + _log_logistic(-raw)

    def pull(self, raw: Array, bar: Array) -> Array:
        return bar * namespace(raw).exp(self._log_slope(raw))

    def log_volume(self, raw: Array) -> Array:
        return namespace(raw).sum(self._log_slope(raw))

    def limits(self, name: str, shape: tuple[int, ...], given: tuple[float, float] | None) -> np.ndarray:
        low, high = _checked_bounds(name, given, (self.low, self.high))
        margin = _BOUND_MARGIN * (self.high - self.low)
        low, high = max(low, self.low + margin), min(high, self.high - margin)
        if not low < high:
            raise ValueError(f"The bounds of {name} must overlap ({self.low:g}, {self.high:g}), got {given}.")
        return _repeated(self.forward(np.array([low, high])), shape)

    def at_end(self, raw: np.ndarray) -> np.ndarray:
        # The slope in r vanishes at an end: a search towards the end stops before it arrives there.
        return np.abs(raw) > np.log(1 / _END_MARGIN)


class _LastAxis(Support):
    """Base class of supports that constrain the values along the last axis jointly; they take no bounds."""

    def _limits(self, shape: tuple[int, ...]) -> np.ndarray:
        raise NotImplementedError

    def limits(self, name: str, shape: tuple[int, ...], given: tuple[float, float] | None) -> np.ndarray:
        if given is not None:
            raise ValueError(f"{name} is {self!r} and takes no bounds; give it a prior, or hold it fixed.")
        return self._limits(shape)

    def _labels_by_list(self, name: str, shape: tuple[int, ...]) -> list[list[str]]:
        """Return the names of the values, one list per last axis."""
        names = super().labels(name, shape)
        return [names[i : i + shape[-1]] for i in range(0, len(names), shape[-1])]


@dataclasses.dataclass(frozen=True, repr=False)
class Simplex(_LastAxis):
    """Positive values that sum to one along the last axis: r_k = log(θ_k / θ_K), k < K.

    |∂θ/∂r| is the product of all θ_k: the uniform distribution on the simplex has the density Π θ_k in r.
    """

    def __repr__(self) -> str:
        return "simplex"

    def problem(self, value: np.ndarray) -> str:
        fine = value.ndim and np.all(value > 0) and np.allclose(value.sum(axis=-1), 1.0, rtol=0.0, atol=1e-6)
        return "" if fine else "must be a list of positive numbers that sum to one"

    def raw_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] - 1)

    def forward(self, value: Array) -> Array:
        logs = namespace(value).log(value)
        return logs[..., :-1] - logs[..., -1:]

    def _logs(self, raw: Array) -> Array:
        xp = namespace(raw)
        whole = xp.concatenate([raw, xp.zeros_like(raw, shape=(*raw.shape[:-1], 1))], axis=-1)
        whole = whole - xp.max(whole, axis=-1, keepdims=True)
        return whole - xp.log(xp.sum(xp.exp(whole), axis=-1, keepdims=True))

    def backward(self, raw: Array) -> Array:
        return namespace(raw).exp(self._logs(raw))

    def pull(self, raw: Array, bar: Array) -> Array:
        value = self.backward(raw)
        return (value * (bar - (value * bar).sum(axis=-1, keepdims=True)))[..., :-1]

    def log_volume(self, raw: Array) -> Array:
        return namespace(raw).sum(self._logs(raw))

    def _limits(self, shape: tuple[int, ...]) -> np.ndarray:
        return _repeated(np.log([1 / _MAX_SIMPLEX_RATIO, _MAX_SIMPLEX_RATIO]), self.raw_shape(shape))

    def labels(self, name: str, shape: tuple[int, ...]) -> list[str]:
        return [f"{value}/{row[-1]}" for row in self._labels_by_list(name, shape) for value in row[:-1]]


@dataclasses.dataclass(frozen=True, repr=False)
class Ordered(_LastAxis):
    """Increasing values along the last axis: r_1 = θ_1, r_k = log(θ_k − θ_{k−1})."""

    def __repr__(self) -> str:
        return "ordered"

    def problem(self, value: np.ndarray) -> str:
        fine = value.ndim and np.all(np.isfinite(value)) and np.all(np.diff(value, axis=-1) > 0)
        return "" if fine else "must be a list of finite numbers in increasing order"

    def forward(self, value: Array) -> Array:
        xp = namespace(value)
        return xp.concatenate([value[..., :1], xp.log(value[..., 1:] - value[..., :-1])], axis=-1)

    def backward(self, raw: Array) -> Array:
        xp = namespace(raw)
        return xp.cumsum(xp.concatenate([raw[..., :1], xp.exp(raw[..., 1:])], axis=-1), axis=-1)

    def pull(self, raw: Array, bar: Array) -> Array:
        xp = namespace(raw, bar)
        later = xp.cumsum(bar[..., ::-1], axis=-1)[..., ::-1]
        return xp.concatenate([later[..., :1], xp.exp(raw[..., 1:]) * later[..., 1:]], axis=-1)

    def log_volume(self, raw: Array) -> Array:
        return namespace(raw).sum(raw[..., 1:])

    def _limits(self, shape: tuple[int, ...]) -> np.ndarray:
        out = _repeated(np.log(POSITIVE_BOUNDS), shape).reshape(*shape, 2)
        out[..., 0, :] = -np.inf, np.inf
        return out.reshape(-1, 2)

    def labels(self, name: str, shape: tuple[int, ...]) -> list[str]:
        rows = self._labels_by_list(name, shape)
        return [label for row in rows for label in (row[0], *(f"{b}-{a}" for a, b in itertools.pairwise(row)))]
