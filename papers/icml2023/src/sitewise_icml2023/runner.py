"""Run the tasks that a store does not hold yet, on local processes, a dask cluster, or batched on an accelerator.

The runner claims a task, a worker computes its row, the runner appends it.  Workers need no access to the store,
and a kill loses at most the running tasks.  A task claimed by another runner on the same store is set
aside; when nothing else is left, the runner waits for the other's row, or takes over if the other died.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sitewise_icml2023 import tasks as task_module
from sitewise_icml2023 import together
from sitewise_icml2023.pool import Died
from sitewise_icml2023.store import Store
from sitewise_icml2023.tasks import KEY, Task

AT_ONCE = 3  # groups of `run_together`: one is compiled by the CPU while another is computed
UNFINISHED = "unfinished"  # the folder beside the store with the states of fits that a kill would lose
ATTEMPTS = 3  # a task that kills its worker this often is recorded as failed


Together = Callable[[list[Task], Path], Iterable[tuple[Task, dict[str, Any]]]]


class Executor(Protocol):
    """The interface of `pool.Pool` and `cluster.Cluster`."""

    def idle(self) -> list[int]: ...
    def submit(self, slot: int, item: Any) -> None: ...
    def wait(self, timeout: float | None = None) -> list[tuple[int, Any, Any]]: ...
    def close(self) -> None: ...


class Progress(NamedTuple):
    """Counts of a run, after each task."""

    done: int
    failed: int
    total: int
    last: Task


class Queue:
    """Tasks by shape.  A worker keeps to one shape while tasks of it remain, so that it compiles few programs."""

    def __init__(self, tasks: Iterable[Task], shape: Callable[[Task], Any]) -> None:
        self._groups: dict[Any, list[Task]] = {}
        for task in tasks:
            self._groups.setdefault(shape(task), []).append(task)
        self._shape, self._at = shape, dict[int, Any]()

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def take(self, slot: int) -> Task | None:
        left = {shape: group for shape, group in self._groups.items() if group}
        if not left:
            return None
        if self._at.get(slot) not in left:
            taken = {shape for other, shape in self._at.items() if other != slot}
            free = [shape for shape in left if shape not in taken]
            self._at[slot] = free[0] if free else max(left, key=lambda shape: len(left[shape]))
        return left[self._at[slot]].pop(0)

    def put_back(self, task: Task) -> None:
        self._groups[self._shape(task)].append(task)


def run(
    tasks: Iterable[Task],
    path: Path,
    executor: Executor,
    *,
    shape: Callable[[Task], Any] = task_module.shape,
    report: Callable[[Progress], None] | None = None,
    poll: float = 0.5,
) -> Progress | None:
    """Run the tasks that the store lacks; None if there are none.  The executor is left open."""
    store = Store(path)
    try:
        return _Run(store, report, poll).loop(list(tasks), shape, executor)
    finally:
        store.close()


def run_together(
    tasks: Iterable[Task],
    path: Path,
    function: Together = together.run_together,
    *,
    group: Callable[[Task], tuple[Any, ...]] = task_module.group,
    report: Callable[[Progress], None] | None = None,
    poll: float = 0.5,
) -> Progress | None:
    """As `run`, in this process: `function` is given all tasks of one group, by default `tasks.group`, and a folder
    for unfinished fits; it yields each task with its row as soon as it has it."""
    store = Store(path)
    try:
        return _Run(store, report, poll).groups(list(tasks), function, group, path.with_name(UNFINISHED))
    finally:
        store.close()


class _Run:
    """The state of a run: finished tasks, and tasks that killed their worker."""

    def __init__(self, store: Store, report: Callable[[Progress], None] | None, poll: float) -> None:
        self.store, self.report, self.poll = store, report, poll
        self.lock = threading.Lock()
        self.deaths: Counter[tuple[Any, ...]] = Counter()
        self.finished = self.failed = self.total = 0
        self.last: Progress | None = None

    def groups(
        self,
        tasks: list[Task],
        function: Together,
        group: Callable[[Task], tuple[Any, ...]],
        folder: Path,
    ) -> Progress | None:
        left: dict[tuple[Any, ...], list[Task]] = {}
        for task in self._missing(tasks):
            left.setdefault(group(task), []).append(task)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while left:
                running: list[Future[None]] = []
                # The largest first: they take the longest.
                for name in sorted(left, key=lambda name: -name[0] if isinstance(name[0], int) else 0):
                    states = {task: self._take(task) for task in left[name]}
                    mine = [task for task, state in states.items() if state == "mine"]
                    if mine:
                        running.append(pool.submit(self._settle_all, mine, function, folder))
                    left[name] = [task for task, state in states.items() if state == "elsewhere"]
                for future in as_completed(running):
                    future.result()
                left = {name: group for name, group in left.items() if group}
                if left:
                    time.sleep(self.poll)
        return self.last

    def _settle_all(self, tasks: list[Task], function: Together, folder: Path) -> None:
        """Record the rows of a group as they come; if the group fails, the failure of its other tasks."""
        left = dict.fromkeys(tasks)
        try:
            for task, row in function(tasks, folder):
                with self.lock:
                    self._settle(task, row)
                del left[task]
        except Exception as problem:
            with self.lock:
                for task in left:
                    self._settle(task, RuntimeError(f"{type(problem).__name__}: {problem}"))

    def _missing(self, tasks: list[Task]) -> list[Task]:
        done = self.store.done()
        missing = [task for task in dict.fromkeys(tasks) if task.key not in done]
        self.total = len(missing)
        return missing

    def loop(self, tasks: list[Task], shape: Callable[[Task], Any], executor: Executor) -> Progress | None:
        missing = self._missing(tasks)
        queue, elsewhere, running = Queue(missing, shape), list[Task](), 0
        while len(queue) or elsewhere or running:
            if not len(queue) and elsewhere:
                for task in elsewhere:
                    queue.put_back(task)
                elsewhere = []
                if not running:
                    time.sleep(self.poll)
            for slot in executor.idle():
                while (next_task := queue.take(slot)) is not None:
                    state = self._take(next_task)
                    if state == "mine":
                        executor.submit(slot, next_task)
                        running += 1
                        break
                    if state == "elsewhere":
                        elsewhere.append(next_task)
            if running:
                for _, task, outcome in executor.wait(self.poll if elsewhere else None):
                    running -= 1
                    if self._settle(task, outcome):
                        queue.put_back(task)
        return self.last

    def _take(self, task: Task) -> str:
        """Claim the task, then check whether it was finished before the claim."""
        if not self.store.claim(task.key):
            return "elsewhere"
        if task.key in self.store.done():
            self.store.release(task.key)
            self._count(task)
            return "finished"
        return "mine"

    def _settle(self, task: Task, outcome: Any) -> bool:
        """Record the outcome of a task; True if it has to run again."""
        if isinstance(outcome, Died):
            self.deaths[task.key] += 1
            if self.deaths[task.key] < ATTEMPTS:
                self.store.release(task.key)
                return True
            outcome = RuntimeError(f"its worker was killed {ATTEMPTS} times; is there enough memory?")
        row = outcome
        if isinstance(outcome, Exception):
            self.failed += 1
            row = {**dict(zip(KEY, task.key, strict=True)), "error": str(outcome), **task_module.provenance()}
        self.store.append(row)
        self.store.release(task.key)
        self._count(task)
        return False

    def _count(self, task: Task) -> None:
        self.finished += 1
        self.last = Progress(self.finished, self.failed, self.total, task)
        if self.report is not None:
            self.report(self.last)
