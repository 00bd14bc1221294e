"""Compute blocks of rows, or the fits of several kernels, on several CPU cores.

A fit has one BLAS thread (`precision`): threads inside a small product wait for each other at its end.  Blocks of rows
and fits of kernels are independent, and are computed by as many threads as BLAS was allowed before the fit
(`OPENBLAS_NUM_THREADS`, joblib's workers, threadpoolctl).  Results come in order, and are the same to the last digit
for every number of threads.
"""

from __future__ import annotations

import collections
import contextvars
import functools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import jax

from sitewise.process import forks
from sitewise.process.precision import allowed_threads, working_precision

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Tell = Callable[..., None]

_MAX_THREADS = 8
_BLOCKS_AHEAD = 2  # blocks per thread that are begun before the first result is taken: results may be large
_pools: dict[int, ThreadPoolExecutor] = {}  # by number of threads


def in_order(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Yield map(function, items), computed by several threads if they are allowed."""
    threads = min(allowed_threads(), _MAX_THREADS)
    if threads == 1:
        yield from map(function, items)
        return
    pool, waiting = _pool(threads), collections.deque[Future[_Result]]()
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


def all_of(
    function: Callable[[_Item, Tell | None], _Result], items: Sequence[_Item], report: Tell | None, most: int
) -> list[_Result]:
    """Return function(item, tell) of all items, computed by at most `most` threads if they are allowed.

    `tell(*facts)` calls `report(k, *facts)` for the item at place k, in the thread of the caller, so that warnings and
    messages appear as if there were one thread.  After an error, in a function or in `report`, the other functions end
    at their next call of `tell`.
    """
    threads = min(allowed_threads(), most, len(items), _MAX_THREADS)
    if threads <= 1:
        return [function(item, report and functools.partial(report, k)) for k, item in enumerate(items)]
    device, stopped = jax.config.values["jax_default_device"], threading.Event()
    inbox: queue.SimpleQueue[tuple[int, tuple[Any, ...]] | Future[_Result]] = queue.SimpleQueue()

    def tell(k: int, *facts: Any) -> None:
        if stopped.is_set():
            raise _StoppedError
        inbox.put((k, facts))

    begun: list[Future[_Result]] = []
    try:
        for k, item in enumerate(items):
            call = functools.partial(function, item, functools.partial(tell, k))
            begun.append(_pool(threads).submit(contextvars.copy_context().run, _apply, device, call))
            begun[-1].add_done_callback(inbox.put)
        ended = 0
        while ended < len(begun):
            found = inbox.get()
            if isinstance(found, Future):
                found.result()  # raises the error of the function
                ended += 1
            elif report is not None:
                report(found[0], *found[1])
        return [one.result() for one in begun]
    finally:
        stopped.set()
        for one in begun:
            one.cancel()
        wait(begun)


class _StoppedError(Exception):
    """Ends a function whose result is not needed any more."""


def _pool(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, "sitewise")
    return _pools[threads]


def _apply(device: Any, function: Callable[..., _Result], *arguments: Any) -> _Result:
    with jax.default_device(device), working_precision():  # settings of a thread
        return function(*arguments)


forks.in_forked_child(_pools.clear)  # a forked process has none of these threads
