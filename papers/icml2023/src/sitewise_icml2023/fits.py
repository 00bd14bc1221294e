"""Bring a store up to date: fetch the data sets, then run the tasks that the store lacks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sitewise.app.process import note
from sitewise.process.device import on_accelerator
from sitewise.process.files import user_cache
from sitewise.process.progress import bar
from sitewise_icml2023 import estimate, protocols, runner, sources, store, suites, tasks
from sitewise_icml2023.options import Options


def stored_rows(suite: suites.Suite, options: Options) -> list[dict[str, Any]]:
    """The rows of the store, after the tasks that it lacks have run."""
    todo = todo_of(suite, options)
    if not options.stored:
        fetch_sets({task.set for task in todo}, options)
        run_tasks(todo, options.store, options.workers, options.dask, options.together)
    return store.read(options.store)


def todo_of(suite: suites.Suite, options: Options) -> list[tasks.Task]:
    return tasks.suite(suite.sets, options.protocol, suite.seeds, suite.methods, options.data, suite.folds)


def estimates(names: Sequence[str], options: Options) -> list[str]:
    """What is left to do for each of these tables, and how long it may take; a fit that two share counts once."""
    kind = "gpu" if options.together or on_accelerator() else "cpu"
    workers = 1 if options.together else options.workers
    box = store.Store(options.store)
    known, out, total = box.done(), [], 0.0
    box.close()
    for name in names:
        if name in suites.suites():
            todo = todo_of(options.suite(name), options)
            missing = [task for task in todo if task.key not in known]
            known |= {task.key for task in missing}
            total += estimate.fits(missing, kind, workers)[0]
            out.append(estimate.line(name, todo, missing, kind, workers))
        elif (spent := estimate.figure(name, kind)) is not None:
            total += spent
            out.append(f"{name}: about {estimate.clock(spent)}")
    where = "one GPU" if kind == "gpu" else f"{workers} core{'s' if workers > 1 else ''}"
    return [*out, f"together about {estimate.clock(total)} on {where}, as far as it was measured before"]


def fetch_sets(names: Iterable[str], options: Options) -> None:
    """Have every data file on this machine before any worker starts."""
    known = [protocols.protocol(rules).replace for rules in options.protocol]
    wanted = sorted({replace.get(name, name) for replace in known for name in names})
    for name in wanted:
        find_shown(name, options.data)


def find_shown(name: str, data: Path | None) -> Path:
    """The set's file, with a progress bar while it is downloaded."""
    with bar(f"data: {name}", None) as shown:
        return sources.find(name, data, shown.received)


def run_tasks(
    todo: Sequence[tasks.Task], path: Path, workers: int, dask: str | None = None, together: bool = False
) -> None:
    """Bring the store up to date with a progress bar; tasks that are in it already do not run."""
    box = store.Store(path)
    done = box.done()
    todo = tasks.with_stored_starts(todo, box.rows())
    box.close()
    missing = sum(task.key not in done for task in todo)
    note(f"{len(todo)} tasks, {len(todo) - missing} of them in {path} already.")
    if not missing:
        return
    with bar("fits", missing) as shown:

        def report(state: runner.Progress) -> None:
            failed = f", {state.failed} failed" if state.failed else ""
            shown.say(f"fits{failed}: {' '.join(map(str, state.last.key))}")
            shown.advance()

        if together:
            end = runner.run_together(todo, path, report=report)
        else:
            executor = _executor(dask, min(workers, missing))
            try:
                end = runner.run(todo, path, executor, report=report)
            finally:
                executor.close()
    if end is not None and end.failed:
        note(f"{end.failed} tasks failed; {path} holds their errors, and the same command tries them again.")


def _executor(dask: str | None, workers: int) -> runner.Executor:
    if dask:
        from sitewise_icml2023.cluster import Cluster

        return Cluster(tasks.run, dask)
    from sitewise_icml2023.pool import Pool

    # On a CPU the library stores its compiled programs itself.
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(user_cache("jax"))
    return Pool(tasks.run, workers, {"JAX_COMPILATION_CACHE_DIR": cache} if on_accelerator() else {})
