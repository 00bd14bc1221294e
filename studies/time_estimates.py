"""Compare the estimated time of a fit with the measured time, in CPU seconds of one thread.

    python studies/time_estimates.py [--jobs N] [--longest SECONDS] [--seed K] [--only full|auto|classes|values|…]
    python studies/time_estimates.py --table

Tables are simulated: standard normal columns, the target depends on the first three.  Problems: classes (two classes),
values (Gaussian noise), counts (Poisson), joint (three joint classes), with the full GP up to 4 000 rows and with
structure="auto" up to 10⁶ rows, 2 to 60 columns.  Each problem runs in its own process with one thread; compilation
counts.  results/time-estimates/fits.jsonl has one line per problem (finished problems are not run again), README.md the
table.  Problems that take longer than --longest seconds are stopped and not stored.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "time-estimates"
THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
COLUMNS = (2, 10, 60)
ROWS = {"full": (500, 1_000, 2_000, 4_000), "auto": (2_500, 5_000, 20_000, 100_000, 1_000_000)}
JOINT_ROWS = (500, 900)
MAX_SECONDS = 3_000.0


class Problem(NamedTuple):
    """One table and one estimator."""

    target: str
    structure: str
    rows: int
    columns: int
    seed: int = 0


def problems(seed: int) -> list[Problem]:
    """Return all problems, the smallest first."""
    found = [
        Problem(target, structure, rows, columns, seed)
        for structure, sizes in ROWS.items()
        for target, rows, columns in itertools.product(("classes", "values", "counts"), sizes, COLUMNS)
    ]
    found += [Problem("joint", "full", rows, columns, seed) for rows in JOINT_ROWS for columns in COLUMNS]
    return sorted(found, key=lambda one: (one.rows, one.columns))


def table(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Simulate the table."""
    rng = np.random.default_rng(problem.rows + problem.columns + 7 * problem.seed)
    X = rng.normal(size=(problem.rows, problem.columns))
    f = 1.5 * np.sin(X[:, 0]) + 0.7 * X[:, 1] + (X[:, min(2, problem.columns - 1)] > 0)
    noisy = f + 0.5 * rng.normal(size=problem.rows)
    if problem.target == "values":
        return X, noisy
    if problem.target == "counts":
        return X, rng.poisson(np.exp(0.5 * f)).astype(float)
    return X, np.digitize(noisy, np.quantile(noisy, [1 / 3, 2 / 3] if problem.target == "joint" else [0.5]))


def estimator(problem: Problem) -> Any:
    """Return the unfitted estimator."""
    from sitewise import GPClassifier, GPRegressor

    shared: dict[str, Any] = {"structure": problem.structure, "random_state": 0}
    if problem.target == "joint":
        return GPClassifier(multi_class="joint", **shared)
    if problem.target == "classes":
        return GPClassifier(**shared)
    return GPRegressor(likelihood="gaussian" if problem.target == "values" else "poisson", **shared)


def measure(problem: Problem) -> dict[str, Any]:
    """Fit once; return the estimate, the CPU seconds at which it was made, and the CPU seconds of the fit."""
    from sitewise.estimators import duration
    from sitewise.learning import clock

    for module in (duration, clock):
        module.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[attr-defined]
    duration.ANNOUNCED_SECONDS = 0.0
    found: dict[str, Any] = {"estimate": None, "after": None}

    def keep(message: Warning | str, *place: Any, **more: Any) -> None:
        if isinstance(message, duration.LongFitWarning):
            found.update(estimate=message.seconds, after=time.process_time() - began)

    X, y = table(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = keep
        began = time.process_time()
        model = estimator(problem).fit(X, y)
    inputs = model.models_[0][0].prior.inputs
    return {
        **problem._asdict(), **found, "seconds": time.process_time() - began,
        "inputs": None if inputs is None else len(inputs), "rounds": int(model.n_iter_),
    }  # fmt: skip


def run_apart(problem: Problem, longest: float) -> dict[str, Any] | None:
    """Measure a problem in a process of its own; None if it fails or takes longer than `longest` seconds."""
    command = [sys.executable, __file__, "--one", json.dumps(problem)]
    try:
        done = subprocess.run(
            command, env={**os.environ, **THREADS}, capture_output=True, text=True, timeout=longest, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failed:
        print(f"{problem}: {failed}\n{getattr(failed, 'stderr', '')}", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def finished() -> list[dict[str, Any]]:
    """Return the stored measurements."""
    path = OUT / "fits.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_table() -> None:
    """Write README.md from the stored measurements."""
    rows = [one for one in finished() if one["estimate"] is not None]
    rows.sort(key=lambda one: (one["seed"], one["structure"], one["target"], one["rows"], one["columns"]))
    ratios = np.array([one["estimate"] / one["seconds"] for one in rows])
    long = np.array([max(one["estimate"], one["seconds"]) > 60 for one in rows])
    within = np.abs(np.log2(ratios)) <= 1
    lines = [
        "# Estimated and measured time of a fit",
        "",
        "The estimate is made during the fit, as soon as the first stage of several has ended, or after three",
        "evaluations (`sitewise.learning.clock`); *after* says when. CPU seconds of one process with one thread,",
        "compilation included, simulated tables, `python studies/time_estimates.py`. Fits below a second have no",
        "estimate.",
        "",
        "The stored fits were measured when later searches were expected to take seven evaluations, and not five, and",
        "the mean time of an evaluation was used, and not the median: their estimates are too long.",
        "",
        f"The estimate is within a factor of two in {int(within.sum())} of {len(rows)} fits, and in "
        f"{int(within[long].sum())} of the {int(long.sum())} fits of more than a minute, which are announced. "
        f"The ratio of estimate and measurement has median {np.median(ratios):.2f} and range {ratios.min():.2f} to "
        f"{ratios.max():.2f}.",
        "",
        "| seed | structure | target | rows | columns | inducing inputs | estimate, s | after, s | seconds | ratio |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one, ratio in zip(rows, ratios, strict=True):
        inputs = "–" if one["inputs"] is None else one["inputs"]
        lines.append(
            f"| {one['seed']} | {one['structure']} | {one['target']} | {one['rows']} | {one['columns']} | {inputs} | "
            f"{one['estimate']:.1f} | {one['after']:.1f} | {one['seconds']:.1f} | {ratio:.2f} |"
        )
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "README.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--longest", type=float, default=MAX_SECONDS)
    parser.add_argument("--only", choices=(*ROWS, "classes", "values", "counts", "joint"))
    parser.add_argument("--seed", type=int, default=0, help="of the simulated tables")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(Problem(*json.loads(given.one)))))
        return
    done = finished()
    known = {tuple(one[name] for name in Problem._fields) for one in done}
    left = [
        one
        for one in problems(given.seed)
        if tuple(one) not in known and given.only in (None, one.target, one.structure)
    ]
    if not given.table:
        OUT.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(given.jobs) as pool:
            runs = [pool.submit(run_apart, one, given.longest) for one in left]
            for found in (run.result() for run in as_completed(runs)):
                if found is not None:
                    print(found, flush=True)
                    with open(OUT / "fits.jsonl", "a") as file:
                        file.write(json.dumps(found) + "\n")
    write_table()


if __name__ == "__main__":
    main()
