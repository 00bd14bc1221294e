"""Compare pairs of sites and evidence for learning on a sparse prior by test log density and time.

    python studies/sparse_objectives.py --data DIR --jobs 16 [--sets NAME ...] [--folds 0 1 2 3 4] [--sizes 50 150]
                                        [--methods NAME ...] [--protocol clean] [--seconds 300]
    python studies/sparse_objectives.py --table

The five sets of the paper's table 3 (folds of seed 42), and simulated sets of 4 000 + 2 000 rows whose "fold" is their
seed: f from a Matern 5/2 GP on four columns, y with Gaussian noise, Student-t noise, or counts; and f(x) = sin 2x₁ +
x₂x₃, which a hundred inducing inputs almost determine, on four columns, or on three with five percent of gross
outliers.  k-means Z, the same for all methods; one lengthscale; start, bounds and tolerances are those of table 3.

"default" is the estimators' default: `GPClassifier(structure=Sparse(m))` or `GPRegressor(likelihood=…,
structure=Sparse(m))`, with shrunk lengthscales; "default-vi" is the same with method="vi".

Every fit is one line of results/sparse-objectives/results.jsonl and is not run again; with --seconds no fit starts
later than that.  --table writes results/sparse-objectives/README.md, with the fits of vi and collapsed in
results/icml2023.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one fit a core

import numpy as np

import pooled
from pooled import Line
from sitewise import (
    EP,
    VI,
    Data,
    GPClassifier,
    GPRegressor,
    Model,
    Nested,
    Sparse,
    evidence,
    inducing,
    kernels,
    likelihoods,
)
from sitewise.evidence import Evidence
from sitewise.learning.problem import Pair
from sitewise_icml2023 import protocols, store
from sitewise_icml2023.variants import SPARSE_BOUNDS

ROOT = Path(__file__).resolve().parents[1] / "results"
RESULTS = ROOT / "sparse-objectives"
ROWS = RESULTS / "results.jsonl"
SETS = ("titanic", "bank", "twonorm", "mushroom", "magic")
SIMULATED = {
    "simulated-gaussian": "gaussian",
    "simulated-student-t": "student_t",
    "simulated-poisson": "poisson",
    "smooth-gaussian": "gaussian",
    "smooth-student-t": "student_t",
    "smooth-outliers": "student_t",
}
TRAINING = 4_000
Cells = dict[tuple[str, str, int], dict[str, dict[int, Line]]]
Density = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _tight_collapsed(likelihood, data, q, sites, power):
    """`collapsed` with the residual of `tight`."""
    resid, cost = evidence.narrowed(data, q, sites)
    return evidence.collapsed.terms(likelihood, data, q._replace(resid=resid), sites, power) - cost


METHODS = {
    "vi": Pair(VI(tol=1e-6), evidence.elbo, "auto"),
    "collapsed": Pair(VI(tol=1e-6), evidence.collapsed),
    "tight": Pair(VI(tol=1e-6, tight=True), evidence.tight, "auto"),
    "tight-collapsed": Pair(VI(tol=1e-6, tight=True), Evidence("tight-collapsed", _tight_collapsed, piece=128)),
    "ep-0.2": Pair(EP(tol=1e-6, power=0.2), evidence.power_ep(0.2), "auto"),
    "ep-0.5": Pair(EP(tol=1e-6, power=0.5), evidence.power_ep(0.5), "auto"),
    "ep": Pair(EP(tol=1e-6), evidence.ep, "auto"),
}
ESTIMATORS = {"default": "hybrid", "default-vi": "vi"}
COLUMNS = (*METHODS, *ESTIMATORS)
PILOTS = ("tight-collapsed", "ep-0.2")  # tried on two folds
STORED = {"vi": "vi", "hybrid": "collapsed", "ep": "ep"}  # names of results/icml2023


class Task(NamedTuple):
    set: str
    protocol: str
    fold: int
    m: int
    method: str


def simulated(name: str, seed: int) -> protocols.Fold:
    """A draw of the GP is a sum of 2 000 random waves."""
    rng = np.random.default_rng(seed)
    shape, _, noise = name.partition("-")
    X = rng.normal(size=(TRAINING + 2_000, 3 if noise == "outliers" else 4))
    if shape == "smooth":
        f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    else:
        # The spectral density of Matern 5/2 is a Student-t of five degrees of freedom.
        waves = rng.normal(size=(4, 2_000)) / np.sqrt(rng.chisquare(5, size=2_000) / 5) / 1.5
        f = np.cos(X @ waves + rng.uniform(0, 2 * np.pi, 2_000)) @ rng.normal(size=2_000) * np.sqrt(2 / 2_000)
    draw = {
        "gaussian": lambda: f + 0.4 * rng.normal(size=f.shape),
        "student-t": lambda: f + 0.3 * rng.standard_t(4, size=f.shape),
        "outliers": lambda: f + np.where(rng.uniform(size=f.shape) < 0.05, 8.0, 0.2) * rng.normal(size=f.shape),
        "poisson": lambda: rng.poisson(np.exp(f)).astype(float),
    }
    y = draw[noise]()
    return protocols.Fold(X[:TRAINING], y[:TRAINING], X[TRAINING:], y[TRAINING:])


def run(task: Task, data: Path | None) -> dict[str, Any]:
    if task.set in SIMULATED:
        rows = simulated(task.set, task.fold)
    else:
        rows = protocols.fold(task.set, task.protocol, 42, task.fold, data)
    start = time.process_time()
    found, log_density = (by_estimator if task.method in ESTIMATORS else by_learner)(task, rows)
    seconds = time.process_time() - start
    density = np.asarray(log_density(rows.X_test, rows.y_test))
    if task.set not in SIMULATED:  # as in table 3, no probability counts as less than 1e-12
        density = np.clip(density, np.log(1e-12), np.log1p(-1e-12))
    return {
        **task._asdict(),
        "n": len(rows.y),
        "test_loglik": float(density.mean()),
        **found,
        "cpu_seconds": round(seconds, 2),
    }


def by_learner(task: Task, rows: protocols.Fold) -> tuple[dict[str, Any], Density]:
    likelihood = likelihoods.BY_NAME[SIMULATED[task.set]]() if task.set in SIMULATED else likelihoods.BernoulliProbit()
    kernel = kernels.Matern52(lengthscale=np.sqrt(rows.X.shape[1]))
    model = Model.sparse(kernel, likelihood, inducing.select(rows.X, "kmeans", task.m, seed=0))
    pair = METHODS[task.method]
    learner = Nested(pair.inference, pair.evidence, pair.gradient, bounds=SPARSE_BOUNDS, tol=3e-5, max_rounds=60)
    fit = learner.fit(model, Data.of(rows.X, rows.y))
    found = {
        "objective": fit.objective / len(rows.y),
        "theta": {k: np.asarray(v).tolist() for k, v in fit.parameters.items() if np.size(v) == 1},
        "converged": bool(fit.converged),
        "reason": fit.reason,
        "evaluations": len(fit.trace),
        "steps": sum(entry["steps"] for entry in fit.trace),
    }
    return found, fit.posterior().log_density


def by_estimator(task: Task, rows: protocols.Fold) -> tuple[dict[str, Any], Density]:
    settings = {"method": ESTIMATORS[task.method], "structure": Sparse(task.m), "random_state": 0}
    if task.set in SIMULATED:
        model = GPRegressor(likelihood=SIMULATED[task.set], **settings)
    else:
        model = GPClassifier(**settings)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(rows.X, rows.y)
    found = {"converged": bool(model.converged_), "reason": "; ".join(str(w.message)[:100] for w in said)}
    return found, model.log_predictive_density


def stored() -> list[dict[str, Any]]:
    """The fits of table 3, whose settings are the same."""
    found = []
    for row in store.read(ROOT / "icml2023" / "results.jsonl"):
        method, _, size = row["method"].partition("@m")
        if row["set"] in SETS and row["seed"] == 42 and method in STORED and size:
            found.append({**row, "method": STORED[method], "m": int(size)})
    return found


def table(rows: list[dict[str, Any]]) -> str:
    cells: Cells = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if "error" not in row:
            cells[row["set"], row["protocol"], row["m"]][row["method"]][row["fold"]] = row
    main = tuple(method for method in COLUMNS if method not in PILOTS)
    lines = [
        "# Objectives for sparse GPs: test log density of each pair of sites and evidence",
        "",
        "Made by `python studies/sparse_objectives.py --table`; its first lines describe the columns. Mean test log "
        "density over the folds that all methods of a row have; bold: within 0.001 of the best. In brackets: number "
        "of fits that did not converge. Summary: [trials.md](trials.md).",
        "",
        *compared(cells, main),
        "",
        "With two more methods, on two folds:",
        "",
        *compared({key: by for key, by in cells.items() if set(PILOTS) & set(by)}, COLUMNS),
    ]
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if "steps" in row or row["method"] in ESTIMATORS:
            seconds[f"{row['set']}, m = {row['m']}", row["method"]].append(row["cpu_seconds"])
    lines += ["", "Median CPU seconds per fit, one thread, including compilation:", ""]
    lines += [f"| | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    for name in sorted({name for name, _ in seconds}):
        found = (seconds.get((name, method)) for method in COLUMNS)
        lines.append(f"| {name} | {' | '.join('' if f is None else f'{np.median(f):.0f}' for f in found)} |")
    return "\n".join([*lines, ""])


def compared(
    cells: Mapping[tuple[str, str, int], Mapping[str, Mapping[int, Line]]], columns: Sequence[str]
) -> list[str]:
    """The lines of a table of these methods."""
    lines = [f"| set | protocol | m | folds | {' | '.join(columns)} |", "|---|---|---|---|" + "---|" * len(columns)]
    behind: dict[str, list[float]] = defaultdict(list)
    for key in sorted(cells, key=lambda k: ((*SETS, *SIMULATED).index(k[0]), k[1], k[2])):
        by = {method: found for method, found in cells[key].items() if method in columns}
        folds = sorted(set.intersection(*(set(found) for found in by.values())))
        if not folds:
            continue
        means = {method: float(np.mean([found[k]["test_loglik"] for k in folds])) for method, found in by.items()}
        failed = {method: sum(not found[k]["converged"] for k in folds) for method, found in by.items()}
        best = max(means.values())
        for method, value in means.items():
            behind[method].append(best - value)
        shown = []
        for method in columns:
            text = "" if method not in means else f"{means[method]:.4f}"
            text = f"**{text}**" if text and means[method] > best - 0.001 else text
            shown.append(text + (f" ({failed[method]})" if failed.get(method) else ""))
        lines.append(f"| {key[0]} | {key[1]} | {key[2]} | {len(folds)} | {' | '.join(shown)} |")
    worst = [f"{max(behind[m]):.4f} ({len(behind[m])})" if m in behind else "" for m in columns]
    return [*lines, f"| *most behind the best (of lines)* | | | | {' | '.join(worst)} |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sets", nargs="+", default=[*SIMULATED, *SETS])
    parser.add_argument("--protocol", nargs="+", default=["clean"])
    parser.add_argument("--folds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--sizes", nargs="+", type=int, default=[50, 150])
    parser.add_argument("--methods", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--table", action="store_true", help="write README.md from the fits that there are")
    given = parser.parse_args()
    if not given.table:
        tasks = [
            Task(name, rules, fold, m, method)
            for m in sorted(given.sizes, reverse=True)  # the longest fits first, so that no worker waits at the end
            for name in reversed(given.sets)
            for rules in (["simulated"] if name in SIMULATED else given.protocol)
            for method in given.methods
            for fold in given.folds
        ]
        pooled.add_missing(ROWS, functools.partial(run, data=given.data), tasks, given.jobs, given.seconds)
    (RESULTS / "README.md").write_text(table(stored() + pooled.stored(ROWS)))


if __name__ == "__main__":
    main()
