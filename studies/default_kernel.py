"""Compare kernels by test log density and accuracy on 27 tables of two classes (folds of the clean protocol).

    python studies/default_kernel.py --jobs 16 --seeds 42 1 2 3     fits (resumable)
    python studies/default_kernel.py --export FOLDER                the same folds as .npz, for default_kernel_rivals.py
    python studies/default_kernel.py --table                        results/default-kernel/README.md

A line of results/default-kernel/rows.jsonl is one fit of one fold, with the log density of every test row, from which
the averages are computed.  rows.jsonl and rivals.jsonl are kept as .gz (with four digits): `gunzip -k` them to
continue.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
from scipy.special import logsumexp

from pooled import add, stored

ROOT = Path(__file__).resolve().parents[1] / "results" / "default-kernel"
SEEDS = (42, 1, 2, 3)
# At the optimum: maximum evidence, and with a prior on the deviations of the lengthscales alone.
LEARNED = ("iso", "shrunk 0.25", "shrunk 0.5")
# Integrated over the hyperparameters, with the weak priors of the estimators.
INTEGRATED = ("iso", "shrunk 0.25", "shrunk 0.5", "shrunk 1", "additive", "categories")
AVERAGED = ("iso", "shrunk 0.5", "shrunk 1", "additive")
LABELS = 16.0  # a typical variance of the latent function of two classes
_LEVELS = 8  # a column of at most so many values is taken for one of categories, in "categories"


def table1() -> tuple[str, ...]:
    from sitewise_icml2023.suites import suites

    return suites()["table1"].sets


def tasks(seeds, sets, methods) -> list[tuple]:
    """(set, seed, fold, method, kernel, integrated), the small tables first."""
    from sitewise_icml2023.registry import get

    out = []
    for name in sorted(sets, key=lambda name: get(name).rows):
        for seed in seeds:
            for fold in range(5):
                for method in methods:
                    every = seed == SEEDS[0]
                    kernels = [(k, False) for k in (LEARNED if method == "hybrid" else LEARNED[:1])]
                    kernels += [(k, True) for k in (INTEGRATED if every and method == "hybrid" else AVERAGED)]
                    out += [(name, seed, fold, method, *kernel) for kernel in kernels]
    return out


def categories(X: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """0/1 columns for those of three to eight values, at a distance of 1.5 deviations."""
    columns = []
    for x, n in zip(X.T, new.T, strict=True):
        levels = np.unique(np.round(x, 1))
        if not 3 <= len(levels) <= _LEVELS:
            columns.append((x, n))
            continue
        at = [np.argmin(np.abs(v[:, None] - levels), axis=1) for v in (x, n)]
        columns += [tuple(1.5 / np.sqrt(2) * (a == c) for a in at) for c in range(len(levels))]
    return np.column_stack([a for a, _ in columns]), np.column_stack([b for _, b in columns])


def _start(kernel: str, X: np.ndarray):
    """Return the kernel of a name of this study, with its weak priors."""
    from sitewise.estimators import candidates as known
    from sitewise.kernels import Additive, Matern52
    from sitewise.kernels.per_column import with_shrunk

    if kernel in ("iso", "categories"):
        return known.candidates("isotropic", X, LABELS)[0]
    if kernel == "additive":
        return known.Candidate(kernel, Additive.of(X), known._weak_additive(X.shape[1], LABELS))
    made = with_shrunk(Matern52(), X, start=True, spread=float(kernel.split()[1]))
    return known.Candidate(kernel, made, known._weak_shrunk(X, LABELS))


def run(task: tuple) -> dict:
    """One fit."""
    from sitewise import Data, Model, likelihoods
    from sitewise.estimators.training import Approximate
    from sitewise.learning.integration import integrate
    from sitewise.methods import resolve
    from sitewise.predict import posterior
    from sitewise_icml2023 import protocols

    warnings.simplefilter("ignore")
    name, seed, fold, method, kernel, integrated = task
    rows = protocols.fold(name, "clean", seed, fold)
    kept = np.std(rows.X, axis=0) > 1e-9
    X, new = rows.X[:, kept], rows.X_test[:, kept]
    begun = time.process_time()
    if kernel == "categories":
        X, new = categories(X, new)
    start = _start(kernel, X)
    data, model = Data.of(X, rows.y), Model.full(start.kernel, likelihoods.BernoulliProbit())
    out = dict(zip(("set", "seed", "fold", "method", "kernel", "integrated"), task, strict=True))
    try:
        fit = Approximate(resolve(method), "auto" if integrated else None, start.weak).fit(model, data, 0, None)
        out |= {"seconds": time.process_time() - begun, "converged": bool(fit.converged)}
        at = [(1.0, fit.model, fit.sites)]
        if integrated:
            begun = time.process_time()
            found = integrate(fit, "coarse")
            at = [(node.weight, node.model, node.sites) for node in found.nodes if node.weight > 1e-4]
            out |= {key: float(getattr(found, key)) for key in ("log_evidence", "effective", "outside", "failed")}
            out["seconds_integral"] = time.process_time() - begun
        density, probability = [], []
        for weight, here, sites in at:
            q = posterior(here, data, sites)
            density.append(np.log(weight) + np.asarray(q.log_density(new, rows.y_test)))
            probability.append(weight * np.asarray(q.probability(new)))
        out["right"] = (rows.y_test > 0).astype(int).tolist()
        out["probability"] = np.sum(probability, axis=0).round(6).tolist()
        out["density"] = logsumexp(density, axis=0).round(6).tolist()
    except ValueError as problem:
        out["problem"] = str(problem)
    return out


def export(folder: Path) -> None:
    from sitewise_icml2023 import protocols

    folder.mkdir(parents=True, exist_ok=True)
    for name in table1():
        for seed in SEEDS:
            for fold in range(5):
                rows = protocols.fold(name, "clean", seed, fold)
                np.savez(folder / f"{name}.{seed}.{fold}.npz", **rows._asdict())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    parser.add_argument("--sets", nargs="*", default=None)
    parser.add_argument("--methods", nargs="*", default=["hybrid"])
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no fit after so many")
    parser.add_argument("--rows", type=Path, default=ROOT / "rows.jsonl")
    parser.add_argument("--export", type=Path)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.export is not None:
        return export(given.export)
    if given.table:
        import default_kernel_table

        return default_kernel_table.write(given.rows, ROOT)
    known = {
        tuple(row[k] for k in ("set", "seed", "fold", "method", "kernel", "integrated")) for row in stored(given.rows)
    }
    todo = [t for t in tasks(given.seeds, given.sets or table1(), given.methods) if t not in known]
    print(f"{len(todo)} fits to do, {len(known)} done", flush=True)
    add(given.rows, run, todo, given.jobs, given.seconds)


if __name__ == "__main__":
    main()
