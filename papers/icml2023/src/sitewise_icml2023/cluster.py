"""Tasks on a dask cluster: `pip install 'sitewise-icml2023[cluster]'`, then `--dask tcp://HOST:PORT`.

Workers need this package and the data folder under the same path (a shared file system, or SITEWISE_DATA on each).
On a SLURM or PBS cluster, dask-jobqueue starts them: see docs/how-to/reproduce.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sitewise.errors import UserError


class Cluster:
    """The executor of `runner.run` with dask's futures.  If a worker dies, dask runs its task again on another."""

    def __init__(self, function: Callable[[Any], Any], address: str, slots: int | None = None) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise UserError("--dask needs dask: pip install 'sitewise-icml2023[cluster]'.") from None
        try:
            self._client = Client(address, timeout=10)
        except OSError as problem:
            raise UserError(
                f"no dask scheduler answers at {address} ({problem}); start one, or leave --dask out."
            ) from None
        threads = sum(self._client.nthreads().values())
        self._function = function
        # Two tasks per thread: the next task is there when one ends.
        self._slots: list[tuple[Any, Any] | None] = [None] * (slots or 2 * max(threads, 1))

    def idle(self) -> list[int]:
        return [slot for slot, pair in enumerate(self._slots) if pair is None]

    def submit(self, slot: int, item: Any) -> None:
        self._slots[slot] = (item, self._client.submit(self._function, item, pure=False))

    def wait(self, timeout: float | None = None) -> list[tuple[int, Any, Any]]:
        from distributed import TimeoutError as DaskTimeout
        from distributed import wait

        pending = [pair[1] for pair in self._slots if pair is not None]
        try:
            wait(pending, timeout=timeout, return_when="FIRST_COMPLETED")
        except DaskTimeout:
            return []
        ended = []
        for slot, pair in enumerate(self._slots):
            if pair is not None and pair[1].done():
                item, future = pair
                problem = future.exception()
                outcome = RuntimeError(f"{type(problem).__name__}: {problem}") if problem else future.result()
                self._slots[slot] = None
                ended.append((slot, item, outcome))
        return ended

    def close(self) -> None:
        self._client.close()
