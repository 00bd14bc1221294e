"""Immutable values that JAX can trace, and the outcomes a computation can have.

Everything the library passes around is a frozen dataclass registered as a JAX pytree
(decision 001).  A field is either *data* (arrays, other modules: traced) or *static*
(settings: part of the compilation key).  A data field may be a *parameter*; then its
metadata says which values it may take, and `parameters` can train it.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

T = TypeVar("T")

POSITIVE = "positive"
REAL = "real"


def static(default: Any = dataclasses.MISSING, **kwargs: Any) -> Any:
    """A setting: hashable, fixed at compile time, never trained."""
    return dataclasses.field(default=default, metadata={"static": True}, **kwargs)


def positive(default: Any = dataclasses.MISSING, train: bool = True) -> Any:
    """A parameter that lives on (0, ∞); with train=False it is held unless asked for by name."""
    return dataclasses.field(default=default, metadata={"support": POSITIVE, "train": train})


def real(default: Any = dataclasses.MISSING, train: bool = True) -> Any:
    """A parameter that lives on the whole line; with train=False it is held unless asked for by name."""
    return dataclasses.field(default=default, metadata={"support": REAL, "train": train})


def fixed(default: Any = dataclasses.MISSING) -> Any:
    """Numbers that are data, not parameters (given noise)."""
    return dataclasses.field(default=default, metadata={})


class Module:
    """Base of modules with parameters: numbers become float64 arrays as they enter.

    NumPy arrays, not JAX arrays: the value keeps its sixteen digits whatever precision
    the caller's program has chosen, and no compilation depends on it.
    """

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            support = f.metadata.get("support")
            value = getattr(self, f.name)
            # JAX rebuilds modules with tracers and placeholders in their fields: those pass unchecked.
            if support is None or not isinstance(value, int | float | list | tuple | np.ndarray | np.generic):
                continue
            value = np.asarray(value, dtype=np.float64)
            if support == POSITIVE and not (np.all(value > 0) and np.all(np.isfinite(value))):
                raise ValueError(f"{type(self).__name__}: {f.name} must be positive and finite, got {value}.")
            if support == REAL and not np.all(np.isfinite(value)):
                raise ValueError(f"{type(self).__name__}: {f.name} must be finite, got {value}.")
            object.__setattr__(self, f.name, value)

    def __repr__(self) -> str:
        shown = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self))  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{k}={_short(v)}' for k, v in shown if v is not None)})"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray | jax.Array) and not isinstance(value, jax.core.Tracer):
        return np.array2string(np.asarray(value), precision=5, separator=", ", threshold=20)
    return repr(value)


@dataclass_transform(frozen_default=True, field_specifiers=(static, positive, real, fixed))
def module(cls: type[T]) -> type[T]:
    """Make `cls` a frozen dataclass and a pytree."""
    cls = dataclasses.dataclass(frozen=True, eq=False, repr=not issubclass(cls, Module))(cls)
    names: dict[bool, list[str]] = {False: [], True: []}
    for f in dataclasses.fields(cls):  # type: ignore[arg-type]
        names[bool(f.metadata.get("static"))].append(f.name)
    _register(cls, tuple(names[False]), tuple(names[True]))
    return cls


def _register(cls: type, data: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Make `cls` a pytree node whose structure differs from that of every other class.

    Not `jax.tree_util.register_dataclass`: the structures it makes compare equal for different classes with equal
    settings (seen in jaxlib 0.10.2), so that a compiled program for one kernel may be run for another, in silence.
    """

    def parts(obj):
        return tuple(getattr(obj, name) for name in data), tuple(getattr(obj, name) for name in settings)

    def named_parts(obj):
        values, aux = parts(obj)
        return tuple((jax.tree_util.GetAttrKey(n), v) for n, v in zip(data, values, strict=True)), aux

    def rebuild(aux, values):
        return cls(**dict(zip(data, values, strict=True)), **dict(zip(settings, aux, strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, named_parts, rebuild, parts)


def replace(obj: T, **changes: Any) -> T:
    """`dataclasses.replace` without running the checks of `__post_init__` (safe under trace)."""
    new = object.__new__(type(obj))
    for f in dataclasses.fields(obj):  # type: ignore[arg-type]
        object.__setattr__(new, f.name, changes.pop(f.name, getattr(obj, f.name)))
    if changes:
        raise TypeError(f"{type(obj).__name__} has no field {sorted(changes)}")
    return new


class Outcome(enum.IntEnum):
    """How an iteration ended.  `advice` says what to do about it."""

    CONVERGED = 0
    STEP_CAP = 1
    STALLED = 2
    NON_FINITE = 3
    FRACTIONAL = 4
    IMPRECISE = 5

    @property
    def ok(self) -> bool:
        return self is Outcome.CONVERGED

    @property
    def settled(self) -> bool:
        """The iteration has ended at a fixed point: there is nothing to try again."""
        return self in (Outcome.CONVERGED, Outcome.IMPRECISE)

    @property
    def advice(self) -> str:
        return _ADVICE[self]


_ADVICE = {
    Outcome.CONVERGED: "The undamped update moves no site by more than the tolerance.",
    Outcome.STEP_CAP: "The iteration ran out of steps before the sites settled. Raise max_steps, "
    "start from the sites of a neighbouring model, or use a shorter damping.",
    Outcome.STALLED: "No step in the search direction improved the sites any more. In float32 this "
    "is the precision running out (use float64); otherwise the sites may be at the edge of what "
    "the likelihood allows: look at the clipped sites, or try another inference method.",
    Outcome.NON_FINITE: "The model gave a number that is not finite at its starting point. Check the "
    "scales of the inputs against the lengthscale, and the variance of the kernel.",
    Outcome.FRACTIONAL: "EP did not converge, not even with damped steps; these are the sites of fractional EP, at "
    "half the power, which did. They are a fair approximation; use VI (in an estimator: method 'vi' or 'hybrid') for "
    "one that converges here.",
    Outcome.IMPRECISE: "The sites have settled, but they are so precise next to the prior that rounding may have moved "
    "evidence and leave-one-out densities by more than 0.001 nats. Use float64; if this is float64: "
    "rescale inputs, bound the variance of the kernel, or bound the noise from below.",
}
