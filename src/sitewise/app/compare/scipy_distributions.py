"""Predictive distributions of SciPy around predicted means, for models that predict a number only."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from sitewise.estimators.side_information import Side, ends


def side_law(y: np.ndarray, side: Side, side_test: Side, support: str) -> tuple[Any, bool]:
    """Return a distribution of the test rows from one rate, share or mean of all rows, and whether it is discrete.

    exposure   counts of mean rate · exposure: Poisson, or negative binomial if overdispersed, by moments
    trials     binomial with the share of all successes
    noise      Gaussian; variance of the targets beyond the known noise, plus the known noise of the row
    bounds     Gaussian with mean and standard deviation of the targets, censoring ignored; for lifetimes exponential
               with the mean (total time) / (number of observed events)
    """
    if "exposure" in side:
        rate = np.sum(y) / np.sum(side["exposure"])
        return counts_law(y, rate * side["exposure"], rate * side_test["exposure"]), True
    if "trials" in side:
        share = (np.sum(y) + 0.5) / (np.sum(side["trials"]) + 1.0)
        return stats.binom(side_test["trials"], share), True
    if "noise" in side:
        return noisy_law(y - np.mean(y), side["noise"], np.full(len(side_test["noise"]), np.mean(y)), side_test), False
    if support == "positive":
        low, high = ends(y, side)
        time = np.where(np.isfinite(high), 0.5 * (np.maximum(low, 0.0) + high), low)
        return stats.expon(scale=np.sum(time) / max(np.sum(np.isfinite(high)), 0.5)), False
    return stats.norm(np.mean(y), max(float(np.std(y)), 1e-12)), False


def counts_law(y: np.ndarray, expected: np.ndarray, mean: np.ndarray) -> Any:
    """Return a Poisson distribution with these means, or negative binomial (Var y = μ + μ²/shape) if overdispersed.

    Overdispersion is estimated from the training targets y and their predictions `expected`.
    """
    mean = np.maximum(mean, 1e-12)
    excess = float(np.sum((y - expected) ** 2 - expected) / np.sum(expected**2)) if np.any(y) else 0.0
    return stats.nbinom(1 / excess, 1 / (1 + excess * mean)) if excess > 1e-6 else stats.poisson(mean)


def noisy_law(residual: np.ndarray, noise: np.ndarray, mean: np.ndarray, side_test: Side) -> Any:
    """Return Gaussians with these means; variance of the residuals beyond the known noise, plus the noise per row."""
    rest = max(float(np.mean(residual**2) - np.mean(noise**2)), 0.0)
    return stats.norm(mean, np.sqrt(rest + side_test["noise"] ** 2))
