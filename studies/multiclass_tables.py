"""Compare joint classes with one class against the rest: the choice of the default, and its confirmation.

    python studies/multiclass_tables.py [FOLDER] [--folds N] [--jobs N] [--seconds S]
    python studies/multiclass_tables.py --table

Without FOLDER the tables are those of `multiclass_sets.py`; the default was chosen on them.  With FOLDER they are
public tables that confirm the choice, and are not stored here: FOLDER holds `data/NAME.npz` with X, y and the test
fold of every row, X_onehot where columns are categories, and `sets.json` with the number of classes.  Of these, all
tables of three to ten classes with at most 5 000 training rows times classes are used.  Columns are standardised on
the training rows; the estimators are `GPClassifier(multi_class=…)` without other arguments.  A line of
results/multiclass/chosen.jsonl or confirmed.jsonl has log loss, accuracy, convergence and CPU seconds of one fold (one
thread, compilation included). Finished folds are not run again.  --table writes results/multiclass/README.md.
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

import multiclass_sets
from pooled import Line, add, stored
from sitewise import GPClassifier

OUT = Path(__file__).resolve().parents[1] / "results" / "multiclass"
CHOSEN, CONFIRMED, PAGE = OUT / "chosen.jsonl", OUT / "confirmed.jsonl", OUT / "README.md"
WAYS = ("joint", "one_vs_rest")
MAX_CELLS, FOLDS = 5_000, 3
LEAST_PROBABILITY = 1e-15

Piece = tuple[str, str, int, str]


def rows_of(folder: str, name: str, fold: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows and labels, test rows and labels; `folder` is empty for the tables of the choice."""
    if not folder:
        return multiclass_sets.split(name, fold)
    data = np.load(Path(folder) / "data" / f"{name}.npz", allow_pickle=False)
    X, y, test = data["X_onehot"] if "X_onehot" in data else data["X"], data["y"], data["fold"] == fold
    centre, spread = X[~test].mean(axis=0), X[~test].std(axis=0)
    X = (X - centre) / np.where(spread > 0, spread, 1.0)
    return X[~test], y[~test], X[test], y[test]


def measure(piece: Piece) -> Line:
    """Fit and score one fold of one table."""
    *place, way = piece
    X, y, X_test, y_test = rows_of(*place)
    model = GPClassifier(multi_class=way)
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    seconds = time.process_time() - begun
    classes = int(max(y.max(), y_test.max())) + 1
    p = np.zeros((len(y_test), classes))
    p[:, model.classes_] = model.predict_proba(X_test)
    mine = np.maximum(p[np.arange(len(p)), y_test], LEAST_PROBABILITY)
    return {
        "set": place[1], "fold": place[2], "way": way, "rows": len(y), "columns": X.shape[1], "classes": classes,
        "log_loss": float(-np.mean(np.log(mine))), "accuracy": float(np.mean(np.argmax(p, axis=1) == y_test)),
        "converged": bool(model.converged_), "seconds": round(seconds, 2),
    }  # fmt: skip


def pieces(folder: Path | None, folds: int) -> list[Piece]:
    """Return all fits, the small tables first."""
    if folder is None:
        return [("", name, fold, way) for fold in range(folds) for name in multiclass_sets.SETS for way in WAYS]
    sets = json.loads((folder / "sets.json").read_text())
    chosen = sorted(
        (one["n"] * one["classes"], name)
        for name, one in sets.items()
        if 3 <= one["classes"] <= 10 and 0.75 * one["n"] * one["classes"] <= MAX_CELLS
    )
    return [(str(folder), name, fold, way) for fold in range(folds) for _, name in chosen for way in WAYS]


def table(lines: list[Line]) -> list[str]:
    """Return the lines of a Markdown table, and a sentence about all tables."""
    by = defaultdict(dict)
    for line in lines:
        by[line["set"]].setdefault(line["way"], {})[line["fold"]] = line
    out = [
        "| table | rows × columns, classes | folds | joint | one against the rest | difference | joint, s | rest, s | "
        "joint converged | rest converged |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    differences, ratios = [], []
    for name, ways in by.items():
        folds = sorted(set.intersection(*(set(ways.get(way, ())) for way in WAYS)))
        if not folds:
            continue
        kept = {way: [ways[way][fold] for fold in folds] for way in WAYS}
        loss = {way: np.mean([line["log_loss"] for line in kept[way]]) for way in WAYS}
        seconds = {way: np.median([line["seconds"] for line in kept[way]]) for way in WAYS}
        settled = {way: sum(line["converged"] for line in kept[way]) for way in WAYS}
        differences.append(loss["joint"] - loss["one_vs_rest"])
        ratios.append(seconds["joint"] / seconds["one_vs_rest"])
        one = kept["joint"][0]
        out.append(
            f"| {name} | {one['rows']} × {one['columns']}, {one['classes']} | {len(folds)} | {loss['joint']:.4f} | "
            f"{loss['one_vs_rest']:.4f} | {differences[-1]:+.4f} | {seconds['joint']:.1f} | "
            f"{seconds['one_vs_rest']:.1f} | {settled['joint']} | {settled['one_vs_rest']} |".replace("-0.", "−0.")
        )
    mean, error = np.mean(differences), np.std(differences, ddof=1) / np.sqrt(len(differences))
    better = int(np.sum(np.array(differences) < 0))
    sentence = (
        f"Mean difference of the log loss {mean:+.4f} ± {error:.4f} over {len(differences)} tables; joint classes have "
        f"the lower loss on {better}. Joint classes take {np.median(ratios):.1f} times the CPU time (median)."
    )
    return [*out, "", sentence.replace("-0.", "−0.")]


def write_page() -> None:
    """Write results/multiclass/README.md."""
    out = [
        "# Joint classes or one class against the rest",
        "",
        "Made by `python studies/multiclass_tables.py`, which describes tables and settings. Log loss per test row, "
        "lower is better; CPU seconds per fit with the compilation (median); fits that converged.",
        "",
        "Comparison with scikit-learn: [scikit-learn](scikit-learn.md). Trials behind the likelihood and the learning "
        "objective: [trials](trials.md).",
    ]
    for title, path in (("Tables of the choice", CHOSEN), ("Tables of the confirmation", CONFIRMED)):
        lines = stored(path)
        if lines:
            out += ["", f"## {title}", "", *table(lines)]
    PAGE.write_text("\n".join(out) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="start no fit after this time")
    parser.add_argument("--table", action="store_true", help="only write the page")
    given = parser.parse_args()
    if not given.table:
        path = CHOSEN if given.folder is None else CONFIRMED
        done = {(line["set"], line["fold"], line["way"]) for line in stored(path)}
        todo = [piece for piece in pieces(given.folder, given.folds) if piece[1:] not in done]
        add(path, measure, todo, given.jobs, given.seconds)
    write_page()


if __name__ == "__main__":
    main()
