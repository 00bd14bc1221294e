"""Protocol between `run.py` and a library: one JSON task per line on stdin, one JSON answer per line on stdout.

A script has one function per verb ("fit", "grid", …); `serve` reads tasks, times the function with the CPU clock of the
process and with the wall clock, and answers.  Only the function is timed; rows are read before.  The first task of a
process includes late imports and compilation, and is reported separately.

Only NumPy is needed here, because every script runs in the environment of its own library.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable

import numpy as np

Verb = Callable[[dict, dict], dict]


def load(path: str) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}


def start(data: dict[str, np.ndarray]) -> dict[str, float]:
    """Where hyperparameters start, if the case says so."""
    return {name: float(data[name]) for name in ("lengthscale", "variance") if name in data}


def serve(verbs: dict[str, Verb], about: dict) -> None:
    """Answer tasks until stdin ends.  `about` names the versions; anything that prints goes to stderr."""
    if "fit" in verbs:
        verbs = {**verbs, "suite": lambda task, data: _suite(verbs["fit"], task, data)}
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    print(json.dumps({"ready": True, "import_cpu": time.process_time(), **about}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(_answer(verbs, json.loads(line))), file=answers, flush=True)


def _suite(fit: Verb, task: dict, data: dict) -> dict:
    """Many fits one after the other."""
    found = [fit(task, {"X": data[f"X{i}"], "y": data[f"y{i}"]})["objective"] for i in range(task["folds"])]
    return {"objective": float(np.mean(found))}


def _answer(verbs: dict[str, Verb], task: dict) -> dict:
    if task["verb"] not in verbs:
        return {"skip": f"has no {task['verb']}"}
    data = load(task["data"])
    try:
        with np.errstate(all="ignore"), contextlib.redirect_stdout(sys.stderr):
            wall, cpu = time.perf_counter(), time.process_time()
            found = verbs[task["verb"]](task, data)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    except NotImplementedError as problem:
        return {"skip": str(problem)}
    except Exception as problem:  # whatever a peer raises is a result of the benchmark, not the end of it
        traceback.print_exc()
        return {"error": f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"[:200]}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu": cpu, "wall": wall, "peak_mib": peak, **found}
