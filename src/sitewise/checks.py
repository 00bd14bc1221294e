"""Checks of arguments: kinds of objects, shapes of parameters, whole numbers, and whether values are known."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import dtypes

from sitewise.types import Module

_MAX_SHOWN = 60  # characters of a value in an error message


def must_be(value: Any, kind: type, name: str, example: str) -> Any:
    """Return `value` if it is an object of `kind` whose class is a module; else raise ValueError."""
    if isinstance(value, kind):
        # Without @module the object is a leaf to JAX and could be neither traced nor trained.
        if jax.tree_util.all_leaves([value]):
            raise ValueError(
                f"{type(value).__name__} is not a module; decorate its class with @module from sitewise.types."
            )
        return value
    if isinstance(value, type) and issubclass(value, kind):
        call = f"{value.__name__}()" if issubclass(value, Module) else example
        raise ValueError(f"{name} is the class {value.__name__}; make an object of it: {call}.")
    if type(value).__module__.partition(".")[0] == "sklearn":
        raise ValueError(f"{name} comes from scikit-learn, whose objects sitewise cannot use; give {example}.")
    raise ValueError(f"{name} must be an object such as {example}, got {shown(value)}.")


def shown(value: Any) -> str:
    """Return the value as text for an error message, at most `_MAX_SHOWN` characters long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def one_number(owner: Any, *names: str) -> None:
    """Raise ValueError unless each of these parameters of `owner` is one number."""
    for name in names:
        shape = np.shape(getattr(owner, name))
        if shape not in ((), (1,)):
            raise ValueError(f"{type(owner).__name__}: {name} must be one number, got the shape {shape}.")


def one_per_column(owner: Any, columns: int, *names: str) -> None:
    """Raise ValueError unless each of these parameters of `owner` is one number, or has one number per column."""
    for name in names:
        shape = np.shape(getattr(owner, name))
        if shape not in ((), (1,), (columns,)):
            raise ValueError(
                f"{type(owner).__name__}: {name} has the shape {shape} but there are {columns} columns; give one "
                "number, or one per column."
            )


def at_least(name: str, value: Any, low: int) -> int:
    """Return `value` if it is a whole number of at least `low`; else raise ValueError."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}.")
    return int(value)


def outline(tree: Any) -> tuple[Any, tuple[jax.ShapeDtypeStruct, ...]]:
    """Return the structure of a pytree and the shapes and dtypes of its arrays, as a hashable cache key."""
    leaves, form = jax.tree.flatten(tree)
    kinds = (dtypes.canonicalize_dtype(getattr(leaf, "dtype", float)) for leaf in leaves)
    return form, tuple(jax.ShapeDtypeStruct(np.shape(leaf), kind) for leaf, kind in zip(leaves, kinds, strict=True))


def numbers_of(*shape: int) -> jax.ShapeDtypeStruct:
    """Return the shape and default dtype of an array of numbers, without values."""
    return jax.ShapeDtypeStruct(shape, dtypes.canonicalize_dtype(float))


def known(value: Any) -> bool:
    """Return whether the numbers of an array can be read.

    They cannot be read while JAX traces the array, or if part of the array is on other processes.
    """
    if isinstance(value, jax.core.Tracer):
        return False
    return not isinstance(value, jax.Array) or value.is_fully_addressable


def undefined_method(likelihood: Any, method: str) -> NotImplementedError:
    """Return the error of a prediction of y that needs a method without a default."""
    return NotImplementedError(
        f"{type(likelihood).__name__} does not define {method}, which this prediction of y needs: add it to the class, "
        "or predict the latent function (predict_latent)."
    )
