"""Compute blocks of rows on several CPU cores.

A fit has one BLAS thread (`precision`): threads inside a small product wait for each other at its end.  Blocks of rows
are independent, and are computed by as many threads as BLAS was allowed before the fit (`OPENBLAS_NUM_THREADS`,
joblib's workers, threadpoolctl).  Results come in the order of the blocks; their sums are the same to the last digit
for every number of threads.
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

_MAX_THREADS = 8
_BLOCKS_AHEAD = 2  # blocks per thread that are begun before the first result is taken: results may be large
_pools: dict[int, ThreadPoolExecutor] = {}  # by number of threads


def in_order(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yield map(function, items), computed by several threads if they are allowed."""
    threads = min(allowed_threads(), _MAX_THREADS)
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
            if len(waiting) >= _BLOCKS_AHEAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:  # after an error, or if the caller stops early: no block is computed afterwards
        for begun in waiting:
            begun.cancel()
        wait(waiting)


def _apply(device: Any, function: Callable[[_Item], _Result], item: _Item) -> _Result:
    with jax.default_device(device), working_precision():  # settings of a thread
        return function(item)


forks.in_forked_child(_pools.clear)  # a forked process has none of these threads
