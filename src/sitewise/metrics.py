"""Scores of probabilistic predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sitewise.likelihoods.bernoulli import check_labels


def _checked(probability: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the positive class, and whether it was observed; y is coded as −1 and 1, or as 0 and 1."""
    given, labels = np.asarray(probability, float), np.asarray(y)
    if given.ndim != 1 or given.shape != labels.shape:
        raise ValueError(
            f"Probabilities of shape {given.shape} were given for y of shape {labels.shape}; give one of each per row, "
            "as predict_proba(X)[:, 1]."
        )
    check_labels("metrics", labels)
    return given, labels > 0


def accuracy(probability: ArrayLike, y: ArrayLike) -> float:
    """Share of rows whose more probable class is the observed one; y > 0 is the positive class."""
    probability, hit = _checked(probability, y)
    return float(np.mean((probability > 0.5) == hit))


def brier(probability: ArrayLike, y: ArrayLike) -> float:
    """Mean squared difference between probability and outcome."""
    probability, hit = _checked(probability, y)
    return float(np.mean((probability - hit) ** 2))


def reliability(probability: ArrayLike, y: ArrayLike, bins: int = 10) -> dict[str, np.ndarray]:
    """Per bin of predicted probability: mean prediction, observed share, and count (empty bins are left out)."""
    probability, hit = _checked(probability, y)
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
