"""Immutable values that JAX can trace, and the outcomes a computation can have.

The values that the library passes between its parts are frozen dataclasses registered as
JAX pytrees (decision 001).  A field is either *data* (arrays, other modules: traced) or
*static* (settings: part of the compilation key).  A data field may be a *parameter*; then
its metadata says which values it may take (`supports`), and `parameters` can train it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

import jax
import numpy as np
from numpy.typing import ArrayLike

from sitewise.supports import Bounded, Ordered, Positive, Real, Simplex, Support

T = TypeVar("T")

if TYPE_CHECKING:

    class ArrayField:
        """The type of a data field: a caller may pass anything array-like, and whoever reads it gets an array."""

        def __get__(self, owner: object, kind: type | None = None) -> Any: ...

        def __set__(self, owner: object, value: ArrayLike) -> None: ...

else:
    ArrayField = jax.Array


def static(default: Any = dataclasses.MISSING, **kwargs: Any) -> Any:
    """A setting: hashable, fixed at compile time, never trained."""
    return dataclasses.field(default=default, metadata={"static": True}, **kwargs)


def positive(default: Any = dataclasses.MISSING, train: bool = True) -> Any:
    """A parameter with values in (0, ∞); with train=False it is held constant unless it is trained by name."""
    return _parameter(Positive(), default, train)


def real(default: Any = dataclasses.MISSING, train: bool = True, prior: Any = None) -> Any:
    """A parameter with real values; with train=False it is held constant unless it is trained by name.

    It is learned with the `prior`, if it has one, unless the learner is given another.
    """
    return _parameter(Real(), default, train, prior)


def bounded(low: float, high: float, default: Any = dataclasses.MISSING, train: bool = True) -> Any:
    """A parameter with values in (low, high), the ends excluded; `train` as for `positive`."""
    return _parameter(Bounded(float(low), float(high)), default, train)


def simplex(default: Any = dataclasses.MISSING, train: bool = True) -> Any:
    """A list of positive parameters that add up to one, such as shares; `train` as for `positive`."""
    return _parameter(Simplex(), default, train)


def ordered(default: Any = dataclasses.MISSING, train: bool = True) -> Any:
    """A list of parameters in increasing order, such as cut points; `train` as for `positive`."""
    return _parameter(Ordered(), default, train)


def _parameter(support: Support, default: Any, train: bool, prior: Any = None) -> Any:
    return dataclasses.field(default=default, metadata={"support": support, "train": train, "prior": prior})


def fixed(default: Any = dataclasses.MISSING) -> Any:
    """Arrays or modules that are data and not parameters."""
    return dataclasses.field(default=default, metadata={})


class Module:
    """Base of modules with parameters: numbers given for them are converted to float64 arrays.

    These are NumPy arrays and not JAX arrays: a value keeps its sixteen digits whatever
    precision the caller's program uses, and no compilation depends on it.
    """

    def __post_init__(self) -> None:
        for f in _fields(self):
            support = f.metadata.get("support")
            value = getattr(self, f.name)
            # Under a caller's trace a value may be a tracer, which is not checked.
            if support is None or not isinstance(value, int | float | list | tuple | np.ndarray | np.generic):
                continue
            value = np.asarray(value, dtype=np.float64)
            problem = support.problem(value)
            if problem:
                raise ValueError(f"{type(self).__name__}: {f.name} {problem}, got {value}.")
            object.__setattr__(self, f.name, value)

    def __repr__(self) -> str:
        shown = ((f.name, getattr(self, f.name)) for f in _fields(self))
        return f"{type(self).__name__}({', '.join(f'{k}={_short(v)}' for k, v in shown if v is not None)})"


def _fields(obj: Any) -> tuple[dataclasses.Field[Any], ...]:
    """The fields of a module, whose type does not say that it is a dataclass."""
    return dataclasses.fields(obj)


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic | jax.Array) and not isinstance(value, jax.core.Tracer):
        return np.array2string(np.asarray(value), precision=5, separator=", ", threshold=20)
    return repr(value)


@dataclass_transform(frozen_default=True, field_specifiers=(static, positive, real, bounded, simplex, ordered, fixed))
def module(cls: type[T]) -> type[T]:
    """Make `cls` a frozen dataclass and a pytree."""
    cls = dataclasses.dataclass(frozen=True, eq=False, repr=not issubclass(cls, Module))(cls)
    names: dict[bool, list[str]] = {False: [], True: []}
    for f in _fields(cls):
        names[bool(f.metadata.get("static"))].append(f.name)
    _register(cls, tuple(names[False]), tuple(names[True]))
    return cls


def _register(cls: type, data: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Make `cls` a pytree node whose structure differs from that of every other class.

    Not `jax.tree_util.register_dataclass`: the structures it makes compare equal for different classes with equal
    settings (seen in jaxlib 0.10.2), so that a program compiled for one kernel may run for another without an error.
    """

    def parts(obj: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(obj, name) for name in data), tuple(getattr(obj, name) for name in settings)

    def named_parts(obj: Any) -> tuple[tuple[tuple[jax.tree_util.GetAttrKey, Any], ...], tuple[Any, ...]]:
        values, aux = parts(obj)
        return tuple((jax.tree_util.GetAttrKey(n), v) for n, v in zip(data, values, strict=True)), aux

    def rebuild(aux: tuple[Any, ...], values: Iterable[Any]) -> Any:
        # Without `__init__`: JAX puts tracers, cotangents and placeholders here, which need not be valid values.
        obj: Any = object.__new__(cls)
        for name, value in zip((*data, *settings), (*values, *aux), strict=True):
            object.__setattr__(obj, name, value)
        return obj

    jax.tree_util.register_pytree_with_keys(cls, named_parts, rebuild, parts)


def replace(obj: T, **changes: Any) -> T:
    """`dataclasses.replace` without the checks of `__post_init__`, so that it works under a JAX trace."""
    new = object.__new__(type(obj))
    for f in _fields(obj):
        object.__setattr__(new, f.name, changes.pop(f.name, getattr(obj, f.name)))
    if changes:
        raise TypeError(f"{type(obj).__name__} has no field {', '.join(sorted(changes))}; check the spelling.")
    return new


def precedes(cls: type, first: str, second: str) -> bool:
    """Whether `first` is defined by a class that comes before the one that defines `second`.

    Then `second`, which a base class wrote for its own `first`, does not belong to it.
    """
    order = [next(i for i, kind in enumerate(cls.__mro__) if name in kind.__dict__) for name in (first, second)]
    return order[0] < order[1]


class Outcome(enum.IntEnum):
    """How an iteration ended.  `advice` says what to do about it."""

    CONVERGED = 0
    STEP_CAP = 1
    STALLED = 2
    NON_FINITE = 3
    FRACTIONAL = 4
    IMPRECISE = 5
    NO_MAXIMUM = 6

    @property
    def ok(self) -> bool:
        return self is Outcome.CONVERGED

    @property
    def settled(self) -> bool:
        """Whether the iteration ended at a fixed point, so that another attempt would change nothing."""
        return self in (Outcome.CONVERGED, Outcome.IMPRECISE)

    @property
    def advice(self) -> str:
        """What happened and what to do, in the terms of the library's functions."""
        return self.advice_for("library")

    def advice_for(self, caller: str) -> str:
        """The same for a caller of the "library" or of an "estimator", who sets other things."""
        what, *remedies = _ADVICE[self]
        return f"{what} {remedies[_CALLERS.index(caller)]}" if remedies else what


_CALLERS = ("library", "estimator")
# What happened; what to do about it with the library's functions, and with an estimator, which has no choice of
# precision and whose settings have other names.
_ADVICE: dict[Outcome, tuple[str, ...]] = {
    Outcome.CONVERGED: ("The undamped update moves no site by more than the tolerance.",),
    Outcome.STEP_CAP: (
        "The iteration ran out of steps before the sites settled.",
        "Raise max_steps, start from the sites of a neighbouring model, or use a smaller damping.",
        "Scale the inputs, set bounds or priors for the kernel, or use another method.",
    ),
    Outcome.STALLED: (
        "No step in the search direction improved the sites any more.",
        "In float32 the precision does not suffice (use float64); otherwise the sites may be at the limit of what the "
        "likelihood allows: look at the clipped sites, or try another inference method.",
        "They may be at the limit of what the likelihood allows: try another method, bound the variance of the kernel, "
        "or look for rows that contradict all others.",
    ),
    Outcome.NON_FINITE: (
        "The model gave a number that is not finite at its starting point. Check the scales of the inputs against the "
        "lengthscale, and the variance of the kernel.",
    ),
    Outcome.FRACTIONAL: (
        "EP did not converge, not even with damped steps; these are the sites of fractional EP, at half the power, "
        "which did converge. They are a fair approximation.",
        "Use VI for a method that converges here.",
        "Use method 'vi' or 'hybrid', which converge here.",
    ),
    Outcome.IMPRECISE: (
        "The sites have settled, but they are so precise compared with the prior that rounding may have changed "
        "evidence and leave-one-out densities by more than 0.001 nats.",
        "Use float64; if this is float64: rescale inputs, bound the variance of the kernel, or bound the noise from "
        "below.",
        "Scale the inputs, bound the variance of the kernel, or bound the noise from below.",
    ),
    Outcome.NO_MAXIMUM: (
        "Laplace's method found a point where the posterior density has no slope but which is no maximum, so that the "
        "method has no approximation there.",
        "Use EP or VI, or start from other sites.",
        "Use method 'ep', 'vi' or 'hybrid'.",
    ),
}
