"""Modules (frozen dataclasses registered as JAX pytrees), fields for parameters, and outcomes of iterations.

Models, kernels, likelihoods and data are modules (decision 001).  A field is either *data* (arrays, other modules:
traced) or *static* (settings: part of the compilation key).  A data field may be a *parameter*: its metadata holds the
support, the set of its possible values (`supports`), and `parameters` can train it.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

import jax
import numpy as np
from numpy.typing import ArrayLike

from sitewise.supports import Bounded, Ordered, Positive, Real, Simplex, Support

T = TypeVar("T")

if TYPE_CHECKING:

    class ArrayField:
        """Type of a data field: accepts any array-like value when set, and is an array when read."""

        def __get__(self, owner: object, kind: type | None = None) -> Any: ...

        def __set__(self, owner: object, value: ArrayLike) -> None: ...

else:
    ArrayField = jax.Array


def static(default: Any = dataclasses.MISSING, **kwargs: Any) -> Any:
    """Declare a setting: hashable, fixed at compile time, never trained."""
    return dataclasses.field(default=default, metadata={"static": True}, **kwargs)


def positive(default: Any = dataclasses.MISSING, train: bool = True) -> Any:
    """Declare a parameter with values in (0, ∞); with train=False it is held fixed unless trained by name."""
    return _parameter(Positive(), default, train)


def real(default: Any = dataclasses.MISSING, train: bool = True, prior: Any = None) -> Any:
    """Declare a parameter with real values; `train` as for `positive`.

    `prior` is the default prior of the parameter in learning.
    """
    return _parameter(Real(), default, train, prior)


def bounded(low: float, high: float, default: Any = dataclasses.MISSING, train: bool = True) -> Any:
    """Declare a parameter with values in (low, high), the ends excluded; `train` as for `positive`."""
    return _parameter(Bounded(float(low), float(high)), default, train)


def simplex(default: Any = dataclasses.MISSING, train: bool = True) -> Any:
    """Declare a list of positive parameters that sum to one, such as shares; `train` as for `positive`."""
    return _parameter(Simplex(), default, train)


def ordered(default: Any = dataclasses.MISSING, train: bool = True) -> Any:
    """Declare a list of parameters in increasing order, such as cut points; `train` as for `positive`."""
    return _parameter(Ordered(), default, train)


def _parameter(support: Support, default: Any, train: bool, prior: Any = None) -> Any:
    return dataclasses.field(default=default, metadata={"support": support, "train": train, "prior": prior})


def fixed(default: Any = dataclasses.MISSING) -> Any:
    """Declare a field of arrays or modules that are data and not parameters."""
    return dataclasses.field(default=default, metadata={})


class Module:
    """Base class of modules with parameters: numbers are checked and converted to float64 NumPy arrays.

    NumPy arrays, unlike JAX arrays, keep double precision in programs with single precision, and no compilation depends
    on their values.
    """

    def __post_init__(self) -> None:
        for f in _fields(self):
            support = f.metadata.get("support")
            value = getattr(self, f.name)
            # Under a JAX trace a value may be a tracer, which cannot be checked.
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
    """Return the fields of a module; its type does not show that it is a dataclass."""
    return dataclasses.fields(obj)


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic | jax.Array) and not isinstance(value, jax.core.Tracer):
        return np.array2string(np.asarray(value), precision=5, separator=", ", threshold=20)
    return repr(value)


@dataclass_transform(frozen_default=True, field_specifiers=(static, positive, real, bounded, simplex, ordered, fixed))
def module(cls: type[T]) -> type[T]:
    """Class decorator: make `cls` a frozen dataclass and a JAX pytree."""
    cls = dataclasses.dataclass(frozen=True, eq=False, repr=not issubclass(cls, Module))(cls)
    names: dict[bool, list[str]] = {False: [], True: []}
    for f in _fields(cls):
        names[bool(f.metadata.get("static"))].append(f.name)
    register_tree(cls, tuple(names[False]), tuple(names[True]))
    return cls


def register_tree(cls: type, data: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Register `cls` as a pytree node whose structure differs from the structure of every other class.

    `jax.tree_util.register_dataclass` is not used: its structures compare equal for different classes with equal
    settings (seen in jaxlib 0.10.2), and a program compiled for one kernel could run for another without an error.
    """

    def parts(obj: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(obj, name) for name in data), tuple(getattr(obj, name) for name in settings)

    def named_parts(obj: Any) -> tuple[tuple[tuple[jax.tree_util.GetAttrKey, Any], ...], tuple[Any, ...]]:
        values, aux = parts(obj)
        return tuple((jax.tree_util.GetAttrKey(n), v) for n, v in zip(data, values, strict=True)), aux

    def rebuild(aux: tuple[Any, ...], values: Iterable[Any]) -> Any:
        # Without `__init__` and its checks: JAX passes tracers, cotangents and placeholders, which may be invalid.
        obj: Any = object.__new__(cls)
        for name, value in zip((*data, *settings), (*values, *aux), strict=True):
            object.__setattr__(obj, name, value)
        return obj

    jax.tree_util.register_pytree_with_keys(cls, named_parts, rebuild, parts)


def replace(obj: T, **changes: Any) -> T:
    """Return a copy with changed fields, as `dataclasses.replace` without `__post_init__`; works under a JAX trace."""
    new = object.__new__(type(obj))
    for name in _field_names(cast(Hashable, type(obj))):
        object.__setattr__(new, name, changes.pop(name) if name in changes else getattr(obj, name))
    if changes:
        raise TypeError(f"{type(obj).__name__} has no field {', '.join(sorted(changes))}; check the spelling.")
    return new


@functools.cache
def _field_names(kind: Hashable) -> tuple[str, ...]:
    return tuple(f.name for f in _fields(kind))


def precedes(cls: type, first: str, second: str) -> bool:
    """Return whether `first` is defined by a more derived class than `second` in the method resolution order.

    If so, `second` was written for another implementation of `first` and does not match it.
    """
    order = [next(i for i, kind in enumerate(cls.__mro__) if name in kind.__dict__) for name in (first, second)]
    return order[0] < order[1]


class Outcome(enum.IntEnum):
    """How an iteration ended; `advice` describes the outcome and what to do."""

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
        """Whether the iteration ended at a fixed point; another attempt would change nothing."""
        return self in (Outcome.CONVERGED, Outcome.IMPRECISE)

    @property
    def advice(self) -> str:
        """Outcome and what to do, for users of the library's functions."""
        return self.advice_for("library")

    def advice_for(self, caller: str) -> str:
        """Return the outcome and what to do, for users of the "library" or of an "estimator", whose settings differ."""
        what, *remedies = _ADVICE[self]
        return f"{what} {remedies[_CALLERS.index(caller)]}" if remedies else what


_CALLERS = ("library", "estimator")
# Outcome; what to do for users of the library's functions; what to do for users of an estimator, which always computes
# in double precision and whose settings have other names.
_ADVICE: dict[Outcome, tuple[str, ...]] = {
    Outcome.CONVERGED: ("Converged: a full update changes no site by more than the tolerance.",),
    Outcome.STEP_CAP: (
        "Not converged: the sites were still changing after the maximum number of steps.",
        "Increase max_steps, start from the sites of a similar model, or use shorter steps, such as damping=0.2.",
        "Scale the inputs, set bounds or priors for the kernel parameters, or use another method.",
    ),
    Outcome.STALLED: (
        "Not converged: no step in the search direction improved the sites.",
        "In float32, use float64. In float64, check the number of clipped sites, whose precision was set to its lower "
        "limit, or use another inference method.",
        "Use another method, set an upper bound on the variance of the kernel, or look for outliers.",
    ),
    Outcome.NON_FINITE: (
        "The starting point gave a number that is not finite. Check that the lengthscale matches the scale of the "
        "inputs, and that the variance of the kernel is neither tiny nor huge.",
    ),
    Outcome.FRACTIONAL: (
        "EP did not converge, not even with damped steps. The sites of fractional EP with half the power, which did "
        "converge, are returned; they are usually a good approximation.",
        "Use VI for a method that converges for this model.",
        "Use method 'vi' or 'hybrid' for a method that converges for this model.",
    ),
    Outcome.IMPRECISE: (
        "Converged, but with limited precision: the data are so precise compared with the variance of the kernel that "
        "rounding may have changed evidence and leave-one-out densities by more than 0.001 nats.",
        "In float32, use float64. In float64, scale the inputs, set an upper bound on the variance of the kernel, or a "
        "lower bound on the noise.",
        "Scale the inputs, set an upper bound on the variance of the kernel, or a lower bound on the noise.",
    ),
    Outcome.NO_MAXIMUM: (
        "Laplace's method found a stationary point of the posterior density that is no maximum, where the method does "
        "not apply.",
        "Use EP or VI, or start from other sites.",
        "Use method 'ep', 'vi' or 'hybrid'.",
    ),
}
