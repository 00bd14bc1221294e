"""Rows that are spread over devices, of one process or of several (`jax.distributed`).

An array whose rows lie on several devices stays there: the traced engine computes on it, and the compiler makes a sum
over devices of every sum over rows.  Several processes run the same Python program.  The numbers on which their
decisions depend must be equal to the last digit, or the processes wait for each other forever: `agreed` gives
all processes the numbers of the first process.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from sitewise.errors import UserError

T = TypeVar("T")
_LOST = re.compile("gloo|nccl|heartbeat|connection|unavailable|coordination|deadline", re.IGNORECASE)


def require_order() -> None:
    """Raise UserError if processes might exchange their sums in different orders.

    With several threads, XLA for CPUs starts sums that do not depend on each other in any order, and another
    process may have another order (jaxlib 0.10.2: the transport ends the process, as sizes do not match).
    """
    if jax.process_count() > 1 and jax.default_backend() == "cpu" and os.environ.get("PJRT_NPROC") != "1":
        raise UserError(
            "Several processes on CPUs need one thread each, or they may exchange sums in different orders: set "
            "the environment variable PJRT_NPROC=1 before Python starts, and start one process per core."
        )


def is_spread(*trees: Any) -> bool:
    """Return whether any array of these trees lies on several devices."""
    leaves = jax.tree.leaves(trees)
    return any(isinstance(a, jax.Array) and not isinstance(a, jax.core.Tracer) and _devices(a) > 1 for a in leaves)


def _devices(array: jax.Array) -> int:
    return len(array.sharding.device_set)


def whole(tree: T) -> T:
    """Return the tree with NumPy arrays of all rows, in every process.  All processes have to call this."""

    def gathered(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and not (leaf.is_fully_addressable or leaf.is_fully_replicated):
            return multihost_utils.process_allgather(leaf, tiled=True)
        return np.asarray(leaf)

    return jax.tree.map(gathered, tree)


def agreed(tree: T) -> T:
    """Return the tree of the first process, with NumPy arrays.  All processes have to call this."""
    return whole(tree) if jax.process_count() == 1 else multihost_utils.broadcast_one_to_all(whole(tree))


def placed(array: np.ndarray, like: Any) -> Any:
    """Spread an array, with rows on its last axis, as the vector `like`; itself if `like` is not spread."""
    if not is_spread(like):
        return array
    spec = PartitionSpec(*[None] * (array.ndim - 1), *like.sharding.spec)
    return jax.device_put(array, NamedSharding(like.sharding.mesh, spec))


def of_all_processes(numbers: list[int]) -> np.ndarray:
    """Gather a few whole numbers, one row per process.  All processes have to call this."""
    return np.reshape(multihost_utils.process_allgather(np.array(numbers)), (jax.process_count(), len(numbers)))


def writes() -> bool:
    """Return whether this process writes the files that all processes share."""
    return jax.process_index() == 0


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Raise UserError if another process is lost during a common computation."""
    try:
        yield
    except (ValueError, RuntimeError) as problem:
        if jax.process_count() == 1 or isinstance(problem, UserError) or not _LOST.search(str(problem)):
            raise
        raise UserError(
            f"Another process of this fit has ended or cannot be reached ({str(problem).splitlines()[0][:200]}); start "
            "all processes again: a fit with checkpoint= goes on from its last step."
        ) from None
