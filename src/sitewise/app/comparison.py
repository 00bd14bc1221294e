"""Comparison of methods: cross-validated scores, paired tests, and one recommendation in words.

A *score* is the result of one method on one fold, as plain numbers and lists, so that it can be kept in a file;
`summary` turns all scores into a table, tests and words.

Paired test: the difference of two methods' mean log densities has one value per fold, d_1 … d_J.  The folds share
training rows, so their variance s²/J is too small; the corrected t statistic of Nadeau & Bengio (2003),

    t = mean(d) / √((1/J + n_test/n_train) s²),    J − 1 degrees of freedom,

corrects for that.  With r repeats of k folds J = r k and n_test/n_train = 1/(k − 1).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

from sitewise import metrics
from sitewise.app.side_baseline import side_baseline
from sitewise.estimators.base import GPBase
from sitewise.estimators.side_information import Side, censored, within_bounds
from sitewise.likelihoods import BY_NAME
from sitewise.methods import METHODS

BASELINE = "baseline"
LABELS = {name: method.label for name, method in METHODS.items()} | {BASELINE: "baseline (ignores the inputs)"}
_LEVELS = np.linspace(0.05, 0.95, 19)
_SURE = 0.05


def own_evidence(model: GPBase) -> float | None:
    """The evidence that the model learned from, in nats.

    None for mcmc, which has none, and for the hybrid of joint classes, whose sites are not those it learned from.
    """
    structure = model.models_[0][0].prior.structure
    name = METHODS[model.method].objective_on(structure)
    return None if name is None else model.evidence_[name]


def split(y: np.ndarray, folds: int, seed: int, classes: bool, repeats: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training rows, test rows) of every fold of every repeat; each class is spread evenly over the folds."""
    if folds < 2 or folds > len(y):
        raise ValueError(f"There must be at least 2 folds and at most one per row ({len(y)}), got {folds}.")
    if classes:
        names, counts = np.unique(y, return_counts=True)
        if counts.min() < folds:
            raise ValueError(
                f"Class {str(names[counts.argmin()])!r} has {counts.min()} rows, fewer than the {folds} folds; use "
                "fewer folds, or leave that class out."
            )
    kind = StratifiedKFold if classes else KFold
    return [
        part
        for repeat in range(repeats)
        for part in kind(folds, shuffle=True, random_state=seed + repeat).split(np.zeros(len(y)), y)
    ]


def score(
    model: GPBase,
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    side: Side | None = None,
    side_test: Side | None = None,
) -> dict[str, Any]:
    """Fit on (X, y) and predict (X_test, y_test): plain numbers and lists, one entry per test row."""
    side, side_test = side or {}, side_test or {}
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `converged` reports it
        model.fit(X, y, **side)
    seconds = time.perf_counter() - began
    kernels = model.kernel_ if isinstance(model.kernel_, list) else [model.kernel_]
    own = own_evidence(model)
    found = {
        "log_density": model.log_predictive_density(X_test, y_test, **side_test).tolist(),
        "evidence": None if own is None else own / len(X),
        "seconds": seconds,
        "converged": bool(model.converged_),
        "lengthscale": [np.atleast_1d(k.lengthscale).tolist() for k in kernels],
        "magnitude": [float(np.sqrt(k.variance)) for k in kernels],
    }
    if hasattr(model, "classes_"):
        return {**found, **_class_predictions(model.predict_proba(X_test), model.classes_, y_test)}
    known = {name: column for name, column in side_test.items() if name not in ("lower", "upper")}
    upper = model.predict_cdf(X_test, y_test, **known)
    lower = model.predict_cdf(X_test, y_test - 1, **known) * (y_test > 0) if model.likelihood_.discrete() else upper
    below, above = censored(y_test, side_test)
    lower, upper = np.where(below, 0.0, lower), np.where(above, 1.0, upper)
    mean = within_bounds(model.predict(X_test, **known), side_test)
    return {**found, "prediction": mean.tolist(), "below": lower.tolist(), "up_to": upper.tolist()}


def _class_predictions(proba: np.ndarray, classes: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """With two classes the probability of the second; with more, that of the predicted class being right."""
    best = np.argmax(proba, axis=1)
    right = classes[best] == y
    two = len(classes) == 2
    return {
        "prediction": [str(c) for c in classes[best]],
        "probability": (proba[:, 1] if two else proba.max(axis=1)).tolist(),
        "hit": (y == classes[1] if two else right).tolist(),
        "right": right.tolist(),
    }


def baseline(
    likelihood: str, y: np.ndarray, y_test: np.ndarray, side: Side | None = None, side_test: Side | None = None
) -> dict[str, Any]:
    """The score of predictions from the training targets alone: class shares, or one distribution for all rows."""
    nothing: dict[str, Any] = {"evidence": None, "seconds": 0.0, "converged": True, "lengthscale": [], "magnitude": []}
    kind = BY_NAME[likelihood]
    if kind.support in ("classes", "ranks"):
        classes, counts = np.unique(y, return_counts=True)
        share = counts / counts.sum()
        proba = np.tile(share, (len(y_test), 1))
        place = np.minimum(np.searchsorted(classes, y_test), len(classes) - 1)
        with np.errstate(divide="ignore"):
            density = np.log(np.where(classes[place] == y_test, share[place], 0.0))
        return {**nothing, "log_density": density.tolist(), **_class_predictions(proba, classes, y_test)}
    if side:
        return {**nothing, **side_baseline(y, y_test, side, side_test or {})}
    fixed, whole = kind.baseline(np.asarray(y, float)), kind.discrete()
    found = {
        "log_density": fixed.logpmf(y_test) if whole else fixed.logpdf(y_test), "up_to": fixed.cdf(y_test),
        "below": fixed.cdf(y_test - 1) if whole else fixed.cdf(y_test), "prediction": np.full(len(y_test), np.mean(y)),
    }  # fmt: skip
    return {**nothing, **{k: v.tolist() for k, v in found.items()}}


def reliability(scores: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Classes: observed share per bin of predicted probability.  Values: share of rows below each predicted level.

    For counts, whose distribution function jumps, a row counts in part (Czado, Gneiting & Held 2009).
    """
    if "probability" in scores[0]:
        curve = metrics.reliability(_joined(scores, "probability"), _joined(scores, "hit"))
        return {k: v.tolist() for k, v in curve.items()}
    low, high = _joined(scores, "below"), _joined(scores, "up_to")
    wide = np.maximum(high - low, 1e-12)
    observed = [float(np.mean(np.clip((p - low) / wide, 0, 1) if np.any(high > low) else high <= p)) for p in _LEVELS]
    return {"predicted": _LEVELS.tolist(), "observed": observed, "count": [len(low)] * len(_LEVELS)}


def _calibration_error(curve: Mapping[str, list[float]]) -> float:
    gap = np.abs(np.subtract(curve["observed"], curve["predicted"]))
    return float(np.average(gap, weights=curve["count"]))


def _joined(scores: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    return np.concatenate([np.asarray(s[name]) for s in scores])


def corrected_t_test(differences: np.ndarray, folds: int) -> float:
    """Two-sided p-value of the mean of the differences, one for each fold of each repeat; see the head of this file."""
    d = np.asarray(differences, float)
    spread = float(np.var(d, ddof=1))
    if spread == 0:
        return 1.0 if np.all(d == 0) else 0.0
    t = float(np.mean(d)) / np.sqrt((1 / len(d) + 1 / (folds - 1)) * spread)
    return float(2 * stats.t.sf(abs(t), len(d) - 1))


def summary(
    scores: Mapping[str, Sequence[Mapping[str, Any]]],
    y: np.ndarray,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    folds: int,
) -> dict[str, Any]:
    """`scores[method][part]` as tables, curves, tests and words, all of them plain data.

    The parts are those of `split`: this number of folds, perhaps repeated.
    """
    tests = [test for _, test in parts]
    means = {name: np.array([np.mean(s["log_density"]) for s in found]) for name, found in scores.items()}
    methods = [name for name in scores if name != BASELINE]
    best = max(methods, key=lambda name: float(np.mean(_joined(scores[name], "log_density"))))
    rows, curves = [], {}
    for name, found in scores.items():
        curves[name] = reliability(found)
        row = {
            "name": name,
            "label": LABELS[name],
            "log_density": float(np.mean(_joined(found, "log_density"))),
            "calibration_error": _calibration_error(curves[name]),
            "evidence_per_row": None if _lacks_evidence(found) else float(np.mean([s["evidence"] for s in found])),
            "seconds": float(np.median([s["seconds"] for s in found])),
            "converged": int(sum(s["converged"] for s in found)),
            "difference_to_best": float(np.mean(means[name] - means[best])),
            "folds_lost": int(np.sum(means[name] < means[best])),
            "p_value": None if name == best else corrected_t_test(means[name] - means[best], folds),
            "lengthscale": _typical([s["lengthscale"] for s in found]),
            "magnitude": _typical([s["magnitude"] for s in found]),
        }
        if "right" in found[0]:
            row["accuracy"] = float(np.mean(_joined(found, "right")))
        else:
            errors = _joined(found, "prediction") - y[np.concatenate(tests)]
            row["rmse"] = float(np.sqrt(np.mean(errors**2)))
        rows.append(row)
    return {
        "methods": rows,
        "best": best,
        "reliability": curves,
        "outliers": _outliers(scores[best], y, tests),
        "recommendation": recommend(rows, best, len(parts)),
    }


def _lacks_evidence(found: Sequence[Mapping[str, Any]]) -> bool:
    return any(s["evidence"] is None for s in found)


def _typical(values: list[list[Any]]) -> list[Any] | None:
    """Median over the folds, entry by entry."""
    return np.median(np.array(values), axis=0).tolist() if values[0] else None


def _outliers(
    found: Sequence[Mapping[str, Any]], y: np.ndarray, tests: list[np.ndarray], most: int = 10
) -> list[dict[str, Any]]:
    """The rows that the best method considered least likely."""
    index = np.concatenate(tests)
    density, prediction = _joined(found, "log_density"), _joined(found, "prediction")
    order = np.argsort(density)
    once = np.sort(np.unique(index[order], return_index=True)[1])  # a row once, however often it was left out
    chosen = order[once][:most]
    return [
        {
            "index": int(index[i]), "target": _plain(y[index[i]]), "prediction": _plain(prediction[i]),
            "log_density": float(density[i]),
        }
        for i in chosen
    ]  # fmt: skip


def _plain(value: Any) -> float | str:
    return float(value) if isinstance(value, np.floating | np.integer) else str(value)


def recommend(rows: Sequence[Mapping[str, Any]], best: str, folds: int) -> str:
    """Which method to use, and how certain that is."""
    by_name = {row["name"]: row for row in rows}
    top = by_name[best]
    rivals = [row for row in rows if row["name"] not in (best, BASELINE)]
    behind = [row for row in rivals if row["p_value"] < _SURE]
    level = [row for row in rivals if row["p_value"] >= _SURE]
    base = by_name.get(BASELINE)
    if base is not None and base["folds_lost"] < folds and not (base["name"] != best and base["p_value"] < _SURE):
        return (
            "None of the methods predicts better than ignoring the inputs does, in every fold or significantly "
            f"({base['log_density']:.4f} against {top['log_density']:.4f} nats a row for {top['label']}): check that "
            "the columns say something about the target before choosing a method."
        )
    words = [
        f"Use {top['label']} (--method {best}): it has the highest log density, {top['log_density']:.4f} nats a row."
    ]
    if behind:
        listed = ", ".join(
            f"{row['label']} (by {-row['difference_to_best']:.4f}, p = {row['p_value']:.2g})" for row in behind
        )
        words.append(f"It is better than {listed}.")
    if level:
        words.append(f"{folds} folds show no significant difference from {', '.join(row['label'] for row in level)}.")
        quick = min(level, key=lambda row: row["seconds"])
        if 2 * quick["seconds"] < top["seconds"]:
            words.append(f"{quick['label']} is {top['seconds'] / quick['seconds']:.1f} times faster.")
    if top["converged"] < folds:
        words.append(f"It converged in {top['converged']} of {folds} folds only: look at the fit report.")
    return " ".join(words)
