"""Compare GPClassifier with scikit-learn's GaussianProcessClassifier and the same kernel: 5-fold log loss, small sets.

    python studies/compare_sklearn.py [--only NAME ...] [--restarts] [--table]

Clean protocol: the `row` column of the published files is dropped and scaling is fitted on the training rows.  Folds
are StratifiedKFold(5, shuffle=True, random_state=0).  Every finished fold is one line of
results/estimators/sklearn.jsonl and is not run again; the table goes to docs/estimators-vs-sklearn.md.  The data folder
is $SITEWISE_DATA, or ../shared/data next to the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
import sklearn
from sklearn.datasets import load_breast_cancer
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sitewise
from sitewise import GPClassifier
from sitewise.kernels import Matern52

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("SITEWISE_DATA") or ROOT.parent / "shared" / "data")
RESULTS = ROOT / "results" / "estimators" / "sklearn.jsonl"
PAGE = ROOT / "docs" / "estimators-vs-sklearn.md"
BREAST_CANCER = "breast cancer (scikit-learn)"
RESTARTED = "scikit-learn, 5 starts"  # only with --restarts, for the sets where its one start runs away
PAIR = ("sitewise", "scikit-learn")
MODELS = {
    "sitewise": lambda: GPClassifier(Matern52()),
    "scikit-learn": lambda: GaussianProcessClassifier(ConstantKernel() * Matern(nu=2.5)),
    RESTARTED: lambda: GaussianProcessClassifier(
        ConstantKernel() * Matern(nu=2.5), n_restarts_optimizer=4, random_state=0
    ),
}


def names() -> list[str]:
    """The 18 sets with published folds, small ones first, after scikit-learn's own."""
    published = json.loads((DATA / "published" / "10seed_result.json").read_text())
    return [BREAST_CANCER, *sorted(published, key=lambda name: len(read(name)[1]))]


def read(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == BREAST_CANCER:
        return load_breast_cancer(return_X_y=True)
    table = np.loadtxt(DATA / "classification" / f"{name}.csv", delimiter=",", skiprows=1)
    return table[:, 1:-1], table[:, -1].astype(int)


def run_fold(name: str, fold: int, method: str) -> dict:
    X, y = read(name)
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[fold]
    model = make_pipeline(StandardScaler(), MODELS[method]())
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X[train], y[train])
    seconds = time.perf_counter() - began
    probability = model.predict_proba(X[test])
    return {
        "set": name, "fold": fold, "method": method, "rows": len(y), "test_rows": len(test),
        "log_loss": float(log_loss(y[test], probability, labels=[0, 1])),
        "accuracy": float(accuracy_score(y[test], model.predict(X[test]))),
        "seconds": round(seconds, 2), "warnings": sorted({w.category.__name__ for w in caught}),
        "kernel": repr(model[-1].kernel_), "sitewise": sitewise.__version__, "scikit_learn": sklearn.__version__,
    }  # fmt: skip


def finished() -> list[dict]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def ran_away(row: dict) -> bool:
    """The lengthscale is a thousand deviations of the inputs or more: the function is constant, nothing was learned."""
    found = re.search(r"length_?scale=(?:array\()?([0-9.e+-]+)", row["kernel"])
    return found is not None and float(found.group(1)) > 1e3


def table(rows: list[dict]) -> str:
    by_set: dict[str, dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_set[row["set"]][row["method"]].append(row)
    complete = {name: m for name, m in by_set.items() if all(len(m[method]) == 5 for method in PAIR)}
    lines = [
        "| set | rows | log loss, GPClassifier | log loss, scikit-learn | better "
        "| accuracy (GPClassifier / scikit-learn) | folds with ℓ > 1000 (GPClassifier / scikit-learn) "
        "| log loss, scikit-learn with 5 starts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    wins = 0
    for name, found in sorted(
        complete.items(), key=lambda item: (item[0] != BREAST_CANCER, item[1]["sitewise"][0]["rows"])
    ):
        loss = {m: np.mean([r["log_loss"] for r in found[m]]) for m in PAIR}
        hit = {m: np.mean([r["accuracy"] for r in found[m]]) for m in PAIR}
        lost = {m: sum(map(ran_away, found[m])) for m in PAIR}
        again = [r["log_loss"] for r in found[RESTARTED]]
        restarted = f"{np.mean(again):.4f}" if len(again) == 5 else ""
        won = loss["sitewise"] <= loss["scikit-learn"]
        if name != BREAST_CANCER:
            wins += won
        lines.append(
            f"| {name} | {found['sitewise'][0]['rows']} | {loss['sitewise']:.4f} | {loss['scikit-learn']:.4f} "
            f"| {'GPClassifier' if won else 'scikit-learn'} | {hit['sitewise']:.3f} / {hit['scikit-learn']:.3f} "
            f"| {lost['sitewise']} / {lost['scikit-learn']} | {restarted} |"
        )
    count = len(complete) - (BREAST_CANCER in complete)
    intro = f"""# GPClassifier compared with scikit-learn's GaussianProcessClassifier

GPClassifier has the lower (or the same) mean log loss on {wins} of {count} data sets, and on scikit-learn's
breast-cancer data. The table is made by `python studies/compare_sklearn.py` from `results/estimators/sklearn.jsonl`.

The numbers are means over five stratified folds, which are the same for both estimators. Inputs are scaled with the
training set of each fold, and the `row` column of the published files is dropped. Both estimators learn one
lengthscale and one variance of a Matérn-5/2 kernel, starting from 1; GPClassifier's default is an average of kernels
instead. GPClassifier uses the probit likelihood and the hybrid of VI sites and EP evidence. scikit-learn uses the
logistic likelihood and the Laplace approximation.

The column *folds with ℓ > 1000* counts folds in which the optimiser failed: the function is constant at such a
lengthscale, and a first step that is too long leads there. For the sets on which this happened to scikit-learn, the
last column shows the best of five starts (`--restarts`).
"""
    return intro + "\n" + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", help="names of sets")
    parser.add_argument("--table", action="store_true", help="only write the table from what is finished")
    parser.add_argument("--restarts", action="store_true", help="scikit-learn with five starts, for the sets in --only")
    options = parser.parse_args()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["set"], r["fold"], r["method"]) for r in finished()}
    for name in [] if options.table else options.only or names():
        for method in (RESTARTED,) if options.restarts else PAIR:
            for fold in range(5):
                if (name, fold, method) in done:
                    continue
                row = run_fold(name, fold, method)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{name} fold {fold} {method}: {row['log_loss']:.4f} ({row['seconds']:.1f} s)", flush=True)
    PAGE.write_text(table(finished()))


if __name__ == "__main__":
    main()
