"""Compare selections of inducing inputs (k-means, greedy, trained) by test log density and time.

    python studies/inducing_inputs.py --data DIR --jobs 16 [--sets NAME ...] [--seeds 42 7] [--folds 0 1]
                                      [--sizes 50 150] [--choices NAME ...] [--kernels isotropic shrunk]
                                      [--seconds 300]
    python studies/inducing_inputs.py --table

The five sets of the paper's table 3, protocol clean, with the sparse default (EP's sites and evidence):

    kmeans      k-means of the rows, scaled by the lengthscales from which the search starts
    greedy      pivoted Cholesky of the kernel from which the search starts
    trained     from kmeans to the inputs of greatest evidence, in at most 100 rounds (Nested(move_inputs=True))
    kmeans-vi   as kmeans, by VI and the ELBO
    trained-vi  as trained, by VI and the ELBO

Three further columns of the table were measured with sitewise 0.2.0.  They were not better than kmeans; sitewise 0.3
does not have them, and this script only shows their stored results:

    kmeans+     learn on a subset of the rows, then k-means of the rows scaled by the learned lengthscales
    greedy+     learn on a subset of the rows, then pivoted Cholesky of the learned kernel
    greedy++    greedy+ twice

The kernel is Matern 5/2 with one lengthscale, or with shrunk lengthscales, the estimators' default.  Every fit is one
line of results/inducing-inputs/results.jsonl and is not run again; with --seconds no fit starts later than that.
--table writes README.md there.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one fit a core

import numpy as np

import pooled
from sitewise import Data, Model, inducing, kernels, likelihoods
from sitewise.kernels.per_column import with_shrunk
from sitewise.learning.nested import Nested
from sitewise.methods import resolve
from sitewise_icml2023 import protocols

RESULTS = Path(__file__).resolve().parents[1] / "results" / "inducing-inputs"
ROWS = RESULTS / "results.jsonl"
SETS = ("titanic", "bank", "twonorm", "mushroom", "magic")
COLUMNS = ("kmeans", "greedy", "kmeans+", "greedy+", "greedy++", "trained", "kmeans-vi", "trained-vi")
CHOICES = tuple(one for one in COLUMNS if "+" not in one)  # the others were removed after 0.2.0
KERNELS = ("isotropic", "shrunk")
BOUNDS = {"*lengthscale": (0.05, 500.0), "*variance": (1e-3, 1e5)}


class Task(NamedTuple):
    set: str
    seed: int
    fold: int
    m: int
    kernel: str
    choice: str


def run(task: Task, data: Path | None) -> dict[str, Any]:
    rows = protocols.fold(task.set, "clean", task.seed, task.fold, data)
    kernel: kernels.Kernel = kernels.Matern52(lengthscale=np.sqrt(rows.X.shape[1]))
    if task.kernel == "shrunk":
        kernel = with_shrunk(kernel, rows.X, start=False)
    method = "vi" if task.choice.endswith("-vi") else "hybrid"
    learner = resolve(method, bounds=BOUNDS, tol=3e-5, max_rounds=100, least_gain=0.05)
    assert isinstance(learner, Nested)
    start, training = time.process_time(), Data.of(rows.X, rows.y)
    first = inducing.select(rows.X, "greedy" if task.choice == "greedy" else "kmeans", task.m, kernel=kernel, seed=0)
    model = Model.sparse(kernel, likelihoods.BernoulliProbit(), first)
    fit = dataclasses.replace(learner, move_inputs=task.choice.startswith("trained")).fit(model, training)
    seconds = time.process_time() - start
    density = np.asarray(fit.posterior().log_density(rows.X_test, rows.y_test))
    density = np.clip(density, np.log(1e-12), np.log1p(-1e-12))  # as in table 3
    return {
        **task._asdict(),
        "n": len(rows.y),
        "inputs": len(np.asarray(fit.model.prior.inducing)),  # type: ignore[attr-defined]
        "test_loglik": float(density.mean()),
        "objective": fit.objective / len(rows.y),
        "converged": bool(fit.converged),
        "reason": fit.reason,
        "evaluations": len(fit.trace),
        "cpu_seconds": round(seconds, 2),
    }


def table(rows: list[dict[str, Any]]) -> str:
    cells: dict[tuple[str, int, str, int], dict[str, dict[int, dict[str, Any]]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for row in rows:
        if "error" not in row:
            cells[row["kernel"], row["m"], row["set"], row["seed"]][row["choice"]][row["fold"]] = row
    lines = [
        "# Selection of inducing inputs: k-means, greedy, trained",
        "",
        "Made by `python studies/inducing_inputs.py --table`; its first lines describe the columns. Protocol "
        "clean, EP's "
        "sites and evidence, or VI's sites and the ELBO for names that end in -vi. Mean test log density over "
        "the folds "
        "that all selections of a row have; bold: within 0.001 of the best. In brackets: number of fits that did not "
        "converge. kmeans+, greedy+ and greedy++ were measured with sitewise 0.2.0; later versions do not have them.",
        "",
        f"| kernel | m | set | seed | folds | {' | '.join(COLUMNS)} |",
        "|---|---|---|---|---|" + "---|" * len(COLUMNS),
    ]
    behind: dict[tuple[str, str], list[float]] = defaultdict(list)
    seconds: dict[tuple[str, int, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    order = lambda key: (KERNELS.index(key[0]), key[1], SETS.index(key[2]), key[3] != 42, key[3])  # noqa: E731
    for key in sorted(cells, key=order):
        by = cells[key]
        folds = sorted(set.intersection(*(set(found) for found in by.values())))
        if not folds:
            continue
        means = {one: float(np.mean([found[k]["test_loglik"] for k in folds])) for one, found in by.items()}
        failed = {one: sum(not found[k]["converged"] for k in folds) for one, found in by.items()}
        for one, found in by.items():
            behind[key[0], one].append(max(means.values()) - means[one])
            seconds[key[0], key[1], key[2]][one] += [found[k]["cpu_seconds"] for k in folds]
        shown = []
        for one in COLUMNS:
            text = "" if one not in means else f"{means[one]:.4f}"
            text = f"**{text}**" if text and means[one] > max(means.values()) - 0.001 else text
            shown.append(text + (f" ({failed[one]})" if failed.get(one) else ""))
        lines.append(f"| {' | '.join(map(str, key))} | {len(folds)} | {' | '.join(shown)} |")
    for kernel in KERNELS:
        for label, summary in (("largest", max), ("mean", np.mean)):
            found = [behind.get((kernel, one)) for one in COLUMNS]
            shown = ["" if f is None else f"{summary(f):.4f}" for f in found]
            lines.append(f"| *{kernel}: loss against the best, {label}* | | | | | {' | '.join(shown)} |")
    lines += ["", "Median CPU seconds per fit, including the selection of inputs and compilation:", ""]
    lines += [f"| kernel | m | set | {' | '.join(COLUMNS)} |", "|---|---|---|" + "---|" * len(COLUMNS)]
    for key, found in seconds.items():
        shown = [f"{np.median(found[one]):.1f}" if one in found else "" for one in COLUMNS]
        lines.append(f"| {' | '.join(map(str, key))} | {' | '.join(shown)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[42])
    parser.add_argument("--folds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--sizes", nargs="+", type=int, default=[50, 150])
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--choices", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--table", action="store_true", help="write README.md from the fits that there are")
    given = parser.parse_args()
    if not given.table:
        tasks = [
            Task(name, seed, fold, m, kernel, choice)
            for m in sorted(given.sizes, reverse=True)  # the longest fits first, so that no worker waits at the end
            for name in reversed(given.sets)
            for seed in given.seeds
            for fold in given.folds
            for kernel in given.kernels
            for choice in given.choices
        ]
        pooled.add_missing(ROWS, functools.partial(run, data=given.data), tasks, given.jobs, given.seconds)
    (RESULTS / "README.md").write_text(table(pooled.stored(ROWS)))


if __name__ == "__main__":
    main()
