"""A digest of this library's code: of its files, and of what is in memory.

The two differ where a file was changed after it was imported, or where somebody has replaced a function, a method or a
constant.  A program that was compiled then must not be found under the name of another one.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

_LIBRARY = __name__.partition(".")[0]
# Whose versions are part of a program's name.  Not all of Python's modules: somebody's own may be called "statistics".
_OTHERS = {
    "jax", "jaxlib", "numpy", "scipy",
    "_pickle", "_thread", "abc", "builtins", "collections", "contextlib", "contextvars", "dataclasses", "enum",
    "functools", "importlib", "operator", "pathlib", "threading", "types", "typing",
}  # fmt: skip
_PLAIN = (bool, int, float, complex, str, bytes, type(None), tuple, list, dict, set, frozenset, np.ndarray, np.generic)


class ForeignCodeError(Exception):
    """Code of others stands in the place of the library's."""


def is_ours(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == _LIBRARY


def is_known(module: Any) -> bool:
    """Whether a module is of this library or of one that it is made of."""
    first = module.partition(".")[0] if isinstance(module, str) else ""
    return first == _LIBRARY or first in _OTHERS


@functools.cache
def files() -> bytes | None:
    """A digest of the library's files; None if they cannot be read, as in an archive."""
    total = hashlib.sha256()
    root = Path(__file__).resolve().parents[1]
    try:
        paths = sorted(root.rglob("*.py"))
        for path in paths:
            text = path.read_bytes()
            total.update(f"{path.relative_to(root)}\0{len(text)}\0".encode() + text)
    except OSError:
        return None
    return total.digest() if paths else None


def memory(names: Iterable[str]) -> bytes:
    """A digest of the modules with these names, and of all modules of the library that they use, as they are now.

    Raises ForeignCodeError if somebody has put a function or class of his own into one of them.
    """
    found: dict[str, bytes] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found and name in sys.modules:
            snapshot = _snapshot(name, sys.modules[name])
            found[name] = snapshot.digest
            todo.extend(snapshot.uses)
    return hashlib.sha256(repr(sorted(found.items())).encode()).digest()


class _Snapshot(NamedTuple):
    """A module as it was: its digest, the modules that it uses, and the namespaces that were read, its own and its
    classes'."""

    digest: bytes
    uses: frozenset[str]
    spaces: list[tuple[Mapping[str, Any], dict[str, Any]]]

    def holds(self) -> bool:
        return all(
            len(now := _code_in(space)) == len(then)
            and all(now.get(name, self) is value for name, value in then.items())
            for space, then in self.spaces
        )


_snapshots: dict[str, _Snapshot] = {}


def _snapshot(name: str, module: ModuleType) -> _Snapshot:
    known = _snapshots.get(name)
    if known is None or not known.holds():
        walk = _Walk(name)
        walk.add_space(vars(module))
        known = _snapshots[name] = _Snapshot(walk.total.digest(), frozenset(filter(is_ours, walk.homes)), walk.spaces)
    return known


def _code_in(space: Mapping[str, Any]) -> dict[str, Any]:
    """What counts in the namespace of a module or class."""
    # In a module, plain values with names in lower case are state, such as a count; in a class they are settings.  A
    # package also has the modules in it that somebody happens to have imported.
    of_module = type(space) is dict
    inside = f"{space['__name__']}." if of_module else None
    return {
        name: value
        for name, value in space.items()
        if isinstance(value, FunctionType)
        or not (
            name.startswith("__")
            or (of_module and not name.isupper() and isinstance(value, _PLAIN))
            or (inside and isinstance(value, ModuleType) and value.__name__.startswith(inside))
        )
    }


class _Walk:
    """Adds the values of one module to a digest."""

    def __init__(self, module: str) -> None:
        self.total = hashlib.sha256()
        self.spaces: list[tuple[Mapping[str, Any], dict[str, Any]]] = []
        self.homes: set[Any] = set()  # of everything that was added
        self._module = module
        self._seen: set[int] = set()

    def add_space(self, space: Mapping[str, Any]) -> None:
        parts = _code_in(space)
        self.spaces.append((space, parts))
        for name, value in sorted(parts.items(), key=lambda item: item[0]):
            self._note(name)
            self._add(value)

    def _note(self, text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.total.update(len(data).to_bytes(8, "little") + data)

    def _add(self, value: Any) -> None:
        self._note(f"{type(value).__module__}.{type(value).__qualname__}")
        if isinstance(value, tuple | list):
            self._add_all(value)
        elif isinstance(value, dict):
            self._add_all(each for item in value.items() for each in item)
        elif isinstance(value, set | frozenset):
            self._note(repr(sorted(map(repr, value))))
        elif isinstance(value, np.ndarray | np.generic):
            self._note(repr((value.dtype.str, value.shape)))
            self._note(value.tobytes())
        elif isinstance(value, _PLAIN):
            self._note(repr(value))
        elif isinstance(value, ModuleType):
            self.homes.add(value.__name__)
            self._note(value.__name__)
        elif isinstance(value, CodeType):  # what a function does: not where it is written
            self._note(value.co_code)
            self._add_all((value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars, value.co_consts))
        elif id(value) not in self._seen:
            self._seen.add(id(value))
            self.homes.add(getattr(value, "__module__", ""))
            if isinstance(value, FunctionType | type):
                self._add_named(value)
            else:
                self._add_all(_inside(value))

    def _add_all(self, values: Iterable[Any]) -> None:
        values = list(values)
        self._note(str(len(values)))
        for value in values:
            self._add(value)

    def _add_named(self, value: Any) -> None:
        if not is_known(value.__module__):
            raise ForeignCodeError(f"{value.__module__}.{value.__qualname__}")
        self._note(f"{value.__module__}.{value.__qualname__}")
        if not is_ours(value.__module__) or (value.__module__ != self._module and _is_at_home(value)):
            return  # known by its version, or counted in its own module
        if isinstance(value, FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or () if not _is_empty(cell)]
            self._add_all((value.__code__, value.__defaults__, value.__kwdefaults__, *cells))
        else:
            self._add_all(value.__mro__[1:])
            self.add_space(vars(value))


def _inside(value: Any) -> Iterable[Any]:
    """The functions and settings that an object is made of."""
    if isinstance(value, property):
        return value.fget, value.fset
    if isinstance(value, classmethod | staticmethod):
        return (value.__func__,)
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    # What wraps functions: programs of JAX, functions with their own derivatives, cached functions and properties.
    held = getattr(value, "__dict__", {})
    return [each for name, each in sorted(held.items()) if isinstance(each, FunctionType | functools.partial)]


def _is_at_home(value: Any) -> bool:
    """Whether a function or class is what its module has under its name."""
    found: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False
