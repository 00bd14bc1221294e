"""Decision thresholds by cost, and confusion matrices.

Acting on a row of probability p causes a false alarm with probability 1 − p; not acting causes a miss with probability
p.  If a miss costs as much as r false alarms and the probabilities are calibrated, acting is cheaper if

    p > 1 / (1 + r),     that is, the threshold t is optimal for r = (1 − t)/t.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise.app.compare.comparison import Found, joined, probability_of

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def thresholds(probability: np.ndarray, hit: np.ndarray) -> list[dict[str, Any]]:
    """Return one dict per threshold: share of rows acted on, precision, recall (`found`), false alarms, misses, cost.

    `acted_on`, `false_alarms` and `missed` are shares of all rows; `found` is a share of the positive rows.  `saved`
    compares the cost at the ratio r for which the threshold is optimal with the cheaper of acting always and acting
    never: 0 is no better, 1 means no cost at all.
    """
    found = []
    for t in THRESHOLDS:
        act = probability >= t
        r = (1 - t) / t
        alarms, misses = float(np.mean(act & ~hit)), float(np.mean(~act & hit))
        simple = min(r * float(np.mean(hit)), float(np.mean(~hit)))
        found.append({
            "threshold": t, "acted_on": float(np.mean(act)), "found": float(np.mean(act[hit])),
            "precision": float(np.mean(hit[act])) if np.any(act) else None, "false_alarms": alarms, "missed": misses,
            "miss_costs": r, "saved": 1 - (r * misses + alarms) / simple,
        })  # fmt: skip
    return found


def confusion(predicted: np.ndarray, observed: np.ndarray, repeats: int = 1) -> dict[str, Any]:
    """Return the confusion matrix, observed classes by predicted classes, as numbers of rows averaged over repeats."""
    classes = np.unique(np.concatenate([predicted, observed]))
    counts = [[np.sum((observed == a) & (predicted == b)) / repeats for b in classes] for a in classes]
    return {"classes": classes.tolist(), "counts": counts}


def decisions(scores: Found, observed: np.ndarray, positive: str | None, repeats: int) -> dict[str, Any]:
    """Return decision thresholds for a positive class, a confusion matrix for several classes, nothing for values."""
    if positive is not None:
        return {"thresholds": thresholds(probability_of(scores, positive), observed == positive)}
    if "proba" in scores[0]:
        return {"confusion": confusion(joined(scores, "prediction"), observed.astype(str), repeats)}
    return {}
