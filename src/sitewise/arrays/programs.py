"""Compiled programs: taken from memory, from the user's cache folder, or compiled and stored there.

A stored program is found in one of two ways.  If its function consists of this library's code alone, its name is a
digest of the library's files and of the function with its settings and shapes (`program_names`): nothing is traced.
Any other function (a user's own likelihood, and every function decorated by `jit`) is traced first, and its name is a
digest of the traced program, so that a change of the user's code is never missed.

Only programs for the CPU are stored.  Programs for an accelerator are kept by JAX's own cache (`jax_cache`).
"""

from __future__ import annotations

import functools
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from sitewise.arrays import program_store
from sitewise.arrays.jax_cache import keep_accelerator_programs
from sitewise.arrays.program_names import DEVICE, TRACING, Shapes, configured, default_device, digest, name_of_parts
from sitewise.arrays.program_store import STORED_PLATFORM
from sitewise.process import forks
from sitewise.process.progress import told_after

Flat = Callable[..., Sequence[jax.Array]]

MAX_PROGRAMS = 1024  # in memory
LONG_COMPILATION = 2.0  # seconds after which the user is told that a program is being compiled
# Options under which JAX has to run a function in its own way.
_DEBUGGING = ("jax_disable_jit", "jax_debug_nans", "jax_debug_infs")


class Program(NamedTuple):
    """A compiled function of arrays, and a note on the structure of its results."""

    call: Callable[..., Sequence[jax.Array]]
    note: Any


class Pending(NamedTuple):
    """A function of arrays to be compiled, their shapes, and a note on its results that tracing makes."""

    function: Flat
    shapes: Shapes
    note: Callable[[], Any]


class _Slot:
    """The place of one program, which may not be compiled yet."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.program: Program | None = None


class _Memory:
    """The programs of this process; the least recently used programs are dropped.

    Several threads that need one program wait for the thread that makes it; if that thread fails, the next one tries.
    `jax.clear_caches` empties the memory.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._lock = threading.Lock()
        self._slots: OrderedDict[Hashable, _Slot] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Program]) -> Program:
        with self._lock:
            slot = self._slots.get(key)
            if slot is None:
                slot = self._slots[key] = _Slot()
                if len(self._slots) > MAX_PROGRAMS:
                    self._slots.popitem(last=False)
            else:
                self._slots.move_to_end(key)
        if slot.program is None:
            with slot.lock:
                if slot.program is None:
                    slot.program = make()
        return slot.program

    def cache_clear(self) -> None:
        with self._lock:
            self._slots.clear()

    def cache_keys(self) -> list[Hashable]:
        return list(self._slots)

    def cache_info(self) -> int:
        return len(self._slots)


_memory = _Memory()
forks.in_forked_child(_memory.renew)


def get(key: Hashable, pending: Callable[[], Pending], parts: Callable[[], Any]) -> Program:
    """Return the program of this key; `parts` returns the objects that it consists of besides the shapes."""
    forks.require_jax()
    _register_memory()
    return _memory.get(key, lambda: _make(pending(), parts()))


@functools.cache
def _register_memory() -> None:
    """Let `jax.clear_caches` empty the memory."""
    # A process that runs no program does not import this part of JAX, which takes a tenth of a second.
    from jax.extend.backend import register_backend_cache

    register_backend_cache(_memory, "compiled programs of sitewise")


@functools.cache
def _serializer() -> Any:
    """Return the module that stores executables (programs of jax.export are compiled again); None if JAX has none."""
    try:
        from jax.experimental import serialize_executable
    except ImportError:
        return None
    return serialize_executable


def jit(function: Callable[..., Any], static_argnums: int | Sequence[int] = ()) -> Callable[..., Any]:
    """Compile as `jax.jit` does; a program that an earlier process has compiled is not compiled again.

    Under a trace, and for arguments that were placed on a device, this is `jax.jit` itself.
    """
    fixed = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    plain = jax.jit(function, static_argnums=fixed)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        forks.require_jax()
        settings = [args[i] for i in fixed if i < len(args)]
        moving = [arg for i, arg in enumerate(args) if i not in fixed]
        leaves, tree = jax.tree.flatten((moving, kwargs))
        kinds = [_kind(leaf) for leaf in leaves]
        if None in kinds or len(settings) < len(fixed) or any(configured(_DEBUGGING)):
            return plain(*args, **kwargs)
        where = configured((*TRACING, DEVICE))
        key = call, tuple([(type(setting), setting) for setting in settings]), tree, tuple(kinds), where
        try:
            hash(key)
        except TypeError:
            return plain(*args, **kwargs)  # which says what cannot be hashed
        _register_memory()
        found = _memory.get(key, lambda: _trace(function, dict(zip(fixed, settings, strict=True)), tree, leaves))
        return jax.tree.unflatten(found.note, found.call(*leaves))

    return call


def _kind(leaf: Any) -> type | tuple[Any, ...] | None:
    """Return the shape and type of an argument; None if it is not an array, or not for the default device."""
    if isinstance(leaf, np.ndarray | np.generic):
        return (leaf.shape, leaf.dtype) if leaf.dtype.kind in "biufc" else None
    if type(leaf) in (bool, int, float, complex):
        return type(leaf)
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer) or leaf.committed:
        return None
    return (leaf.shape, leaf.dtype, True) if leaf.aval.weak_type else (leaf.shape, leaf.dtype)


def _trace(function: Callable[..., Any], settings: dict[int, Any], tree: Any, leaves: Sequence[Any]) -> Program:
    results: list[Any] = []

    def flat(*arrays: jax.Array) -> list[Any]:
        args, kwargs = jax.tree.unflatten(tree, arrays)
        for place in sorted(settings):
            args.insert(place, settings[place])
        values, structure = jax.tree.flatten(function(*args, **kwargs))
        results.append(structure)
        return values

    flat.__name__ = getattr(function, "__name__", "program")
    lowered = jax.jit(flat).lower(*leaves)
    return _stored_or_compiled(lowered, lambda: results[-1])


def _make(pending: Pending, parts: Any) -> Program:
    def lower() -> Any:
        with jax.enable_x64(True):
            arrays = [jax.ShapeDtypeStruct(shape, np.float64) for shape in pending.shapes]
            return jax.jit(pending.function).lower(*arrays)

    with jax.enable_x64(True):
        name = name_of_parts(parts, pending.shapes)
    stored = None if name is None else _load(name, len(pending.shapes))
    if stored is None:
        return _stored_or_compiled(lower(), pending.note, name)
    return Program(_Call(stored.call, lambda: _stored_or_compiled(lower(), pending.note, name).call), stored.note)


def _stored_or_compiled(lowered: Any, note: Callable[[], Any], name: str | None = None) -> Program:
    """Compile and store under the name; without a name, first look for a program of the same text."""
    keep_accelerator_programs()
    text, stored = lowered.as_text(), None
    if name is None:
        name = digest("traced", text, repr(lowered.in_avals))  # the text leaves out arguments that are not used
        stored = _load(name, lowered.in_tree.num_leaves)
    if stored is None:
        return Program(_Call(_compile(lowered, text, name, note())), note())
    return Program(_Call(stored.call, lambda: _compile(lowered, text, name, note())), note())


class _Call:
    """A compiled program; if it was loaded and its first run fails, it is compiled again."""

    def __init__(self, compiled: Callable[..., Any], again: Callable[[], Any] | None = None) -> None:
        self._compiled, self._again = compiled, again

    def __call__(self, *arrays: Any) -> Any:
        forks.require_jax()
        if self._again is None:
            return self._compiled(*arrays)
        try:
            results = jax.block_until_ready(self._compiled(*arrays))
        except jax.errors.JaxRuntimeError:
            self._compiled = self._again()
            results = self._compiled(*arrays)
        self._again = None
        return results


def _compile(lowered: Any, text: str, name: str, note: Any) -> Any:
    """Compile and store, if possible."""
    # The text does not say which function of this process is called back.
    kept = (
        _serializer() is not None
        and "callback" not in text
        and default_device().platform == STORED_PLATFORM
        and program_store.folder() is not None
    )
    fate = "is kept for the next time" if kept else "cannot be kept for the next time"
    _listen()
    _found.in_jax_cache = False
    with told_after(LONG_COMPILATION, f"compiling … (once; the result {fate})"):
        compiled = lowered.compile()
    if kept and not _found.in_jax_cache:
        _save(name, compiled, note, "lapack" in text)
    return compiled


class _Found(threading.local):
    """Whether the last program of this thread came from JAX's own cache: such a program is incomplete when it is
    stored again (jaxlib 0.10.2)."""

    in_jax_cache = False


_found = _Found()


@functools.cache
def _listen() -> None:
    def note(event: str, **_: Any) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            _found.in_jax_cache = True

    jax.monitoring.register_event_listener(note)


def _load(name: str, arguments: int) -> Program | None:
    body = program_store.read(name) if default_device().platform == STORED_PLATFORM else None
    if body is None or _serializer() is None:
        return None
    try:
        payload, in_tree, out_tree, note, lapack = pickle.loads(body)
        if in_tree.num_leaves != arguments:
            return None
        if lapack:
            _start_lapack()
        device = default_device()
        compiled = _serializer().deserialize_and_load(payload, in_tree, out_tree, device.client, [device])
    except Exception:  # a program that cannot be loaded is compiled again
        return None
    return Program(compiled, note)


def _save(name: str, compiled: Any, note: Any, lapack: bool) -> None:
    try:
        body = pickle.dumps((*_serializer().serialize(compiled), note, lapack))
    except Exception:  # a program that cannot be stored is compiled by every process
        return
    program_store.write(name, body)


@functools.cache
def _start_lapack() -> None:
    """Load LAPACK.  JAX loads it when it lowers a program that uses LAPACK; an earlier call crashes."""
    one = jax.ShapeDtypeStruct((1, 1), np.float32)
    jax.jit(lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=True)).lower(one, one)
