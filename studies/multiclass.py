"""Compare joint classes with one class against the rest and with scikit-learn's GaussianProcessClassifier.

    python studies/multiclass.py [--sets NAME ...] [--methods NAME ...] [--folds N ...] [--table]

The data sets are scikit-learn's.  Folds are StratifiedKFold(5, shuffle=True, random_state=0), scaling is fitted on the
training rows, and every model starts from the same kernel, Matern 5/2 of variance 1 with lengthscale √(number of
columns).  "own" and "shared" say whether joint classes have one kernel each or one for all; "vi/ep" learns from EP's
evidence on VI's sites, "hybrid" by power EP (before version 0.3.0: from Laplace's evidence).  "digits-150" trains on
150 random rows of each training fold of digits and has the same test set as "digits".  Sets called "again" have other
folds (random_state=1) and other rows: the hybrid's objective was chosen with the first folds in view (decision 008),
but not with these.  Every finished fold is one line of results/multiclass/results.jsonl and is not run again; --table
writes results/multiclass/scikit-learn.md, with the version of sitewise.  Seconds are CPU seconds of one BLAS thread
without compilation (`compile_seconds` has the compilation, measured by fitting the same rows twice; on digits it is
included), or, on a GPU, wall-clock seconds.  All of digits needs a GPU or much time: one conditioning of its 1 437
rows and ten classes takes nine seconds.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path

import jax
import numpy as np
import sklearn
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import sitewise
from sitewise import GPClassifier, Method, kernels

RESULTS = Path(__file__).resolve().parents[1] / "results" / "multiclass"
ROWS = RESULTS / "results.jsonl"
SETS = {"iris": load_iris, "wine": load_wine, "digits-150": load_digits, "digits": load_digits}
SETS |= {f"{name} again": SETS[name] for name in ("iris", "wine", "digits-150")}
METHODS = (
    "joint hybrid shared", "joint hybrid own", "joint vi/ep shared", "joint vi/ep own", "joint vi shared",
    "joint laplace shared", "one-vs-rest hybrid", "scikit-learn",
)  # fmt: skip
REFERENCE = "joint hybrid shared"  # the estimator's default, beside which the table puts the others


def model_of(method: str, columns: int):
    length = np.sqrt(columns)
    if method == "scikit-learn":
        return GaussianProcessClassifier(ConstantKernel() * Matern(length_scale=length, nu=2.5), random_state=0)
    way, name, *own = method.split()
    joint = {"multi_class": "joint", "class_kernels": own[0]} if way == "joint" else {"multi_class": "one_vs_rest"}
    # "vi/ep": VI's sites and EP's evidence on them, as in the hybrid of one latent function
    method = Method("hybrid", inference="vi", evidence="ep") if name == "vi/ep" else Method(name)
    return GPClassifier(kernels.Matern52(length), method=method, **joint)


def rows_of(name: str, fold: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = SETS[name](return_X_y=True)
    split = int(name.endswith("again"))
    train, test = list(StratifiedKFold(5, shuffle=True, random_state=split).split(X, y))[fold]
    if name.startswith("digits-150"):
        train = np.random.default_rng(fold + 100 * split).permutation(train)[:150]
    scale = StandardScaler().fit(X[train])
    return scale.transform(X[train]), y[train], scale.transform(X[test]), y[test]


def run_fold(name: str, fold: int, method: str, warm: bool) -> dict:
    X, y, X_test, y_test = rows_of(name, fold)
    gpu = jax.default_backend() == "gpu" and method != "scikit-learn"
    clock = time.perf_counter if gpu else time.process_time
    spent = []
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        for _ in range(1 if warm else 2):  # the first fit of a shape compiles
            began = clock()
            model = model_of(method, X.shape[1]).fit(X, y)
            spent.append(clock() - began)
        model.predict_proba(X_test)  # compiles
        began = clock()
        probability = model.predict_proba(X_test)
        predicting = clock() - began
    return {
        "set": name, "fold": fold, "method": method, "rows": len(y), "test_rows": len(y_test),
        "log_loss": float(log_loss(y_test, probability)),
        "accuracy": float(accuracy_score(y_test, model.predict(X_test))), "seconds": round(spent[-1], 2),
        "compile_seconds": None if warm else round(spent[0] - spent[-1], 2),
        "predict_seconds": round(predicting, 2), "clock": "gpu" if gpu else "cpu",
        "warnings": sorted({str(w.message)[:160] for w in caught}), "kernel": repr(model.kernel_),
        "sitewise": sitewise.__version__, "scikit_learn": sklearn.__version__, "jax": jax.__version__,
    }  # fmt: skip


def finished(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(rows: list[dict]) -> str:
    groups: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for row in rows:
        groups[row["set"], row["method"]].append(row)
    lines = [
        "| set | method | version | folds | log loss | accuracy | seconds per fit | "
        f"{REFERENCE} has the lower log loss in |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in SETS:
        ours = {r["fold"]: r["log_loss"] for r in groups[name, REFERENCE]}
        for method in METHODS:
            found = groups[name, method]
            if not found:
                continue
            both = [r for r in found if r["fold"] in ours]
            wins = sum(ours[r["fold"]] < r["log_loss"] for r in both)
            loss, hit, spent = (np.mean([r[k] for r in found]) for k in ("log_loss", "accuracy", "seconds"))
            version = found[0]["scikit_learn" if method == "scikit-learn" else "sitewise"]
            clock = " (GPU)" if found[0]["clock"] == "gpu" else ""
            lines.append(
                f"| {name} | {method} | {version} | {len(found)} | {loss:.4f} | {hit:.4f} | {spent:.1f}{clock} "
                f"| {'–' if method == REFERENCE else f'{wins} of {len(both)}'} |"
            )
    return "\n".join(lines)


def run(sets: list[str], methods: list[str], folds: list[int], out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    for name in sets:
        for method in methods:
            done = {(r["set"], r["fold"], r["method"]) for r in finished(out)}
            # scikit-learn compiles nothing, and compiling is short beside a fit of digits
            warm = method == "scikit-learn" or name.startswith("digits")
            for fold in folds:
                if (name, fold, method) in done:
                    continue
                row = run_fold(name, fold, method, warm)
                warm = True
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(f"{name} {fold} {method}: log loss {row['log_loss']:.4f}, {row['seconds']} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=["iris", "wine", "digits-150"], choices=list(SETS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--folds", nargs="*", type=int, default=list(range(5)))
    parser.add_argument("--out", type=Path, default=ROWS)
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    if not options.table:
        run(options.sets, options.methods, options.folds, options.out)
        return
    title = "Joint classes compared with one class against the rest and scikit-learn"
    (RESULTS / "scikit-learn.md").write_text(f"# {title}\n\n{str(__doc__).strip()}\n\n{table(finished(ROWS))}\n")


if __name__ == "__main__":
    main()
