"""Comparison of contestants: folds, paired tests, and the scores of all folds as tables and curves.

Paired test: the difference of two contestants' mean log densities has one value per fold, d_1 … d_J.  The folds share
training rows, so their variance s²/J is too small; the corrected t statistic of Nadeau & Bengio (2003),

    t = mean(d) / √((1/J + n_test/n_train) s²),    J − 1 degrees of freedom,

corrects for that.  With r repeats of k folds J = r k and n_test/n_train = 1/(k − 1).
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
from sitewise.methods import METHODS

BASELINE = "baseline"
LABELS = {
    **{name: method.label for name, method in METHODS.items()},
    **baselines.LABELS,
    BASELINE: "inputs ignored",
}
_LEVELS = np.linspace(0.05, 0.95, 19)
_COVER = 0.9  # level of the interval whose coverage is told
_BINS = 8
_SURPRISING = 0.2  # chance of a row below which it is told
_MOST_NATS = 50.0  # between two log densities of a row; a class that was not trained on has none
Found = Sequence[Mapping[str, Any]]


def split(
    y: np.ndarray, folds: int, seed: int, classes: bool, repeats: int = 1, groups: np.ndarray | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training rows, test rows) of every fold of every repeat; each class is spread evenly over the folds.

    Rows of one of the `groups` stay together, so that those of a fold are new to the model.
    """
    if groups is not None and len(np.unique(groups)) < folds:
        raise ValueError(
            f"There are {len(np.unique(groups))} groups, fewer than the {folds} folds; use fewer folds, of which there "
            "are at least 2."
        )
    if folds < 2 or folds > len(y):
        raise ValueError(f"There must be at least 2 folds and at most one per row ({len(y)}), got {folds}.")
    if classes:
        names, counts = np.unique(y, return_counts=True)
        if counts.min() < folds:
            raise ValueError(
                f"Class {str(names[counts.argmin()])!r} has {counts.min()} row{'s' if counts.min() > 1 else ''}, fewer "
                f"than the {folds} folds; use fewer folds, of which there are at least 2, or take its rows out of the "
                "table."
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
    """Two-sided p-value of the mean of the differences, one for each fold of each repeat; see the head of this file."""
    d = np.asarray(differences, float)
    spread = float(np.var(d, ddof=1))
    if spread == 0:
        return 1.0 if np.all(d == 0) else 0.0
    t = float(np.mean(d)) / np.sqrt((1 / len(d) + 1 / (folds - 1)) * spread)
    return float(2 * stats.t.sf(abs(t), len(d) - 1))


def summary(
    scores: Mapping[str, Sequence[Score]],
    y: np.ndarray,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    folds: int,
    positive: str | None = None,
) -> dict[str, Any]:
    """`scores[name][part]` as tables, curves and tests, all of them plain data.

    The parts are those of `split`: this number of folds, perhaps repeated.  `winner` is the contestant with the highest
    mean log density, `best_gp` the best of the Gaussian processes.  With a `positive` class, AUC, Brier score and
    calibration are those of its probability; else of all classes.
    """
    repeats = len(parts) / folds
    tests = [test for _, test in parts]
    truth = y[np.concatenate(tests)]
    means = {name: np.array([np.mean(s["log_density"]) for s in found]) for name, found in scores.items()}
    order = sorted(scores, key=lambda name: -float(np.mean(joined(scores[name], "log_density"))))
    best_gp = next(name for name in order if name in METHODS)
    winner = next(name for name in order if name != BASELINE)
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
            **_gain(found, scores[BASELINE], repeats),
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
    """One array of the entries of all folds."""
    return np.concatenate([np.asarray(s[name]) for s in scores])


def probability_of(scores: Found, positive: str) -> np.ndarray:
    """The probability of one class in every test row; 0 in folds that were trained without it."""
    each = [
        np.asarray(s["proba"])[:, np.array(s["classes"]) == positive].sum(axis=1)  # one column, or none
        for s in scores
    ]  # fmt: skip
    return np.concatenate(each)


def _class_scores(found: Found, truth: np.ndarray, positive: str | None) -> dict[str, float]:
    """Accuracy, AUC and Brier score; without a positive class, mean AUC of the classes and Σ over all of them."""
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
    """Errors of the expected value, CRPS, and the share of rows inside the 90 % interval."""
    error, crps = joined(found, "prediction") - truth, joined(found, "crps")
    # Both ends of the interval belong to it: P(Y ≤ y) reaches the lower level, P(Y < y) not the upper one.
    inside = (joined(found, "up_to") >= 0.5 - _COVER / 2) & (joined(found, "below") < 0.5 + _COVER / 2)
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mae": float(np.mean(np.abs(error))),
        "crps": float(np.mean(crps)) if len(crps) else None,
        "coverage": float(np.mean(inside)),
    }


def _share_below(found: Found, level: float) -> np.ndarray:
    """Whether y is below its predicted quantile of this level, one number for each row.

    For counts, whose distribution function jumps, a row counts in part (Czado, Gneiting & Held 2009).
    """
    low, high = joined(found, "below"), joined(found, "up_to")
    if not np.any(high > low):
        return (high <= level).astype(float)
    return np.clip((level - low) / np.maximum(high - low, 1e-12), 0, 1)


def reliability(
    found: Found, truth: np.ndarray, positive: str | None = None, repeats: float = 1.0
) -> dict[str, list[float]]:
    """Classes: observed share per bin of predicted probability.  Values: share of rows below each predicted level.

    Without a positive class the probability is that of the predicted class being right.  `error` is the standard error
    of the observed share if the prediction were right, √(p (1 − p)/count); a row that was left out in every repeat
    counts once.
    """
    if "proba" not in found[0]:
        shares = [_share_below(found, level) for level in _LEVELS]
        observed, count = [float(np.mean(s)) for s in shares], len(shares[0])
        curve = {"predicted": _LEVELS, "observed": np.array(observed), "count": np.full(len(_LEVELS), count)}
    else:
        if positive is not None:
            p, hit = probability_of(found, positive), truth.astype(str) == positive
        else:
            p = np.concatenate([np.max(s["proba"], axis=1) for s in found])
            hit = joined(found, "right")
        curve = metrics.reliability(p, hit, _BINS)
    curve["count"] = curve["count"] / repeats
    curve["error"] = np.sqrt(curve["predicted"] * (1 - curve["predicted"]) / curve["count"])
    return {k: v.tolist() for k, v in curve.items()}


def _calibration_error(curve: Mapping[str, list[float]]) -> float:
    gap = np.abs(np.subtract(curve["observed"], curve["predicted"]))
    return float(np.average(gap, weights=curve["count"]))


def _gain(found: Found, base: Found, repeats: float) -> dict[str, float]:
    """Mean gain in log density over ignoring the inputs, and its standard error over the rows.

    Rows say more than folds here: with three folds no difference between folds is significant.
    """
    gap = np.clip(joined(found, "log_density") - joined(base, "log_density"), -_MOST_NATS, _MOST_NATS)
    return {"gain": float(np.mean(gap)), "gain_error": float(np.std(gap) / np.sqrt(len(gap) / repeats))}


def _lacks_evidence(found: Found) -> bool:
    return any(s["evidence"] is None for s in found)


def _warning(found: Found) -> str | None:
    """What the fits warned of, in the words of the first, and in how many folds."""
    warned = [s["warnings"][0] for s in found if s["warnings"]]
    return f"{warned[0]} (In {len(warned)} of {len(found)} folds.)" if warned else None


def _outliers(found: Found, y: np.ndarray, tests: list[np.ndarray], most: int = 10) -> list[dict[str, Any]]:
    """The rows that the best method expected least; `chance` is that of a value as extreme, or of the class."""
    index = np.concatenate(tests)
    density, prediction = joined(found, "log_density"), joined(found, "prediction")
    if "proba" in found[0]:
        chance = np.exp(density)
    else:
        chance = np.minimum(1.0, 2 * np.minimum(joined(found, "up_to"), 1 - joined(found, "below")))
    order = np.lexsort([density, chance])  # the density of an expected count is small where the count is large
    once = np.sort(np.unique(index[order], return_index=True)[1])  # a row once, however often it was left out
    chosen = [i for i in order[once][:most] if chance[i] < _SURPRISING]
    return [
        {
            "index": int(index[i]), "target": _plain(y[index[i]]), "prediction": _plain(prediction[i]),
            "log_density": float(density[i]), "chance": float(chance[i]),
        }
        for i in chosen
    ]  # fmt: skip


def _plain(value: Any) -> float | str:
    return float(value) if isinstance(value, np.floating | np.integer) else str(value)
