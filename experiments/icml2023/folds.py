"""Train methods on the published folds and record what they reach, one JSON line per (set, seed, fold, method).

    python experiments/icml2023/folds.py --methods laplace ep vi hybrid --out results/icml2023/folds.jsonl

Resumable: finished lines are kept, and only missing tasks run.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import numpy as np
from joblib import Parallel, delayed
from protocol import data_directory, folds, load, published

from sitewise import Data, Model, kernels, likelihoods, posterior, resolve
from sitewise.metrics import accuracy
from sitewise.precision import working_precision


def run(name: str, seed: int, fold: int, methods: list[str], directory: Path) -> list[dict]:
    X, y = load(name, directory)
    train, test = folds(len(X), seed)[fold]
    rows = []
    for method in methods:
        model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit(), jitter=1e-6)
        wall, cpu = time.perf_counter(), time.process_time()
        fit = resolve(method).fit(model, Data.of(X[train], y[train]))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        with working_precision():
            q = posterior(fit.model, fit.data, fit.sites)
            density = np.asarray(q.log_density(X[test], y[test]))
            hits = accuracy(np.asarray(q.probability(X[test])), y[test])
        rows.append(
            {
                "set": name, "seed": seed, "fold": fold, "method": method, "n": len(train),
                "test_loglik": float(np.mean(np.clip(density, np.log(1e-12), np.log1p(-1e-12)))),
                "test_acc": hits, "objective": fit.objective, "evidences": fit.evidences,
                "theta": {k: float(v) for k, v in fit.parameters.items()}, "converged": fit.converged,
                "reason": fit.reason, "rounds": fit.rounds, "evaluations": len(fit.trace),
                "residual": float(fit.solution.stats.residual), "at_bound": list(fit.at_bound),
                "seconds": wall, "cpu_seconds": cpu,
            }
        )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--methods", nargs="+", default=["laplace", "ep", "vi", "hybrid"])
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--seeds", nargs="+", type=int, default=[42])
    parser.add_argument("--out", type=Path, default=Path("results/icml2023/folds.jsonl"))
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    directory = args.data or data_directory()
    sets = args.sets or sorted(published(directory), key=lambda s: len(load(s, directory)[1]))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    done = set()
    if args.out.exists():
        for line in args.out.read_text().splitlines():
            row = json.loads(line)
            done.add((row["set"], row["seed"], row["fold"], row["method"]))
    tasks = []
    for name in reversed(sets):  # the large ones first: better packing
        for seed in args.seeds:
            for fold in range(5):
                missing = [m for m in args.methods if (name, seed, fold, m) not in done]
                if missing:
                    tasks.append((name, seed, fold, missing))
    results = Parallel(n_jobs=args.workers, return_as="generator_unordered")(
        delayed(run)(*task, directory) for task in tasks
    )
    with args.out.open("a") as store:
        for count, rows in enumerate(results, 1):
            for row in rows:
                store.write(json.dumps(row) + "\n")
            store.flush()
            print(f"{count}/{len(tasks)} {rows[0]['set']} fold {rows[0]['fold']}", flush=True)


if __name__ == "__main__":
    main()
