"""Score the classifier beside untuned and published models on the paper's 27 tables and on 43 small tables.

    python studies/scoreboard.py --paper DIR [--seeds 42 1 2 3] [--jobs N]     results/scoreboard/paper.jsonl
    python studies/scoreboard.py --small DIR [--jobs N]                        results/scoreboard/small.jsonl
    python studies/scoreboard.py [--paper DIR] [--small DIR] --table           results/scoreboard/README.md

DIR holds the classification tables of the paper, or NAME.npz files with published scores (published.json).  A line has
the scores of one fold and the CPU seconds of the fit on one thread, with the compilation that the first fits of a
process need.  All models get the same rows; columns are standardised, texts are 0/1 columns.  CatBoost 1.2.10 has to be
installed for its lines (`--models` leaves it out).  Finished fits are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import StandardScaler

from pooled import Line, add, stored
from scoreboard_table import OUT, write_page
from sitewise import GPClassifier

FOLDS = {"paper": 5, "small": 4}
BINS = 10  # of the reliability curve


def _catboost() -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(verbose=False, thread_count=1, allow_writing_files=False, random_seed=0)


MODELS: dict[str, Callable[[], Any]] = {
    "isotropic": lambda: GPClassifier("isotropic"),
    "shrunk": lambda: GPClassifier("shrunk"),
    "average": lambda: GPClassifier("average"),
    "CatBoost": _catboost,
    "random forest": lambda: RandomForestClassifier(500, random_state=0),
    "logistic": lambda: LogisticRegression(max_iter=2000),
}


class Case(NamedTuple):
    """One fit: the collection of tables, its folder, the table, the seed of the folds, the fold and the model."""

    collection: str
    folder: str
    table: str
    seed: int
    fold: int
    model: str


def rows_of(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y, X_test and y_test of a fold, with labels 0, 1, …"""
    if case.collection == "paper":
        from sitewise_icml2023 import protocols

        X, y, X_test, y_test = protocols.fold(case.table, "clean", case.seed, case.fold, Path(case.folder))
        return X, (y > 0).astype(int), X_test, (y_test > 0).astype(int)
    file = np.load(Path(case.folder) / "data" / f"{case.table}.npz")
    X, y = file["X_onehot"] if "X_onehot" in file else file["X"], file["y"].astype(int)
    test = file["fold"] == case.fold
    scale = StandardScaler().fit(X[~test])
    return scale.transform(X[~test]), y[~test], scale.transform(X[test]), y[test]


def measure(case: Case) -> Line:
    """Fit one model to one fold and score its probabilities."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test = rows_of(case)
    model = MODELS[case.model]()
    begun = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - begun
    known = np.asarray(model.classes_).astype(int)
    p = np.zeros((len(y_test), max(int(y.max()), int(y_test.max())) + 1))
    p[:, known] = model.predict_proba(X_test)
    line = {
        **{key: getattr(case, key) for key in ("table", "seed", "fold", "model")},
        "rows": len(y), "columns": X.shape[1], "classes": p.shape[1], "seconds": round(seconds, 4),
        "converged": bool(getattr(model, "converged_", True)),
        "density": float(np.mean(np.log(np.clip(p[np.arange(len(p)), y_test], 1e-15, 1.0)))),
        "accuracy": float(np.mean(np.argmax(p, axis=1) == y_test)),
        "precision": _average_precision(p, y_test),
    }  # fmt: skip
    return line | (_reliability(p[:, 1], y_test) if p.shape[1] == 2 else {})


def _average_precision(p: np.ndarray, y: np.ndarray) -> float:
    """Return the average precision of class 1, or of every class against the rest weighted by its share."""
    if p.shape[1] == 2:
        return float(average_precision_score(y, p[:, 1]))
    shares = np.mean(y[:, None] == np.arange(p.shape[1]), axis=0)
    return float(sum(s * average_precision_score(y == k, p[:, k]) for k, s in enumerate(shares) if s > 0))


def _reliability(p: np.ndarray, y: np.ndarray) -> Line:
    """Return rows, predicted and observed sums per bin, and the two sums of Spiegelhalter's z."""
    which = np.minimum((p * BINS).astype(int), BINS - 1)
    sums = [np.bincount(which, values, BINS) for values in (np.ones_like(p), p, y)]
    z = [float(np.sum((y - p) * (1 - 2 * p))), float(np.sum((1 - 2 * p) ** 2 * p * (1 - p)))]
    return {"bins": [[round(float(v), 6) for v in one] for one in sums], "z": z}


def cases(collection: str, folder: Path, seeds: list[int], models: list[str]) -> list[Case]:
    """Return all fits of a collection, those of the largest tables last."""
    if collection == "paper":
        from sitewise_icml2023.registry import get
        from sitewise_icml2023.suites import suites

        sizes = sorted((get(name).rows, name) for name in suites()["table1"].sets)
    else:
        known = json.loads((folder / "sets.json").read_text())
        sizes = sorted((facts["n"] * facts["classes"], name) for name, facts in known.items())
        seeds = [0]
    return [
        Case(collection, str(folder.resolve()), name, seed, fold, model)
        for seed in seeds for _, name in sizes for model in models for fold in range(FOLDS[collection])
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paper", type=Path, help="folder with the classification tables of the paper")
    parser.add_argument("--small", type=Path, help="folder with small tables and published scores")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 1, 2, 3])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no fit after this time")
    parser.add_argument("--table", action="store_true", help="only write the page")
    given = parser.parse_args()
    for collection in () if given.table else ("paper", "small"):
        folder = getattr(given, collection)
        if folder is not None:
            lines = OUT / f"{collection}.jsonl"
            done = {(line["table"], line["seed"], line["fold"], line["model"]) for line in stored(lines)}
            todo = [case for case in cases(collection, folder, given.seeds, given.models) if case[2:] not in done]
            add(lines, measure, todo, given.jobs, given.seconds)
    write_page(given.small)


if __name__ == "__main__":
    main()
