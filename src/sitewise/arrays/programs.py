"""Compiled programs: found in memory, in the user's cache folder, or compiled and stored there.

A stored program is found in one of two ways.  If everything that its function is made of belongs to this library, its
name is a digest of the library's code and of the function with its settings and shapes: nothing has to be traced.
Anything else (a user's own likelihood, and what `jit` decorates) is traced first, and the name is a digest of the
traced program, so that a change of the user's code is never missed.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import pickle
import platform
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jaxlib
import numpy as np
import scipy
from jax.experimental import serialize_executable
from jax.extend.backend import register_backend_cache

from sitewise.arrays import own_code, program_store
from sitewise.process import forks
from sitewise.process.progress import told_after

Shapes = tuple[tuple[int, ...], ...]
Flat = Callable[..., Sequence[jax.Array]]

_MOST = 1024  # programs in memory
_LONG = 2.0  # seconds of compiling after which a person is told
_FORMAT = 1  # of a stored program
_STORED = "cpu"  # whose programs are stored
_DEVICE = "jax_default_device"
# Settings of JAX that decide what a traced function becomes, and those under which JAX has to run it in its own way.
_TRACING = (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl",
    "jax_threefry_partitionable", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion", "jax_softmax_custom_jvp",
)  # fmt: skip
_DEBUGGING = ("jax_disable_jit", "jax_debug_nans", "jax_debug_infs")
_CPU = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features")  # in /proc/cpuinfo


class Program(NamedTuple):
    """A compiled function of arrays, and what its results look like."""

    call: Callable[..., Sequence[jax.Array]]
    note: Any


class Pending(NamedTuple):
    """What can be compiled: a function of arrays, their shapes, and a note about its results that tracing makes."""

    function: Flat
    shapes: Shapes
    note: Callable[[], Any]


class _Slot:
    """Where one program is, or will be."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.program: Program | None = None


class _Memory:
    """The programs of this process.  Those that were not asked for for the longest time are dropped.

    Several threads that ask for one program wait for the one that makes it; if that one fails, the next one tries.
    `jax.clear_caches` empties it.
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
                if len(self._slots) > _MOST:
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
register_backend_cache(_memory, "compiled programs of sitewise")
forks.in_forked_child(_memory.renew)


def get(key: Hashable, pending: Callable[[], Pending], parts: Callable[[], Any]) -> Program:
    """The program of this key; `parts` gives the objects that it is made of besides the shapes."""
    forks.require_jax()
    return _memory.get(key, lambda: _make(pending(), parts()))


def jit(function: Callable[..., Any], static_argnums: int | Sequence[int] = ()) -> Callable[..., Any]:
    """As `jax.jit`, for functions of this library: what an earlier process has compiled is not compiled again.

    Under a trace, and for arguments that somebody has placed on a device, it is `jax.jit`.
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
        if None in kinds or len(settings) < len(fixed) or any(_configured(_DEBUGGING)):
            return plain(*args, **kwargs)
        where = _configured((*_TRACING, _DEVICE))
        key = call, tuple([(type(setting), setting) for setting in settings]), tree, tuple(kinds), where
        try:
            hash(key)
        except TypeError:
            return plain(*args, **kwargs)  # which says what cannot be hashed
        found = _memory.get(key, lambda: _trace(function, dict(zip(fixed, settings, strict=True)), tree, leaves))
        return jax.tree.unflatten(found.note, found.call(*leaves))

    return call


def _configured(names: Iterable[str]) -> tuple[Any, ...]:
    return tuple([getattr(jax.config, name, None) for name in names])


def _kind(leaf: Any) -> type | tuple[Any, ...] | None:
    """What a program depends on in an argument; None if it is not an array, or not for the default device."""
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
        name = _name_of_parts(parts, pending.shapes)
    stored = None if name is None else _load(name, len(pending.shapes))
    if stored is None:
        return _stored_or_compiled(lower(), pending.note, name)
    return Program(_Call(stored.call, lambda: _stored_or_compiled(lower(), pending.note, name).call), stored.note)


def _stored_or_compiled(lowered: Any, note: Callable[[], Any], name: str | None = None) -> Program:
    """Compile, and store under the name; without a name, first look for a program of the same text."""
    text, stored = lowered.as_text(), None
    if name is None:
        name = digest("traced", text, repr(lowered.in_avals))  # the text leaves out arguments that are not used
        stored = _load(name, lowered.in_tree.num_leaves)
    if stored is None:
        return Program(_Call(_compile(lowered, text, name, note())), note())
    return Program(_Call(stored.call, lambda: _compile(lowered, text, name, note())), note())


class _Call:
    """A compiled program; if it was stored, and its first run fails, it is compiled again."""

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
    kept = "callback" not in text and _device().platform == _STORED and program_store.folder() is not None
    fate = "is kept for the next time" if kept else "cannot be kept for the next time"
    _listen()
    _found.in_jax_cache = False
    with told_after(_LONG, f"compiling … (once; the result {fate})"):
        compiled = lowered.compile()
    if kept and not _found.in_jax_cache:
        _save(name, compiled, note, "lapack" in text)
    return compiled


class _Found(threading.local):
    """Whether the last program of this thread came from JAX's own cache: such a one is not whole when it is stored
    again (jaxlib 0.10.2)."""

    in_jax_cache = False


_found = _Found()


@functools.cache
def _listen() -> None:
    def note(event: str, **_: Any) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            _found.in_jax_cache = True

    jax.monitoring.register_event_listener(note)


def _load(name: str, arguments: int) -> Program | None:
    body = program_store.read(name) if _device().platform == _STORED else None
    if body is None:
        return None
    try:
        payload, in_tree, out_tree, note, lapack = pickle.loads(body)
        if in_tree.num_leaves != arguments:
            return None
        if lapack:
            _start_lapack()
        device = _device()
        compiled = serialize_executable.deserialize_and_load(payload, in_tree, out_tree, device.client, [device])
    except Exception:  # whatever is wrong with it, it is compiled again
        return None
    return Program(compiled, note)


def _save(name: str, compiled: Any, note: Any, lapack: bool) -> None:
    try:
        body = pickle.dumps((*serialize_executable.serialize(compiled), note, lapack))
    except Exception:  # a program that cannot be stored is compiled by every process
        return
    program_store.write(name, body)


@functools.cache
def _start_lapack() -> None:
    """JAX finds the functions of LAPACK when it lowers a program that uses them; before, calling them is a crash."""
    one = jax.ShapeDtypeStruct((1, 1), np.float32)
    jax.jit(lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=True)).lower(one, one)


def _device() -> Any:
    """Where JAX computes by default."""
    (given,) = _configured((_DEVICE,))
    return jax.local_devices(backend=given)[0] if given is None or isinstance(given, str) else given


def digest(*parts: str | bytes) -> str:
    """A name for what is compiled from these parts, here."""
    total = hashlib.sha256(_machine(_device()))
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


@functools.cache
def _machine(device: Any) -> bytes:
    """What a compiled program depends on besides its text: versions, options of the compiler, the processor."""
    text = (
        _FORMAT,
        [module.__version__ for module in (jax, jaxlib, np, scipy)],
        sys.version,
        os.environ.get("XLA_FLAGS"),
        (device.platform, device.id, device.device_kind, device.client.platform_version),
        (platform.system(), platform.machine(), _processor()),
    )
    return hashlib.sha256(repr(text).encode()).digest()


def _processor() -> Any:
    """The kind of processor and its instructions; where they are not known, the name of the machine."""
    found = {}
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                name, _, value = (part.strip() for part in line.partition(":"))
                if not name:
                    break  # the others are of the same kind
                if name in _CPU:
                    found[name] = value
    except OSError:
        pass
    return found or platform.node()


class _Parts(pickle.Pickler):
    """Notes the modules of this library whose code is used; refuses code of others."""

    def __init__(self, out: io.BytesIO) -> None:
        super().__init__(out, protocol=4)
        self.modules: set[str] = set()

    def reducer_override(self, value: Any) -> Any:
        for module in (type(value).__module__, getattr(value, "__module__", type(value).__module__)):
            if not own_code.is_known(module):
                raise own_code.ForeignCodeError(module)
            if own_code.is_ours(module):
                self.modules.add(module)
        return NotImplemented


def _name_of_parts(parts: Any, shapes: Shapes) -> str | None:
    """A name for the program, if only this library's code and data decide what it computes; else None."""
    files, out = own_code.files(), io.BytesIO()
    if files is None:
        return None
    pickler = _Parts(out)
    try:
        pickler.dump(parts)
        code = own_code.memory(pickler.modules)
    except Exception:  # code of others, or what cannot be pickled: a function inside a function
        return None
    return digest("parts", files, code, out.getvalue(), repr(shapes), repr(_configured(_TRACING)))
