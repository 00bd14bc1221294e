"""Predictions from the training targets and the side information alone, for the comparison with a model."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from sitewise.estimators.side_information import Side, censored, within_bounds


def side_baseline(y: np.ndarray, y_test: np.ndarray, side: Side, side_test: Side) -> dict[str, Any]:
    """Log densities, distribution functions and means of one rate, share or value for all rows, as plain lists.

    exposure   counts of mean rate · exposure: Poisson, or negative binomial if they scatter more, by moments
    trials     binomial with the share of all successes
    noise      Gaussian with the spread that the error bars leave to the values, plus the row's own
    bounds     Gaussian with mean and deviation of the targets as they are
    """
    low_end, high_end = censored(y_test, side_test)
    law, whole = _law(y, side, side_test)
    up_to = law.cdf(y_test)
    below = law.cdf(y_test - 1) if whole else up_to
    density = law.logpmf(y_test) if whole else law.logpdf(y_test)
    density = np.where(low_end, law.logcdf(y_test), np.where(high_end, law.logsf(y_test), density))
    mean = within_bounds(np.broadcast_to(law.mean(), y_test.shape), side_test)
    found = {
        "log_density": density, "prediction": mean,
        "below": np.where(low_end, 0.0, below), "up_to": np.where(high_end, 1.0, up_to),
    }  # fmt: skip
    return {name: np.asarray(value).tolist() for name, value in found.items()}


def _law(y: np.ndarray, side: Side, side_test: Side) -> tuple[Any, bool]:
    """A distribution of SciPy for the test rows, and whether it is one of whole numbers."""
    if "exposure" in side:
        expected = side["exposure"] * np.sum(y) / np.sum(side["exposure"])
        mean = np.maximum(side_test["exposure"] * np.sum(y) / np.sum(side["exposure"]), 1e-12)
        # Var y = μ + μ²/shape
        excess = float(np.sum((y - expected) ** 2 - expected) / np.sum(expected**2)) if np.any(y) else 0.0
        return (stats.nbinom(1 / excess, 1 / (1 + excess * mean)) if excess > 1e-6 else stats.poisson(mean)), True
    if "trials" in side:
        share = (np.sum(y) + 0.5) / (np.sum(side["trials"]) + 1.0)
        return stats.binom(side_test["trials"], share), True
    if "noise" in side:
        spread = max(float(np.var(y) - np.mean(side["noise"] ** 2)), 0.0)
        return stats.norm(np.mean(y), np.sqrt(spread + side_test["noise"] ** 2)), False
    return stats.norm(np.mean(y), max(float(np.std(y)), 1e-12)), False
