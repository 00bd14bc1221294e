"""Two engines, one definition: NumPy arrays are computed on here and now, JAX arrays become part of a program.

Mathematics that both engines share is written for either kind of array.  On NumPy arrays (the *host engine*) matrices
go to LAPACK, loops and branches are Python's, and what is elementwise runs in compiled programs of a few fixed lengths
(`rowwise`), so that nothing is compiled for another number of rows.  On JAX arrays, which is what a program sees under
`jax.jit`, `grad` or `vmap` and on an accelerator, everything is traced.  The arrays decide: no mathematics asks for the
engine.  `on_host` chooses it at the doors of the library (decision 011).
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
_OFTEN = frozenset((np.ndarray, np.float64, np.bool_, float, int, bool))

_traced_only = contextvars.ContextVar("traced_only", default=False)


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """Use the traced engine until the end of the `with` block, also on a processor."""
    token = _traced_only.set(True)
    try:
        yield
    finally:
        _traced_only.reset(token)


def on_host(*trees: Any) -> bool:
    """Whether the host engine computes on these values: not on an accelerator, not where they are spread over several
    devices, and not while JAX traces them."""
    return not (_traced_only.get() or on_accelerator() or under_trace(*trees) or is_spread(*trees))


def under_trace(*trees: Any) -> bool:
    """Whether any of these values is one that JAX traces in a caller's program."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def to_host(tree: T) -> T:
    """The same tree with NumPy arrays; numbers in double precision."""

    def convert(leaf: Any) -> Any:
        array = np.asarray(leaf)
        return array.astype(np.float64) if array.dtype == np.float32 else array

    return jax.tree.map(convert, tree)


def is_host(*arrays: Any) -> bool:
    """Whether all of them are numbers or NumPy arrays."""
    for a in arrays:  # noqa: SIM110 — a generator would take three times as long, and this is asked for thousands of times
        if type(a) not in _OFTEN and not isinstance(a, _NUMBERS):
            return False
    return True


def namespace(*arrays: Any) -> ModuleType:
    """`numpy` for NumPy arrays, `jax.numpy` if any of them is JAX's."""
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


def put(array: Array, index: Any, value: Any) -> Array:
    """`array` with `value` at `index`.  A NumPy array is changed in place."""
    if is_host(array):
        array[index] = value
        return array
    return array.at[index].set(value)


def barrier(tree: T) -> T:
    """As `lax.optimization_barrier`; nothing on the host."""
    return tree if all(map(is_host, jax.tree.leaves(tree))) else lax.optimization_barrier(tree)


def stop_gradient(tree: T) -> T:
    """As `lax.stop_gradient`; nothing on the host, where nothing is differentiated."""
    return tree if all(map(is_host, jax.tree.leaves(tree))) else lax.stop_gradient(tree)
