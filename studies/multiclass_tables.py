"""Compare joint classes with one class against the rest on public tables of several classes.

    python studies/multiclass_tables.py FOLDER [--folds N] [--jobs N] [--seconds S]
    python studies/multiclass_tables.py --table

FOLDER holds `data/NAME.npz` with X, y and the test fold of every row, X_onehot where columns are categories, and
`sets.json` with the number of classes (the tables are not stored here).  Tables of three to nine classes for which
joint classes are affordable: at most 3 000 training rows times classes.  Columns are standardised on the training
rows; the estimators are `GPClassifier(multi_class=…)` without other arguments.  A line of
results/multiclass/tables.jsonl has log loss, accuracy, convergence and CPU seconds of one fold (one thread,
compilation included); finished folds are not run again.  The tables confirm a choice that was made on others
(results/multiclass/trials.md).
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections import defaultdict
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

from pooled import Line, add, stored
from sitewise import GPClassifier

OUT = Path(__file__).resolve().parents[1] / "results" / "multiclass"
PATH, PAGE = OUT / "tables.jsonl", OUT / "tables.md"
WAYS = ("joint", "one_vs_rest")
MAX_CELLS, FOLDS = 3_000, 4
LEAST_PROBABILITY = 1e-15


def measure(piece: tuple[str, str, int, str]) -> Line:
    """Fit and score one fold of one table."""
    folder, name, fold, way = piece
    data = np.load(Path(folder) / "data" / f"{name}.npz", allow_pickle=False)
    X, y, test = data["X_onehot"] if "X_onehot" in data else data["X"], data["y"], data["fold"] == fold
    centre, spread = X[~test].mean(axis=0), X[~test].std(axis=0)
    X = (X - centre) / np.where(spread > 0, spread, 1.0)
    model = GPClassifier(multi_class=way)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[~test], y[~test])
    seconds = time.process_time() - begun
    p = np.zeros((int(test.sum()), int(y.max()) + 1))
    p[:, model.classes_] = model.predict_proba(X[test])
    mine = np.maximum(p[np.arange(len(p)), y[test]], LEAST_PROBABILITY)
    return {
        "set": name, "fold": fold, "way": way, "rows": int(np.sum(~test)), "columns": X.shape[1],
        "classes": int(y.max()) + 1, "log_loss": float(-np.mean(np.log(mine))),
        "accuracy": float(np.mean(np.argmax(p, axis=1) == y[test])), "converged": bool(model.converged_),
        "seconds": round(seconds, 2),
    }  # fmt: skip


def pieces(folder: Path, folds: int) -> list[tuple[str, str, int, str]]:
    """Return all fits, the small tables first."""
    sets = json.loads((folder / "sets.json").read_text())
    chosen = sorted(
        (one["n"] * one["classes"], name)
        for name, one in sets.items()
        if 3 <= one["classes"] <= 9 and 0.75 * one["n"] * one["classes"] <= MAX_CELLS
    )
    return [(str(folder), name, fold, way) for fold in range(folds) for _, name in chosen for way in WAYS]


def write_page() -> None:
    """Write results/multiclass/tables.md."""
    by = defaultdict(dict)
    for line in stored(PATH):
        by[line["set"], line["rows"], line["columns"], line["classes"]].setdefault(line["way"], []).append(line)
    whole = {key: ways for key, ways in by.items() if len(ways) == len(WAYS)}
    out = [
        "# Joint classes and one class against the rest on public tables", "",
        "Made by `python studies/multiclass_tables.py`, which describes tables and settings, from `tables.jsonl`. Log "
        "loss per test row, lower is better; CPU seconds per fit, median; fits that converged.", "",
        "| table | rows × columns, classes | folds | joint | one against the rest | difference | joint, s | rest, s | "
        "joint converged | rest converged |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    differences = []
    for (name, rows, columns, classes), ways in sorted(whole.items()):
        folds = sorted(set.intersection(*({line["fold"] for line in ways[way]} for way in WAYS)))
        kept = {way: [line for line in ways[way] if line["fold"] in folds] for way in WAYS}
        loss = {way: np.mean([line["log_loss"] for line in kept[way]]) for way in WAYS}
        seconds = {way: np.median([line["seconds"] for line in kept[way]]) for way in WAYS}
        settled = {way: sum(line["converged"] for line in kept[way]) for way in WAYS}
        differences.append(loss["joint"] - loss["one_vs_rest"])
        out.append(
            f"| {name} | {rows} × {columns}, {classes} | {len(folds)} | {loss['joint']:.4f} | "
            f"{loss['one_vs_rest']:.4f} | {differences[-1]:+.4f} | {seconds['joint']:.1f} | "
            f"{seconds['one_vs_rest']:.1f} | {settled['joint']} | {settled['one_vs_rest']} |".replace("-0.", "−0.")
        )
    mean, error = np.mean(differences), np.std(differences) / np.sqrt(len(differences))
    better = int(np.sum(np.array(differences) < 0))
    out += [
        "",
        f"Mean difference {mean:+.4f} ± {error:.4f} over {len(differences)} tables; joint is better on {better}.",
    ]
    PAGE.write_text("\n".join(out) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no fit after this time")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.folder is not None:
        done = {(line["set"], line["fold"], line["way"]) for line in stored(PATH)}
        todo = [piece for piece in pieces(given.folder, given.folds) if piece[1:] not in done]
        add(PATH, measure, todo, given.jobs, given.seconds)
    write_page()


if __name__ == "__main__":
    main()
