"""Compare fits of two source trees: objective, log θ and predictions of 400 full, ten Markov and ten sparse fits.

    python studies/compare_trees.py --tree OLD/src --data DIR --out old.jsonl
    python studies/compare_trees.py --tree NEW/src --data DIR --out new.jsonl
    python studies/compare_trees.py --compare old.jsonl new.jsonl

Full: five sets of the paper × 20 folds × Laplace, EP, VI and hybrid, probit, one lengthscale.  Markov: simulated series
of 300 to 2 100 rows, four likelihoods, four methods.  Sparse: simulated tables of 2 500 to 25 000 rows, 40 to 200
inducing inputs, four likelihoods, least_gain=0.05.  Only names that every version since 0.2.0 has are imported.
--shard K/N runs every N-th fit, so that N processes share the work.  results/trees/README.md has the numbers of 0.3.0
beside 0.2.0.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

SETS = ("hepatitis", "parkinsons", "statlog-heart", "ionosphere", "haberman-survival")
METHODS = ("laplace", "ep", "vi", "hybrid")
# rows, columns and inducing inputs of the sparse fits
SPARSE = (
    (2_500, 3, 60), (7_000, 5, 100), (7_000, 8, 150), (20_000, 5, 200), (7_000, 2, 40),
    (3_000, 10, 100), (7_000, 4, 180), (12_000, 6, 120), (25_000, 5, 100), (7_000, 3, 200),
)  # fmt: skip

Fits = Iterator[tuple[str, Callable[[], Any]]]


def targets(rng: np.random.Generator, f: np.ndarray, kind: int) -> tuple[np.ndarray, Any]:
    from sitewise import likelihoods

    n = len(f)
    if kind == 0:
        return np.where(f + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0), likelihoods.BernoulliProbit()
    if kind == 1:
        return f + 0.3 * rng.standard_t(3, size=n), likelihoods.StudentT(0.5, 4.0)
    if kind == 2:
        return rng.poisson(np.exp(0.5 * f)).astype(float), likelihoods.Poisson()
    return f + 0.4 * rng.normal(size=n), likelihoods.Gaussian(0.5)


def full(folder: Path) -> Fits:
    from sklearn.model_selection import RepeatedStratifiedKFold
    from sklearn.preprocessing import StandardScaler

    from sitewise import Data, Model, kernels, likelihoods, resolve

    for name in SETS:
        table = np.loadtxt(folder / "classification" / f"{name}.csv", delimiter=",", skiprows=1, ndmin=2)
        X, y = table[:, :-1], np.where(table[:, -1] == np.max(table[:, -1]), 1.0, -1.0)
        folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=42).split(X, y)
        for k, (rows, _) in enumerate(folds):
            data = Data.of(StandardScaler().fit_transform(X[rows]), y[rows])
            model = Model.full(kernels.RBF(2.0), likelihoods.BernoulliProbit())
            for method in METHODS:
                yield f"full {name} {k} {method}", functools.partial(resolve(method).fit, model, data)


def markov() -> Fits:
    from sitewise import Data, Model, kernels, means, resolve

    for k in range(10):
        rng, n = np.random.default_rng(200 + k), 300 + 200 * k
        t = np.sort(rng.uniform(0, 50, n))
        y, likelihood = targets(rng, np.sin(t) + 0.5 * np.cos(0.3 * t), k % 4)
        kernel = (kernels.Matern32(1.0), kernels.Matern52(1.0), kernels.Matern12(1.0))[k % 3]
        model = Model.markov(kernel, likelihood, means.Constant(0.0))
        learner = resolve(METHODS[(k // 2) % 4])
        yield f"markov {k}", functools.partial(learner.fit, model, Data.of(t[:, None], y), seed=k)


def sparse() -> Fits:
    from sitewise import Data, Model, inducing, kernels, means, resolve

    for k, (n, columns, m) in enumerate(SPARSE):
        rng = np.random.default_rng(100 + k)
        X = rng.normal(size=(n, columns))
        y, likelihood = targets(rng, np.sin(2 * X[:, 0]) + X[:, 1] * (X[:, -1] > 0), k % 4)
        kernel = kernels.Matern52(np.full(columns, 2.0)) if k % 2 else kernels.Matern52(2.0)
        Z = inducing.select(X, "kmeans", m, kernel=kernel, seed=k)
        model = Model.sparse(kernel, likelihood, Z, means.Constant(0.0) if k % 4 else None)
        learner = resolve("hybrid", least_gain=0.05)
        yield f"sparse {k}", functools.partial(learner.fit, model, Data.of(X, y), seed=k)


def run(folder: Path, out: Path, shard: tuple[int, int]) -> None:
    from sitewise.parameters import values

    done = {json.loads(line)["fit"] for line in out.read_text().splitlines()} if out.exists() else set()
    for k, (name, compute) in enumerate(fit for fits in (sparse(), markov(), full(folder)) for fit in fits):
        if name in done or k % shard[1] != shard[0]:
            continue
        start = time.process_time()
        fit = compute()
        line = {
            "fit": name, "cpu_seconds": round(time.process_time() - start, 2), "objective": float(fit.objective),
            "rounds": fit.rounds, "converged": bool(fit.converged),
            "theta": {n: np.ravel(np.asarray(v, float)).tolist() for n, v in values(fit.model).items()
                      if n != "inducing"},
            "f": np.ravel(np.asarray(fit.posterior().f(np.asarray(fit.data.X)[:3]))).tolist(),
        }  # fmt: skip
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")


def compare(old: Path, new: Path) -> None:
    before, after = ({row["fit"]: row for row in map(json.loads, p.read_text().splitlines())} for p in (old, new))
    logs = lambda v: np.log(np.abs(v) + 1e-300)  # noqa: E731
    for kind in ("full", "markov", "sparse"):
        pairs = [(before[name], after[name]) for name in before if name in after and name.startswith(kind)]
        if not pairs:
            continue
        gaps = [
            (abs(a["objective"] - b["objective"]),
             max(float(np.max(np.abs(logs(a["theta"][n]) - logs(b["theta"][n])))) for n in a["theta"]),
             float(np.max(np.abs(np.subtract(a["f"], b["f"])))))
            for a, b in pairs
        ]  # fmt: skip
        close = sum(gap[0] <= 1e-6 and gap[1] <= 1e-6 for gap in gaps)
        cpu = [sum(row["cpu_seconds"] for row in column) for column in zip(*pairs, strict=True)]
        worst = ", ".join(f"{value:.1e}" for value in np.max(gaps, axis=0))
        print(f"{kind}: {len(pairs)} fits, {close} equal to 1e-6; largest differences of objective, log θ, f: {worst}; "
              f"CPU seconds {cpu[0]:.0f} → {cpu[1]:.0f}")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"))
    asked = parser.parse_args()
    if asked.compare:
        compare(*asked.compare)
    else:
        sys.path.insert(0, str(asked.tree.resolve()))
        warnings.simplefilter("ignore")
        first, of = map(int, asked.shard.split("/"))
        run(asked.data, asked.out, (first, of))
