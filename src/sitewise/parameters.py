"""Hyperparameters by name, and as one unconstrained vector.

A parameter is a field marked `positive` or `real`; its name is the path to it, as in `kernel.lengthscale`,
`kernel.parts.0.variance`, `likelihood.scale`, `mean.value`.  Positive parameters are trained on a log scale,
or through softplus as in the published procedure.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from sitewise.runtime.engine import Array, namespace
from sitewise.types import POSITIVE, replace

DEFAULT_BOUNDS = (1e-5, 1e6)  # of positive parameters


@dataclasses.dataclass(frozen=True)
class Parameter:
    name: str
    support: str
    shape: tuple[int, ...]
    train: bool

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


def _children(obj: Any) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    if isinstance(obj, tuple):
        yield from ((str(i), part, {}) for i, part in enumerate(obj))
    else:
        yield from ((name, getattr(obj, name), metadata) for name, metadata in _fields(obj.__class__))


@functools.cache
def _fields(kind: Hashable) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Names and metadata of the fields that are not static."""
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return ()
    return tuple((f.name, f.metadata) for f in dataclasses.fields(kind) if not f.metadata.get("static"))


def _join(prefix: str, name: str) -> str:
    # `prior` holds kernel and mean; names leave it out, because a user would not write it.
    if name == "prior" and not prefix:
        return ""
    return f"{prefix}.{name}" if prefix else name


def walk(obj: Any, prefix: str = "") -> Iterator[tuple[Parameter, Any]]:
    """Every parameter below `obj` with its value."""
    for name, value, metadata in _children(obj):
        path = _join(prefix, name)
        if "support" in metadata:
            train = metadata.get("train", True)
            yield Parameter(path, metadata["support"], tuple(np.shape(value)), train), value
        else:
            yield from walk(value, path)


def values(obj: Any) -> dict[str, np.ndarray]:
    """All parameters by name."""
    return {p.name: np.asarray(v) for p, v in walk(obj)}


def with_values(obj: Any, new: dict[str, Any], prefix: str = "") -> Any:
    """`obj` with some parameters replaced; works under a JAX trace."""
    if isinstance(obj, tuple):
        return tuple(with_values(part, new, _join(prefix, str(i))) for i, part in enumerate(obj))
    changes = {}
    for name, value, metadata in _children(obj):
        path = _join(prefix, name)
        if "support" in metadata:
            if path in new:
                changes[name] = new[path]
        elif isinstance(value, tuple) or dataclasses.is_dataclass(value):
            changes[name] = with_values(value, new, path)
    return replace(obj, **changes) if changes else obj


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


@dataclasses.dataclass(frozen=True)
class Trainable:
    """Which parameters are trained, and how they become one vector.  Hashable: a compilation key."""

    parameters: tuple[Parameter, ...]
    transform: str = "log"

    @staticmethod
    def of(model: Any, fixed: Iterable[str] = (), train: Iterable[str] = (), transform: str = "log") -> Trainable:
        """All parameters, except those named in `fixed` and those that are held constant by default (a Student-t's df)
        and not named in `train`.  Names may be patterns: `kernel.*`."""
        known = [p for p, _ in walk(model)]
        fixed, train = tuple(fixed), tuple(train)
        for pattern in fixed + train:
            if not any(matches(p.name, [pattern]) for p in known):
                raise ValueError(
                    f"There is no parameter {pattern!r}; this model has {', '.join(p.name for p in known)}."
                )
        chosen = tuple(p for p in known if (p.train or matches(p.name, train)) and not matches(p.name, fixed))
        return Trainable(chosen, transform)

    @property
    def size(self) -> int:
        return sum(p.size for p in self.parameters)

    @property
    def labels(self) -> list[str]:
        """One name per entry of the vector."""
        return [p.name if p.shape == () else f"{p.name}[{i}]" for p in self.parameters for i in range(p.size)]

    def limits(self, bounds: Mapping[str, tuple[float, float]]) -> np.ndarray:
        """(low, high) of every entry of the vector on a log scale, from `bounds` of names or patterns."""
        known = [p.name for p in self.parameters]
        for pattern in bounds:
            if not any(matches(name, [pattern]) for name in known):
                raise ValueError(f"A bound was given for {pattern!r}; the trained parameters are {', '.join(known)}.")
        out = []
        for p in self.parameters:
            low, high = DEFAULT_BOUNDS if p.support == POSITIVE else (-np.inf, np.inf)
            for pattern, given in bounds.items():
                if matches(p.name, [pattern]):
                    low, high = given
            if not low < high:
                raise ValueError(f"The bounds of {p.name} must be (low, high) with low < high, got {(low, high)}.")
            pair = (low, high) if p.support != POSITIVE else tuple(np.log([max(low, 1e-300), high]))
            out += [pair] * p.size
        return np.array(out, float).reshape(-1, 2)

    def check_priors(self, names: Iterable[str]) -> None:
        known = [p.name for p in self.parameters]
        for name in names:
            if name not in known:
                raise ValueError(f"A prior was given for {name!r}; the trained parameters are {', '.join(known)}.")

    def forward(self, support: str, value: Array) -> Array:
        if support != POSITIVE:
            return value
        xp = namespace(value)
        if self.transform == "log":
            return xp.log(value)
        return value + xp.log(-xp.expm1(-value))  # inverse softplus

    def backward(self, support: str, raw: Array) -> Array:
        if support != POSITIVE:
            return raw
        xp = namespace(raw)
        return xp.exp(raw) if self.transform == "log" else xp.logaddexp(raw, 0.0)

    def backward_slope(self, support: str, raw: Array) -> Array:
        """The derivative of `backward`."""
        xp = namespace(raw)
        if support != POSITIVE:
            return xp.ones_like(raw)
        return xp.exp(raw) if self.transform == "log" else 1 / (1 + xp.exp(-raw))

    def to_vector(self, model: Any) -> Array:
        found = {p.name: v for p, v in walk(model)}
        xp = namespace(*found.values())
        parts = [xp.ravel(self.forward(p.support, xp.asarray(found[p.name]))) for p in self.parameters]
        return xp.concatenate(parts) if parts else xp.zeros(0)

    def constrained(self, vector: Array) -> dict[str, Array]:
        """The values by name that `vector` represents."""
        out, at = {}, 0
        for p in self.parameters:
            raw = vector[at : at + p.size].reshape(p.shape)
            out[p.name] = self.backward(p.support, raw)
            at += p.size
        return out

    def from_vector(self, model: Any, vector: Array) -> Any:
        return with_values(model, self.constrained(vector))

    def pull(self, vector: Array, bar: Any) -> Array:
        """The cotangent of the vector, given that of `from_vector`."""
        xp, found, out, at = namespace(vector), {p.name: v for p, v in walk(bar)}, [], 0
        for p in self.parameters:
            raw = vector[at : at + p.size]
            out.append(xp.ravel(found[p.name]) * self.backward_slope(p.support, raw))
            at += p.size
        return xp.concatenate(out) if out else xp.zeros_like(vector)
