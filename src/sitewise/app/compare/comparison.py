"""Comparison of models by cross-validation: folds, corrected paired t-test, score tables and calibration curves.

Paired test: the difference of two models' mean log densities has one value per fold, d_1 … d_J.  The folds share
training rows, which makes the variance s²/J too small; the corrected t statistic of Nadeau & Bengio (2003) is

    t = mean(d) / √((1/J + n_test/n_train) s²),    J − 1 degrees of freedom.

With r repeats of k folds, J = r k and n_test/n_train = 1/(k − 1).

A difference matters if it is at least `MIN_DIFFERENCE` and p is below `SIGNIFICANCE_LEVEL`.  Models without a
difference that matters are tied, and of tied Gaussian processes the default is recommended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from sitewise import metrics
from sitewise.app.compare import baselines
from sitewise.app.compare.scoring import Score
from sitewise.methods import DEFAULT, METHODS

NO_INPUTS = "baseline"  # the prediction that ignores the inputs
MIN_DIFFERENCE = 0.01  # nats per row: smaller differences of the log density do not matter
SIGNIFICANCE_LEVEL = 0.05
LABELS = {
    **{name: method.label for name, method in METHODS.items()},
    DEFAULT: f"default GP ({DEFAULT})",
    **baselines.LABELS,
    NO_INPUTS: "inputs ignored",
}
_QUANTILE_LEVELS = np.linspace(0.05, 0.95, 19)
INTERVAL_LEVEL = 0.9  # of the intervals whose coverage is reported
CALIBRATION_BINS = 8
MAX_OUTLIER_PROBABILITY = 0.2  # rows with a higher probability of their target are no outliers
MAX_GAIN_NATS = 50.0  # per row; the log density of a class that is absent from the training set is −∞
Found = Sequence[Mapping[str, Any]]


def split(
    y: np.ndarray, folds: int, seed: int, classes: bool, repeats: int = 1, groups: np.ndarray | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (training rows, test rows) per fold and repeat; folds are stratified by class.

    Rows of the same group stay together: all groups in the test set of a fold are new to the model.
    """
    if groups is not None and len(np.unique(groups)) < folds:
        raise ValueError(
            f"There are {len(np.unique(groups))} groups, fewer than the {folds} folds; use fewer folds, at least 2."
        )
    if folds < 2 or folds > len(y):
        raise ValueError(f"There must be at least 2 folds and at most one per row ({len(y)}), got {folds}.")
    if classes:
        names, counts = np.unique(y, return_counts=True)
        if counts.min() < folds:
            raise ValueError(
                f"Class {str(names[counts.argmin()])!r} has {counts.min()} row{'s' if counts.min() > 1 else ''}, fewer "
                f"than the {folds} folds; use fewer folds, at least 2, or remove this class from the table."
            )
    kind: Any = StratifiedKFold if classes else KFold
    if groups is not None:
        kind = StratifiedGroupKFold if classes else GroupKFold
    return [
        part
        for repeat in range(repeats)
        for part in kind(folds, shuffle=True, random_state=seed + repeat).split(np.zeros(len(y)), y, groups)
    ]


def corrected_t_test(differences: np.ndarray, folds: int) -> float:
    """Return the two-sided p-value of the mean of differences per fold and repeat; see the head of this file."""
    d = np.asarray(differences, float)
    spread = float(np.var(d, ddof=1))
    if spread == 0:
        return 1.0 if np.all(d == 0) else 0.0
    t = float(np.mean(d)) / np.sqrt((1 / len(d) + 1 / (folds - 1)) * spread)
    return float(2 * stats.t.sf(abs(t), len(d) - 1))


def matters(difference: float, p_value: float | None) -> bool:
    """Return whether a difference of mean log densities is large enough to matter and significant."""
    return p_value is not None and abs(difference) >= MIN_DIFFERENCE and p_value < SIGNIFICANCE_LEVEL


def _best_gp(order: Sequence[str], means: Mapping[str, np.ndarray], folds: int) -> str:
    """Return the Gaussian process to recommend: the default, unless another is better by a difference that matters."""
    first = next(name for name in order if name in METHODS)
    if DEFAULT not in means:
        return first
    gap = means[first] - means[DEFAULT]
    return first if matters(float(np.mean(gap)), corrected_t_test(gap, folds)) else DEFAULT


def summary(
    scores: Mapping[str, Sequence[Score]],
    y: np.ndarray,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    folds: int,
    positive: str | None = None,
) -> dict[str, Any]:
    """Summarise `scores[name][part]` as score tables, calibration curves and tests, all of them plain data.

    `parts` comes from `split` with this number of folds.  `winner` is the model with the highest mean log density,
    `best_gp` the Gaussian process to recommend: the default if it is tied with the best.  With a `positive` class, AUC,
    Brier score and calibration refer to its probability; otherwise to the probabilities of all classes.
    """
    repeats = len(parts) / folds
    tests = [test for _, test in parts]
    truth = y[np.concatenate(tests)]
    means = {name: np.array([np.mean(s["log_density"]) for s in found]) for name, found in scores.items()}
    order = sorted(scores, key=lambda name: -float(np.mean(joined(scores[name], "log_density"))))
    best_gp = _best_gp(order, means, folds)
    winner = next(name for name in order if name != NO_INPUTS)
    rows, curves = [], {}
    for name, found in scores.items():
        curves[name] = reliability(found, truth, positive, repeats)
        row: dict[str, Any] = {
            "name": name,
            "log_density": float(np.mean(joined(found, "log_density"))),
            "calibration_error": _calibration_error(curves[name]),
            "evidence_per_row": None if _lacks_evidence(found) else float(np.mean([s["evidence"] for s in found])),
            "seconds": float(np.median([s["seconds"] for s in found])),
            "converged": int(sum(s["converged"] for s in found)),
            "difference_to_winner": float(np.mean(means[name] - means[winner])),
            **_gain(found, scores[NO_INPUTS], repeats),
            "p_value": None if name == winner else corrected_t_test(means[name] - means[winner], folds),
            "warning": _warning(found),
        }
        rows.append(row | (_class_scores if "proba" in found[0] else _value_scores)(found, truth, positive))
    return {
        "methods": rows,
        "best_gp": best_gp,
        "winner": winner,
        "reliability": curves,
        "outliers": _outliers(scores[best_gp], y, tests),
    }


def joined(scores: Found, name: str) -> np.ndarray:
    """Return the entries of all folds as one array."""
    return np.concatenate([np.asarray(s[name]) for s in scores])


def probability_of(scores: Found, positive: str) -> np.ndarray:
    """Return the probability of one class per test row; 0 in folds whose training set lacks this class."""
    each = [
        np.asarray(s["proba"])[:, np.array(s["classes"]) == positive].sum(axis=1)  # one column, or none
        for s in scores
    ]  # fmt: skip
    return np.concatenate(each)


def _class_scores(found: Found, truth: np.ndarray, positive: str | None) -> dict[str, float]:
    """Return accuracy, AUC and Brier score; without a positive class, the mean AUC and the summed Brier score."""
    labels = truth.astype(str)
    classes = [positive] if positive is not None else list(np.unique(labels))
    hits = [labels == c for c in classes]
    each = [probability_of(found, c) for c in classes]
    # Fold by fold: the probabilities of two folds come from models with other shares of the class.
    ends = np.cumsum([len(s["right"]) for s in found])[:-1]
    areas = [
        roc_auc_score(hit, p)
        for a, b in zip(hits, each, strict=True)
        for hit, p in zip(np.split(a, ends), np.split(b, ends), strict=True)
        if np.any(hit) and not np.all(hit)
    ]
    return {
        "accuracy": float(np.mean(joined(found, "right"))),
        "auc": float(np.mean(areas)),
        "brier": float(sum(np.mean((p - hit) ** 2) for hit, p in zip(hits, each, strict=True))),
    }


def _value_scores(found: Found, truth: np.ndarray, positive: str | None) -> dict[str, float | None]:
    """Return RMSE, mean absolute error, mean CRPS, and the coverage of the 90 % interval."""
    error, crps = joined(found, "prediction") - truth, joined(found, "crps")
    # The interval is closed: y is inside if P(Y ≤ y) reaches the lower level and P(Y < y) is below the upper level.
    inside = (joined(found, "up_to") >= 0.5 - INTERVAL_LEVEL / 2) & (joined(found, "below") < 0.5 + INTERVAL_LEVEL / 2)
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mae": float(np.mean(np.abs(error))),
        "crps": float(np.mean(crps)) if len(crps) else None,
        "coverage": float(np.mean(inside)),
    }


def _share_below(found: Found, level: float) -> np.ndarray:
    """Return 1 per row if y is below its predicted quantile of this level, and 0 otherwise.

    For discrete targets the value is a fraction where the distribution function jumps (Czado, Gneiting & Held 2009).
    """
    low, high = joined(found, "below"), joined(found, "up_to")
    if not np.any(high > low):
        return (high <= level).astype(float)
    return np.clip((level - low) / np.maximum(high - low, 1e-12), 0, 1)


def reliability(
    found: Found, truth: np.ndarray, positive: str | None = None, repeats: float = 1.0
) -> dict[str, list[float]]:
    """Return a calibration curve: observed share per bin of predicted probability, or of rows below each quantile.

    Without a positive class the curve describes the probability of the predicted class.  `error` is the standard error
    of the observed share under calibrated predictions, √(p (1 − p)/count); `count` is the number of distinct rows,
    independent of the number of repeats.
    """
    if "proba" not in found[0]:
        shares = [_share_below(found, level) for level in _QUANTILE_LEVELS]
        observed, count = [float(np.mean(s)) for s in shares], len(shares[0])
        counts = np.full(len(_QUANTILE_LEVELS), count)
        curve = {"predicted": _QUANTILE_LEVELS, "observed": np.array(observed), "count": counts}
    else:
        if positive is not None:
            p, hit = probability_of(found, positive), truth.astype(str) == positive
        else:
            p = np.concatenate([np.max(s["proba"], axis=1) for s in found])
            hit = joined(found, "right")
        curve = metrics.reliability(p, hit, CALIBRATION_BINS)
    curve["count"] = curve["count"] / repeats
    curve["error"] = np.sqrt(curve["predicted"] * (1 - curve["predicted"]) / curve["count"])
    return {k: v.tolist() for k, v in curve.items()}


def _calibration_error(curve: Mapping[str, list[float]]) -> float:
    """Return the mean absolute difference of observed and predicted shares, weighted by the number of rows."""
    gap = np.abs(np.subtract(curve["observed"], curve["predicted"]))
    return float(np.average(gap, weights=curve["count"]))


def _gain(found: Found, base: Found, repeats: float) -> dict[str, float]:
    """Return the mean gain in log density over ignoring the inputs, and its standard error over the rows.

    The standard error is taken over rows, not folds: with three folds, hardly any difference is significant.
    """
    gap = np.clip(joined(found, "log_density") - joined(base, "log_density"), -MAX_GAIN_NATS, MAX_GAIN_NATS)
    return {"gain": float(np.mean(gap)), "gain_error": float(np.std(gap) / np.sqrt(len(gap) / repeats))}


def _lacks_evidence(found: Found) -> bool:
    return any(s["evidence"] is None for s in found)


def _warning(found: Found) -> str | None:
    """Return the first warning of the fits, and the number of folds with a warning; None without warnings."""
    warned = [s["warnings"][0] for s in found if s["warnings"]]
    return f"{warned[0]} (In {len(warned)} of {len(found)} folds.)" if warned else None


def _outliers(found: Found, y: np.ndarray, tests: list[np.ndarray], most: int = 10) -> list[dict[str, Any]]:
    """Return the most surprising rows; `chance` is the probability of the class, or of a value at least as extreme."""
    index = np.concatenate(tests)
    density, prediction = joined(found, "log_density"), joined(found, "prediction")
    if "proba" in found[0]:
        chance = np.exp(density)
    else:
        chance = np.minimum(1.0, 2 * np.minimum(joined(found, "up_to"), 1 - joined(found, "below")))
    order = np.lexsort([density, chance])  # not by density alone, which is small for large counts
    once = np.sort(np.unique(index[order], return_index=True)[1])  # each row once, with repeats too
    chosen = [i for i in order[once][:most] if chance[i] < MAX_OUTLIER_PROBABILITY]
    return [
        {
            "index": int(index[i]), "target": _plain(y[index[i]]), "prediction": _plain(prediction[i]),
            "log_density": float(density[i]), "chance": float(chance[i]),
        }
        for i in chosen
    ]  # fmt: skip


def _plain(value: Any) -> float | str:
    return float(value) if isinstance(value, np.floating | np.integer) else str(value)
