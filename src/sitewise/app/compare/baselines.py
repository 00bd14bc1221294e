"""Baseline models of scikit-learn, lightly tuned: a linear model and boosted trees.

Baseline models get the same folds and the same inputs as the Gaussian processes.  Their settings are chosen by
cross-validation within the training set of each fold, independent of the order of its rows.  A model that predicts a
number gets a predictive distribution around this number, in order to compare log densities and quantiles:

    real values   Gaussian, or Student's t for a robust likelihood; scale of the residuals of held-out rows
    positive      log-normal: Gaussian for log y
    shares        Beta with the mean 1/(1 + e^−g), g a prediction of log(y/(1 − y)), and a precision by moments
    counts        Poisson, or negative binomial if held-out rows are overdispersed; rates if rows have an exposure
    trials        binomial, from a classification of single trials with weights
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import sklearn
from scipy import special, stats
from threadpoolctl import threadpool_limits

from sitewise.app.compare.scipy_distributions import counts_law, noisy_law, side_law
from sitewise.app.compare.scoring import Score, of_classes, of_law, without_evidence
from sitewise.errors import UserError
from sitewise.estimators.side_information import CENSORING, Side
from sitewise.likelihoods import BY_NAME

LABELS = {"linear": "linear model", "trees": "boosted trees"}
# The classes of scikit-learn, by the kind of target.
MODELS = {
    "linear": {"classes": "LogisticRegression", "counts": "PoissonRegressor", "values": "Ridge"},
    "trees": {
        "classes": "HistGradientBoostingClassifier", "counts": "HistGradientBoostingRegressor(loss='poisson')",
        "values": "HistGradientBoostingRegressor",
    },
}  # fmt: skip
_REGULARIZATION_GRID = (1.0, 0.01, 0.1, 10.0)
_TREES_GRID = {"max_iter": (30, 100), "max_leaf_nodes": (4, 15)}
INNER_FOLDS = 3  # folds within the training set of each outer fold
MIN_DEGREES_OF_FREEDOM = 1.05  # of Student's t; with at most 1 it has no mean


def task_of(likelihood: str, side: Side) -> str | None:
    """Return the task of the baseline models: "classes", "counts" or "values"; None if they cannot fit the target.

    They cannot fit censored targets, amounts with zeros, or angles.
    """
    kind, support = BY_NAME[likelihood], BY_NAME[likelihood].support
    if any(name in side for name in CENSORING) or support == "amounts" or kind.period is not None:
        return None
    if support in ("classes", "ranks") or "trials" in side:
        return "classes"
    return "counts" if support == "counts" else "values"


def score_baseline_model(
    name: str,
    likelihood: str,
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    side: Side,
    side_test: Side,
) -> Score:
    """Tune and fit a baseline model on (X, y) and score its predictions of (X_test, y_test).

    Raises UserError if scikit-learn cannot fit the model to these rows.
    """
    began = time.perf_counter()
    with (
        # On few rows, one thread is faster than several threads that wait for each other.
        threadpool_limits(1),
        warnings.catch_warnings(),
        sklearn.config_context(enable_metadata_routing=False),
    ):
        warnings.simplefilter("ignore")  # a linear model that has not converged is scored as it is
        try:
            if "trials" in side:
                found = of_law(_trials(name, X, y, X_test, side, side_test), True, y_test, side_test)
            elif task_of(likelihood, side) == "classes":
                model = _tuned(name, "classes", X, y)
                found = of_classes(model.predict_proba(X_test), model.classes_, y_test)
            else:
                found = of_law(*_law(name, likelihood, X, y, X_test, side, side_test), y_test, side_test)
        except ValueError as problem:
            raise UserError(f"scikit-learn's {LABELS[name]} cannot be fitted to these rows ({problem}).") from None
    return without_evidence(found, time.perf_counter() - began)


def _folds(y: np.ndarray, classes: bool) -> Any:
    """Return inner folds of shuffled rows; None if a class has a single row and cannot be split."""
    from sklearn.model_selection import KFold, StratifiedKFold

    if not classes:
        return KFold(INNER_FOLDS, shuffle=True, random_state=0)
    most = min(INNER_FOLDS, int(np.min(np.unique(y, return_counts=True)[1])))
    return StratifiedKFold(most, shuffle=True, random_state=0) if most > 1 else None


def _tuned(name: str, task: str, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> Any:
    """Fit a model to these rows, with settings chosen by cross-validation within these rows."""
    from sklearn.model_selection import GridSearchCV

    scoring = {"classes": "neg_log_loss", "counts": "neg_mean_poisson_deviance", "values": "neg_mean_squared_error"}
    model, grid = _model(name, task)
    folds = _folds(y, task == "classes")
    weights = {} if weight is None else {"sample_weight": weight}
    if folds is None:
        return model.fit(X, y, **weights)
    return GridSearchCV(model, grid, scoring=scoring[task], cv=folds).fit(X, y, **weights).best_estimator_


def _model(name: str, task: str) -> tuple[Any, dict[str, Any]]:
    """Return an unfitted model and the grid of settings to choose from."""
    from sklearn import ensemble, linear_model

    if name == "trees":
        if task == "classes":
            return ensemble.HistGradientBoostingClassifier(early_stopping=False), _TREES_GRID
        loss = "poisson" if task == "counts" else "squared_error"
        return ensemble.HistGradientBoostingRegressor(loss=loss, early_stopping=False), _TREES_GRID
    if task == "classes":
        return linear_model.LogisticRegression(max_iter=1000), {"C": _REGULARIZATION_GRID}
    if task == "counts":
        return linear_model.PoissonRegressor(max_iter=1000), {"alpha": (0.0, *_REGULARIZATION_GRID)}
    return linear_model.Ridge(), {"alpha": (0.01, 1.0, 10.0, 100.0)}


def _held_out_predictions(model: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Return cross-validated predictions: each row is predicted by a model that was fitted without it."""
    from sklearn.model_selection import cross_val_predict

    params = None if weight is None else {"sample_weight": weight}
    return cross_val_predict(model, X, y, cv=_folds(y, False), params=params)


def _trials(name: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, side: Side, side_test: Side) -> Any:
    """Return binomial distributions from a classification whose rows are successes and failures, weighted by number."""
    if not 0 < np.sum(y) < np.sum(side["trials"]):
        return side_law(y, side, side_test, "counts")[0]  # all trials have the same outcome
    weight = np.concatenate([y, side["trials"] - y])
    labels = np.concatenate([np.ones(len(y)), np.zeros(len(y))])
    there = weight > 0
    model = _tuned(name, "classes", np.tile(X, (2, 1))[there], labels[there], weight[there])
    share = np.clip(model.predict_proba(X_test)[:, -1], 1e-9, 1 - 1e-9)
    return stats.binom(side_test["trials"], share)


def _law(
    name: str, likelihood: str, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, side: Side, side_test: Side
) -> tuple[Any, bool]:
    """Return the predictive distribution of the test rows, and whether it is discrete."""
    kind = BY_NAME[likelihood]
    if kind.support == "counts":
        e, e_test = (s.get("exposure", np.ones(n)) for s, n in ((side, len(y)), (side_test, len(X_test))))
        model = _tuned(name, "counts", X, y / e, e)
        expected = e * _held_out_predictions(model, X, y / e, e)
        return counts_law(y, expected, e_test * model.predict(X_test)), True
    to = {"positive": np.log, "shares": special.logit}.get(kind.support, lambda values: values)
    g = to(y)
    model = _tuned(name, "values", X, g)
    residual, mean = g - _held_out_predictions(model, X, g), model.predict(X_test)
    spread = max(float(np.sqrt(np.mean(residual**2))), 1e-12)
    if kind.support == "positive":
        return stats.lognorm(spread, scale=np.exp(mean)), False
    if kind.support == "shares":
        m = special.expit(mean)
        fitted = special.expit(g - residual)
        total = np.mean(fitted * (1 - fitted)) / max(float(np.mean((y - fitted) ** 2)), 1e-24) - 1
        return stats.beta(m * max(total, 1e-3), (1 - m) * max(total, 1e-3)), False
    if "noise" in side:
        return noisy_law(residual, side["noise"], mean, side_test), False
    if kind.robust:
        df, _, scale = stats.t.fit(residual, floc=0.0)
        return stats.t(max(df, MIN_DEGREES_OF_FREEDOM), mean, scale), False
    return stats.norm(mean, spread), False
