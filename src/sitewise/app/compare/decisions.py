"""From probabilities to decisions: which rows to act on, at which threshold, at what cost.

Acting on a row of probability p costs one false alarm with probability 1 − p; not acting costs one miss with
probability p.  If a miss costs as much as r false alarms, acting is the cheaper choice from

    p > 1 / (1 + r),     that is, the threshold t is the right one for r = (1 − t)/t,

as far as the probabilities are calibrated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise.app.compare.comparison import Found, joined, probability_of

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def thresholds(probability: np.ndarray, hit: np.ndarray) -> list[dict[str, Any]]:
    """What acting from each probability on would have done; all but `precision` are shares of the rows or of the hits.

    `saved` compares its cost at the ratio r that it is the right one for with the cheaper of two simple rules, act
    always and never act: 0 is no better than that, 1 would be free of cost.
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
    """How many rows of each class (a row of counts) were taken for each other one, on average over the repeats."""
    classes = np.unique(np.concatenate([predicted, observed]))
    counts = [[np.sum((observed == a) & (predicted == b)) / repeats for b in classes] for a in classes]
    return {"classes": classes.tolist(), "counts": counts}


def decisions(scores: Found, observed: np.ndarray, positive: str | None, repeats: int) -> dict[str, Any]:
    """For one class, what each threshold would have done; else who was taken for whom; nothing for values."""
    if positive is not None:
        return {"thresholds": thresholds(probability_of(scores, positive), observed == positive)}
    if "proba" in scores[0]:
        return {"confusion": confusion(joined(scores, "prediction"), observed.astype(str), repeats)}
    return {}
