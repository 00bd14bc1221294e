"""Whether what a caller gave is the kind of object, and the shape of parameter, that is needed."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import dtypes

from sitewise.types import Module

_LONGEST = 60  # characters of a value that a message shows


def must_be(value: Any, kind: type, name: str, example: str) -> Any:
    """`value`, or a ValueError unless it is an object of a module class below `kind`."""
    if isinstance(value, kind):
        # A class that JAX does not know is a leaf of its own: it could be neither traced nor trained.
        if jax.tree_util.all_leaves([value]):
            raise ValueError(f"{type(value).__name__} is no module; put @module, of sitewise.types, above its class.")
        return value
    if isinstance(value, type) and issubclass(value, kind):
        call = f"{value.__name__}()" if issubclass(value, Module) else example
        raise ValueError(f"{name} is the class {value.__name__}; make an object of it: {call}.")
    if type(value).__module__.partition(".")[0] == "sklearn":
        raise ValueError(f"{name} comes from scikit-learn, whose objects sitewise cannot use; give {example}.")
    raise ValueError(f"{name} must be an object such as {example}, got {shown(value)}.")


def shown(value: Any) -> str:
    """The value in a message, cut off where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def one_number(owner: Any, *names: str) -> None:
    """Raise ValueError unless each of these parameters of `owner` is one number."""
    for name in names:
        shape = np.shape(getattr(owner, name))
        if shape not in ((), (1,)):
            raise ValueError(f"{type(owner).__name__}: {name} must be one number, got the shape {shape}.")


def one_per_column(owner: Any, columns: int, *names: str) -> None:
    """Raise ValueError unless each of these parameters of `owner` is one number, or one for each of the columns."""
    for name in names:
        shape = np.shape(getattr(owner, name))
        if shape not in ((), (1,), (columns,)):
            raise ValueError(
                f"{type(owner).__name__}: {name} has the shape {shape} but there are {columns} columns; give one "
                "number, or one per column."
            )


def at_least(name: str, value: Any, low: int) -> int:
    """The whole number `value`, or a ValueError where it is none or below `low`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}.")
    return int(value)


def outline(tree: Any) -> tuple[Any, tuple[jax.ShapeDtypeStruct, ...]]:
    """The form of a tree and the shapes of its arrays, without their values.  Hashable: the key of a cache."""
    leaves, form = jax.tree.flatten(tree)
    kinds = (dtypes.canonicalize_dtype(getattr(leaf, "dtype", float)) for leaf in leaves)
    return form, tuple(jax.ShapeDtypeStruct(np.shape(leaf), kind) for leaf, kind in zip(leaves, kinds, strict=True))


def numbers_of(*shape: int) -> jax.ShapeDtypeStruct:
    """The outline of an array of numbers."""
    return jax.ShapeDtypeStruct(shape, dtypes.canonicalize_dtype(float))


def known(value: Any) -> bool:
    """Whether the numbers of an array can be looked at: not while JAX traces them, nor where other processes have some
    of them."""
    if isinstance(value, jax.core.Tracer):
        return False
    return not isinstance(value, jax.Array) or value.is_fully_addressable
