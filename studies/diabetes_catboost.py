"""One real table, from prediction to decision: GPRegressor, CatBoost and a linear model on the diabetes data.

    PYTHON studies/diabetes_catboost.py            # continues results/diabetes/folds.jsonl
    python studies/diabetes_catboost.py --table    # prints the tables of results/diabetes/README.md

PYTHON is an environment with sitewise and catboost 1.2.10.  The data are scikit-learn's: 442 patients, 10 columns; y is
the progression of the disease after one year.  Five-fold cross-validation; all models have their defaults and one
thread.  The decision: a patient whose y exceeds 200 progresses fast.  Follow-up costs 1 per patient, and a fast patient
without follow-up costs 4, so that follow-up pays from a probability of 1/4 on.

CatBoost's regressors: "RMSE" has a Gaussian error of constant standard deviation, from a five-fold cross-validation
within the training set; "RMSEWithUncertainty" predicts a variance per row.  The classifier predicts y > 200 only.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

OUT = Path(__file__).resolve().parents[1] / "results" / "diabetes"
FAST = 200
FOLLOW_UP, MISSED = 1.0, 4.0

Scores = dict[str, float]


def scores(mean: np.ndarray, y: np.ndarray, density: np.ndarray, p_fast: np.ndarray, inside: np.ndarray) -> Scores:
    return {"rmse": float(np.sqrt(np.mean((y - mean) ** 2))), "log_density": float(np.mean(density)),
            "inside_90": float(np.mean(inside)), **decision(p_fast, y)}  # fmt: skip


def decision(p_fast: np.ndarray, y: np.ndarray) -> Scores:
    """Follow up where the expected cost is lower; the log loss of y > FAST and the cost per 100 patients."""
    fast, follow = y > FAST, p_fast > FOLLOW_UP / MISSED
    p = np.clip(p_fast, 1e-15, 1 - 1e-15)
    cost = np.where(follow, FOLLOW_UP, np.where(fast, MISSED, 0.0))
    return {"log_loss": -float(np.mean(np.log(np.where(fast, p, 1 - p)))), "cost": 100 * float(np.mean(cost))}


def gaussian(mean: np.ndarray, sd: np.ndarray, y: np.ndarray) -> Scores:
    inside = np.abs(y - mean) < norm.ppf(0.95) * sd
    return scores(mean, y, norm.logpdf(y, mean, sd), norm.sf(FAST, mean, sd), inside)


def gp(kernel: str | None) -> Callable[..., Scores]:
    def fit(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Scores:
        from sitewise import GPRegressor

        model = make_pipeline(StandardScaler(), GPRegressor(kernel, random_state=0)).fit(X, y)
        new, regressor = model[:-1].transform(X_test), model[-1]
        low, high = regressor.predict_interval(new, 0.9)
        density = regressor.log_predictive_density(new, y_test)
        p_fast = 1 - regressor.predict_cdf(new, FAST)
        return scores(regressor.predict(new), y_test, density, p_fast, (low < y_test) & (y_test < high))

    return fit


def linear(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Scores:
    model = make_pipeline(StandardScaler(), BayesianRidge()).fit(X, y)
    return gaussian(*model.predict(X_test, return_std=True), y_test)


def catboost(**settings: Any) -> dict[str, Any]:
    return {"verbose": False, "thread_count": 1, "allow_writing_files": False, "random_seed": 0, **settings}


def trees(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Scores:
    from catboost import CatBoostRegressor

    held_out = cross_val_predict(CatBoostRegressor(**catboost()), X, y, cv=KFold(5, shuffle=True, random_state=0))
    mean = CatBoostRegressor(**catboost()).fit(X, y).predict(X_test)
    return gaussian(mean, np.full(len(mean), np.sqrt(np.mean((y - held_out) ** 2))), y_test)


def trees_with_variance(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Scores:
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(**catboost(loss_function="RMSEWithUncertainty")).fit(X, y)
    mean, variance = model.predict(X_test).T
    return gaussian(mean, np.sqrt(variance), y_test)


def tree_classifier(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Scores:
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(**catboost()).fit(X, y > FAST)
    return decision(model.predict_proba(X_test)[:, 1], y_test)


def nobody_knows(X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray) -> Scores:
    return gaussian(np.full(len(y_test), y.mean()), np.full(len(y_test), y.std()), y_test)


MODELS: dict[str, Callable[..., Scores]] = {
    "`GPRegressor()`": gp(None), '`GPRegressor("shrunk")`': gp("shrunk"), "linear (BayesianRidge)": linear,
    "CatBoost, RMSE": trees, "CatBoost, RMSEWithUncertainty": trees_with_variance,
    "CatBoost, classifier": tree_classifier, "no columns": nobody_knows,
}  # fmt: skip


def run() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "folds.jsonl"
    done = {(r["model"], r["fold"]) for r in read()}
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    X, y = X.to_numpy(), y.to_numpy()
    warnings.simplefilter("ignore")
    for k, (train, test) in enumerate(KFold(5, shuffle=True, random_state=0).split(X)):
        for name, compute in MODELS.items():
            if (name, k) in done:
                continue
            start = time.process_time()
            found = compute(X[train], y[train], X[test], y[test])
            found["cpu_seconds"] = time.process_time() - start
            row = {"model": name, "fold": k, **{key: round(value, 5) for key, value in found.items()}}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def read() -> list[dict[str, Any]]:
    path = OUT / "folds.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table() -> str:
    lines = ["| model | RMSE | log density | in 90 % interval | log loss of y > 200 | cost per 100 patients | CPU s |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    rows = read()
    for name in MODELS:
        of = [r for r in rows if r["model"] == name]
        mean = lambda key: float(np.mean([r[key] for r in of])) if key in of[0] else np.nan  # noqa: B023, E731
        cells = [f"{mean('rmse'):.1f}", f"{mean('log_density'):.3f}", f"{100 * mean('inside_90'):.0f} %",
                 f"{mean('log_loss'):.3f}", f"{mean('cost'):.1f}", f"{mean('cpu_seconds'):.1f}"]  # fmt: skip
        lines.append(f"| {name} | " + " | ".join("–" if "nan" in cell else cell for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def differences(against: str = "`GPRegressor()`") -> str:
    """Paired differences of the folds, with standard errors."""
    rows = read()
    by = {name: {r["fold"]: r for r in rows if r["model"] == name} for name in MODELS}
    lines = [f"| minus {against} | log density | log loss of y > 200 | cost per 100 patients |", "|---|---|---|---|"]
    for name in MODELS:
        if name == against:
            continue
        cells = []
        for key in ("log_density", "log_loss", "cost"):
            gaps = [by[name][f][key] - by[against][f][key] for f in by[against] if key in by[name][f]]
            spread = np.std(gaps, ddof=1) / np.sqrt(len(gaps)) if gaps else np.nan
            cells.append(f"{np.mean(gaps):+.3f} ± {spread:.3f}" if gaps else "–")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    if asked.table:
        print(f"{table()}\n{differences()}")
    else:
        run()
