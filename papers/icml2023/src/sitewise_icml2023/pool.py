"""Worker processes: spawned, never forked, one BLAS thread each; one that dies is replaced.

    pool.submit(item) to an idle worker;  pool.wait() → (item, outcome) of the next that ends

An outcome is the function's value, an exception, or `Died` if the worker was killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from typing import Any

_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_XLA = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


class Died(Exception):
    """The worker was killed, or ended, while it had a task."""


class Pool:
    """Worker processes that apply one function to items."""

    def __init__(self, function: Callable[[Any], Any], workers: int, environment: dict[str, str] | None = None) -> None:
        flags = f"{os.environ.get('XLA_FLAGS', '')} {_XLA}".strip()
        self._function, self._environment = function, {**(environment or {}), **_ONE_THREAD, "XLA_FLAGS": flags}
        self._context = multiprocessing.get_context("spawn")
        self.workers: list[_Worker] = []
        with _environment(self._environment):
            self.workers = [_Worker(self._context, function) for _ in range(workers)]

    def idle(self) -> list[int]:
        """Slots that can take an item."""
        return [slot for slot, worker in enumerate(self.workers) if worker.item is None]

    def submit(self, slot: int, item: Any) -> None:
        worker = self.workers[slot]
        worker.item = item
        with contextlib.suppress(OSError):  # a worker that is dead already is noticed by `wait`
            worker.pipe.send(item)

    def wait(self, timeout: float | None = None) -> list[tuple[int, Any, Any]]:
        """(slot, item, outcome) of those that ended; empty after `timeout` seconds."""
        busy = {slot: worker for slot, worker in enumerate(self.workers) if worker.item is not None}
        ready = wait([w.pipe for w in busy.values()] + [w.process.sentinel for w in busy.values()], timeout)
        ended = []
        for slot, worker in busy.items():
            if worker.pipe not in ready and worker.process.sentinel not in ready:
                continue
            item = worker.item
            try:
                # A worker may have answered and then died: its answer counts.
                outcome = worker.pipe.recv() if worker.pipe.poll() else Died()
            except (EOFError, OSError):
                outcome = Died()
            if isinstance(outcome, Died):
                worker.close()
                with _environment(self._environment):
                    self.workers[slot] = _Worker(self._context, self._function)
            else:
                worker.item = None
            ended.append((slot, item, outcome))
        return ended

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


class _Worker:
    """One process, the pipe to it, and the item that it has."""

    def __init__(self, context: SpawnContext, function: Callable[[Any], Any]) -> None:
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, function, os.getpid()), daemon=True)
        self.process.start()
        other.close()
        self.item: Any = None

    def close(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _serve(pipe: Connection, function: Callable[[Any], Any], parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the runner, which then ends its workers
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    while True:
        try:
            item = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            outcome = function(item)
        except Exception as problem:
            outcome = RuntimeError(f"{type(problem).__name__}: {problem}")
        try:
            pipe.send(outcome)
        except OSError:  # the runner has ended
            return


def _end_with(parent: int) -> None:
    """End this worker when its parent has ended: a killed runner cannot stop its workers."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Variables that a spawned process inherits; libraries read them when they are loaded."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
