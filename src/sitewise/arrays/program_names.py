"""Names of compiled programs: digests of everything that decides what a program computes.

A program that consists of this library's code alone is named by the library's files, its function, settings and
shapes, without being traced.  Other code has no such name; it is named by its traced program.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import pickle
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
import scipy

Shapes = tuple[tuple[int, ...], ...]

FORMAT = 1  # of a stored program
DEVICE = "jax_default_device"
# Options of JAX that decide what a traced function becomes.
TRACING = (
    "jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl",
    "jax_threefry_partitionable", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion", "jax_softmax_custom_jvp",
)  # fmt: skip
_LIBRARY = __name__.partition(".")[0]
# Packages whose versions are part of every name.  Not all of Python's modules: a user's own module may be called
# "statistics".
_KNOWN_PACKAGES = {
    _LIBRARY, "jax", "jaxlib", "numpy", "scipy",
    "_pickle", "_thread", "abc", "builtins", "collections", "contextlib", "contextvars", "dataclasses", "enum",
    "functools", "importlib", "operator", "pathlib", "threading", "types", "typing",
}  # fmt: skip
_CPU_FIELDS = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU part", "Features")  # /proc/cpuinfo


def configured(names: Iterable[str]) -> tuple[Any, ...]:
    """Return the values of options of JAX; None for an option that this JAX does not have."""
    return tuple([getattr(jax.config, name, None) for name in names])


def default_device() -> Any:
    """Return the device on which JAX computes by default."""
    (given,) = configured((DEVICE,))
    return jax.local_devices(backend=given)[0] if given is None or isinstance(given, str) else given


def digest(*parts: str | bytes) -> str:
    """Return a name for what is compiled from these parts on the default device."""
    total = hashlib.sha256(_machine(default_device()))
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def name_of_parts(parts: Any, shapes: Shapes) -> str | None:
    """Return a name for the program made of these parts; None if they contain other code."""
    files, out = _library_files(), io.BytesIO()
    if files is None:
        return None
    try:
        _Parts(out, protocol=4).dump(parts)
    except Exception:  # foreign code, or an object that cannot be pickled, such as a function inside a function
        return None
    return digest("parts", files, out.getvalue(), repr(shapes), repr(configured(TRACING)))


class _ForeignCodeError(Exception):
    """A part is code of neither this library nor a package that it is made of."""


class _Parts(pickle.Pickler):
    """Pickle values with references to known packages, and refuse all other references."""

    def reducer_override(self, value: Any) -> Any:
        for module in (type(value).__module__, getattr(value, "__module__", type(value).__module__)):
            if not isinstance(module, str) or module.partition(".")[0] not in _KNOWN_PACKAGES:
                raise _ForeignCodeError(module)
        return NotImplemented


@functools.cache
def _library_files() -> bytes | None:
    """Return a digest of the library's files; None if they cannot be read, as in an archive."""
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


@functools.cache
def _machine(device: Any) -> bytes:
    """Return a digest of versions, options of the compiler and the CPU."""
    text = (
        FORMAT,
        [module.__version__ for module in (jax, jaxlib, np, scipy)],
        sys.version,
        os.environ.get("XLA_FLAGS"),
        (device.platform, device.id, device.device_kind, device.client.platform_version),
        (platform.system(), platform.machine(), _cpu()),
    )
    return hashlib.sha256(repr(text).encode()).digest()


def _cpu() -> Any:
    """Return the kind of CPU and its instructions; where they are unknown, the name of the machine."""
    found = {}
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                name, _, value = (part.strip() for part in line.partition(":"))
                if not name:
                    break  # the other cores are of the same kind
                if name in _CPU_FIELDS:
                    found[name] = value
    except OSError:
        pass
    return found or platform.node()
