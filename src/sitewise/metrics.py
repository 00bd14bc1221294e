"""Metrics of binary probabilistic predictions: accuracy, Brier score, reliability, calibration error."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sitewise.likelihoods.bernoulli import check_labels


def _checked(probability: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities of the positive class and whether it was observed; y is coded −1, 1 or 0, 1."""
    given, labels = np.asarray(probability, float), np.asarray(y)
    if given.ndim != 1 or given.shape != labels.shape:
        raise ValueError(
            f"Probabilities of shape {given.shape} were given for y of shape {labels.shape}; give one probability and "
            "one label per row, as in predict_proba(X)[:, 1] and y."
        )
    check_labels("metrics", labels)
    return given, labels > 0


def accuracy(probability: ArrayLike, y: ArrayLike) -> float:
    """Return the accuracy: the share of rows whose more probable class is the observed class.

    Parameters
    ----------
    probability : array of shape (n_rows,)
        Predicted probability of the positive class.
    y : array of shape (n_rows,)
        Labels; y > 0 is the positive class.
    """
    probability, hit = _checked(probability, y)
    return float(np.mean((probability > 0.5) == hit))


def brier(probability: ArrayLike, y: ArrayLike) -> float:
    """Return the Brier score: the mean squared difference between probability and outcome (0 or 1).

    Parameters
    ----------
    probability, y : as in metrics.accuracy
        Predictions and labels.
    """
    probability, hit = _checked(probability, y)
    return float(np.mean((probability - hit) ** 2))


def reliability(probability: ArrayLike, y: ArrayLike, bins: int = 10) -> dict[str, np.ndarray]:
    """Return the calibration curve: mean prediction, observed share and count per bin of predicted probability.

    Parameters
    ----------
    probability, y : as in metrics.accuracy
        Predictions and labels.
    bins : int, default=10
        Bins of equal width; empty bins are left out.
    """
    probability, hit = _checked(probability, y)
    index = np.clip((probability * bins).astype(int), 0, bins - 1)
    count = np.bincount(index, minlength=bins)
    full = count > 0
    predicted = np.bincount(index, probability, bins)[full] / count[full]
    observed = np.bincount(index, hit, bins)[full] / count[full]
    return {"predicted": predicted, "observed": observed, "count": count[full]}


def expected_calibration_error(probability: ArrayLike, y: ArrayLike, bins: int = 10) -> float:
    """Return the expected calibration error: the mean |observed − predicted| over the bins, weighted by their counts.

    Parameters
    ----------
    probability, y, bins : as in metrics.reliability
        Predictions, labels and number of bins.
    """
    curve = reliability(probability, y, bins)
    gap = np.abs(curve["observed"] - curve["predicted"])
    return float(np.sum(gap * curve["count"]) / np.sum(curve["count"]))
