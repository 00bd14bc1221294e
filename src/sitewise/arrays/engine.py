"""Two engines for one definition: NumPy arrays are computed at once, JAX arrays are traced into a program.

Mathematics that both engines share is written for either kind of array.  On NumPy arrays (the *host engine*) matrices
go to LAPACK, loops and branches are Python's, and elementwise functions run in compiled programs of a few fixed lengths
(`rowwise`), so that another number of rows needs no compilation.  On JAX arrays (under `jax.jit`, `grad` or `vmap`, and
on an accelerator) everything is traced.  The arrays decide: mathematical code does
not ask for the engine.  `on_host` chooses it in the public functions (decision 011).
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays.spread import is_spread
from sitewise.process.device import on_accelerator

S = TypeVar("S")
T = TypeVar("T")
Array = Any  # of NumPy or of JAX
_NUMBERS = (np.ndarray, np.generic, float, int)
_COMMON_TYPES = frozenset((np.ndarray, np.float64, np.bool_, float, int, bool))

_traced_only = contextvars.ContextVar("traced_only", default=False)


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """Use the traced engine until the end of the `with` block, also on a CPU."""
    token = _traced_only.set(True)
    try:
        yield
    finally:
        _traced_only.reset(token)


def on_host(*trees: Any) -> bool:
    """Return whether the host engine computes on these values: not on an accelerator, not if they are spread over
    several devices, and not while JAX traces them."""
    return not (_traced_only.get() or on_accelerator() or under_trace(*trees) or is_spread(*trees))


def under_trace(*trees: Any) -> bool:
    """Return whether JAX traces any of these values."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def to_host(tree: T) -> T:
    """Return the tree with NumPy arrays, in double precision."""

    def convert(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return array.astype(np.float64) if array.dtype == np.float32 else array

    return jax.tree.map(convert, tree)


def is_host(*arrays: Any) -> bool:
    """Return whether all arguments are numbers or NumPy arrays."""
    for a in arrays:  # noqa: SIM110 — a generator takes three times as long, and this is called thousands of times
        if type(a) not in _COMMON_TYPES and not isinstance(a, _NUMBERS):
            return False
    return True


def namespace(*arrays: Any) -> ModuleType:
    """Return `numpy` for NumPy arrays, `jax.numpy` if any array is JAX's."""
    return np if is_host(*arrays) else jnp


def cond(flag: Array, if_true: Callable[..., T], if_false: Callable[..., T], *operands: Any) -> T:
    """As `lax.cond`."""
    if is_host(flag):
        return if_true(*operands) if flag else if_false(*operands)
    return lax.cond(flag, if_true, if_false, *operands)


def while_loop(test: Callable[[S], Array], body: Callable[[S], S], state: S) -> S:
    """As `lax.while_loop`."""
    flag = test(state)
    if not is_host(flag):
        return lax.while_loop(test, body, state)
    while flag:
        state = body(state)
        flag = test(state)
    return state


def repeat(times: int, body: Callable[[S], S], state: S) -> S:
    """Return body(body(… state)), as `lax.fori_loop`."""
    if not all(map(is_host, jax.tree.leaves(state))):
        return lax.fori_loop(0, times, lambda _, state: body(state), state)
    for _ in range(times):
        state = body(state)
    return state


def put(array: Array, index: Any, value: Any) -> Array:
    """Return `array` with `value` at `index`; a NumPy array is changed in place."""
    if is_host(array):
        array[index] = value
        return array
    return array.at[index].set(value)


def barrier(tree: T) -> T:
    """As `lax.optimization_barrier`; the identity on the host."""
    return tree if all(map(is_host, jax.tree.leaves(tree))) else lax.optimization_barrier(tree)


def stop_gradient(tree: T) -> T:
    """As `lax.stop_gradient`; the identity on the host, where nothing is differentiated."""
    return tree if all(map(is_host, jax.tree.leaves(tree))) else lax.stop_gradient(tree)
