"""Blocks of rows on several processor cores.

A fit has one BLAS thread (`precision`): threads inside of a small product wait for each other at its end.  Blocks of
rows do not wait for each other, so that they may be computed by as many threads as BLAS was allowed before: that is
what `OPENBLAS_NUM_THREADS`, joblib's workers and threadpoolctl set.  Results come in the order of the blocks, and sums
of them are equal to the last digit, whatever the number of threads.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import jax

from sitewise.process import forks
from sitewise.process.precision import allowed_threads, working_precision

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_MOST = 8
_AHEAD = 2  # blocks that are begun, for each thread, before the first of them is taken: results may be large
_pools: dict[int, ThreadPoolExecutor] = {}  # by their number of threads


def in_order(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """map(function, items), by several threads if they are allowed."""
    threads = min(allowed_threads(), _MOST)
    if threads == 1:
        yield from map(function, items)
        return
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, "sitewise")
    pool, waiting = _pools[threads], collections.deque[Future[_Result]]()
    device = jax.config.values["jax_default_device"]
    try:
        for item in items:
            waiting.append(pool.submit(_apply, device, function, item))
            if len(waiting) >= _AHEAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # after an error, or where the caller wants no more: nothing goes on behind its back
        for begun in waiting:
            begun.cancel()
        wait(waiting)


def _apply(device: Any, function: Callable[[_Item], _Result], item: _Item) -> _Result:
    with jax.default_device(device), working_precision():  # which belong to a thread
        return function(item)


forks.in_forked_child(_pools.clear)  # a forked process has none of these threads
