"""Run pieces of work in parallel and store results as lines of a file; stored pieces are not run again."""

from __future__ import annotations

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
