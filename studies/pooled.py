"""Run pieces of work in parallel and store results as lines of a file; stored pieces are not run again."""

from __future__ import annotations

import functools
import json
import multiprocessing
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def stored(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def attempt(fit: Callable[[Any], Line], task: Any) -> Line:
    try:
        return fit(task)
    except Exception as error:  # one failed fit must not end the study; the line says what happened
        return {**task._asdict(), "error": repr(error)}


def add_missing(path: Path, fit: Callable[[Any], Line], tasks: list[Any], jobs: int, seconds: float) -> None:
    """Append the fits of tasks (tuples with names) that the file lacks, or has with an error; as `add`."""
    done = {tuple(row[k] for k in tasks[0]._fields) for row in stored(path) if "error" not in row}
    missing = [task for task in tasks if task not in done]
    print(f"{len(tasks)} fits, {len(tasks) - len(missing)} of them in {path} already.")
    add(path, functools.partial(attempt, fit), missing, jobs, seconds)


def add(path: Path, work: Callable[[Any], Line], todo: Iterable[Any], jobs: int, seconds: float) -> None:
    """Append work(one) of every piece, as it is done, with `jobs` processes; start none after so many seconds."""
    begun = time.monotonic()
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = (one for one in todo if time.monotonic() - begun < seconds)
    with path.open("a") as file:

        def keep(line: Line) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        if jobs == 1:
            for one in waiting:
                keep(work(one))
            return
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            running: set[Future[Line]] = set()
            while True:
                while len(running) < jobs and (one := next(waiting, None)) is not None:
                    running.add(pool.submit(work, one))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    keep(future.result())
