"""Base class of settings that are values of arguments: immutable, with a short repr, compared by their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import jax
import numpy as np

from sitewise.checks import shown


class Setting:
    """A frozen dataclass of settings.

    `repr` prints the fields that differ from their defaults; two settings are equal if all fields are equal, arrays
    and kernels included.  Subclasses are decorated with `dataclasses.dataclass(frozen=True, eq=False, repr=False)`.
    """

    POSITIONAL: ClassVar[str] = ""  # the field that `repr` prints without its name

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Return the names of the fields."""
        kind: Any = cls
        return tuple(field.name for field in dataclasses.fields(kind))

    def changed(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, by name."""
        own: Any = self
        defaults = {field.name: field.default for field in dataclasses.fields(own)}
        return {name: value for name in defaults if not same(value := getattr(self, name), defaults[name])}

    def with_fields(self, **new: Any) -> Self:
        """Return a copy with other values of some fields; ValueError for a field that does not exist."""
        unknown = [name for name in new if name not in self.fields()]
        if unknown:
            known = f"it has {', '.join(self.fields())}" if self.fields() else "it has none"
            raise ValueError(f"{type(self).__name__} has no setting {unknown[0]!r}; {known}.")
        own: Any = self
        return dataclasses.replace(own, **new)

    def __repr__(self) -> str:
        parts = [
            _text(value) if name == self.POSITIONAL else f"{name}={_text(value)}"
            for name, value in self.changed().items()
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(same(getattr(self, name), getattr(other, name)) for name in self.fields())

    def __hash__(self) -> int:
        return hash((type(self).__name__, *self.changed()))


def same(one: Any, other: Any) -> bool:
    """Return whether two values of a setting are equal; arrays and kernels are compared by their numbers."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    if type(one) is not type(other):
        return bool(one == other) if isinstance(one, int | float) and isinstance(other, int | float) else False
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if jax.tree_util.all_leaves([one]):
        return bool(one == other)
    left, right = jax.tree.leaves(one), jax.tree.leaves(other)
    forms: list[Any] = [jax.tree.structure(value) for value in (one, other)]
    return forms[0] == forms[1] and all(map(np.array_equal, left, right))


def _text(value: Any) -> str:
    """Return the value as Python code; long arrays are abbreviated."""
    if isinstance(value, str):
        return '"' + value + '"'
    return shown(value) if isinstance(value, np.ndarray) else repr(value)
