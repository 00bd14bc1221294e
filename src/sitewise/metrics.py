"""Scores of probabilistic predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def accuracy(probability: ArrayLike, y: ArrayLike) -> float:
    """Share of rows whose more probable class is the observed one; y > 0 is the positive class."""
    return float(np.mean((np.asarray(probability) > 0.5) == (np.asarray(y) > 0)))


def brier(probability: ArrayLike, y: ArrayLike) -> float:
    """Mean squared difference between probability and outcome."""
    return float(np.mean((np.asarray(probability) - (np.asarray(y) > 0)) ** 2))


def reliability(probability: ArrayLike, y: ArrayLike, bins: int = 10) -> dict[str, np.ndarray]:
    """Per bin of predicted probability: mean prediction, observed share, and count (empty bins are left out)."""
    probability, hit = np.asarray(probability, float), np.asarray(y) > 0
    index = np.clip((probability * bins).astype(int), 0, bins - 1)
    count = np.bincount(index, minlength=bins)
    full = count > 0
    predicted = np.bincount(index, probability, bins)[full] / count[full]
    observed = np.bincount(index, hit, bins)[full] / count[full]
    return {"predicted": predicted, "observed": observed, "count": count[full]}


def expected_calibration_error(probability: ArrayLike, y: ArrayLike, bins: int = 10) -> float:
    """Mean |observed − predicted| over the bins, weighted by their counts."""
    curve = reliability(probability, y, bins)
    gap = np.abs(curve["observed"] - curve["predicted"])
    return float(np.sum(gap * curve["count"]) / np.sum(curve["count"]))
