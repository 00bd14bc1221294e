"""Posterior predictive checks: do responses that the model draws look like the data?

Per row, the leave-one-out distribution gives P(Y ≤ y) (probability integral transform, randomised for whole numbers)
and standardised residuals.  Dispersion, share of zeros and the largest value are compared with draws of the model.
Correlations are those of residuals around posterior draws of f, (y − E[y | f])/sd[y | f], which are independent if the
model is correct; they are compared with permutations of the rows.  Residuals around the posterior mean would not do:
neighbours pull it towards each other's noise, and their residuals are negatively correlated.  A small tail probability
means that the data differ from what the model produces.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from sitewise.formula.formula_summary import aligned

BINS = 10
MAX_COUNT_SHOWN = 40
NEIGHBOURS = 5
PERMUTATIONS = 400


@dataclasses.dataclass(frozen=True)
class Check:
    """Posterior predictive checks of a fitted formula; `print` shows a table.

    Attributes
    ----------
    pit : array of shape (n_rows,)
        Leave-one-out P(Y ≤ y) per row, uniform on (0, 1) if the model is calibrated; NaN if not defined.
    pit_counts : array of shape (10,)
        Rows per tenth of the unit interval.
    rootogram : dict or None
        For whole numbers: "values", and the "observed" and "expected" numbers of rows, with "low" and "high" ends of a
        90 % interval over draws.
    statistics : dict
        Name → (observed, mean over draws, tail probability): "dispersion" (variance of the standardised residuals),
        "zeros", "largest value", "correlation of neighbours", "correlation in time".
    """

    pit: np.ndarray
    pit_counts: np.ndarray
    rootogram: dict[str, np.ndarray] | None
    statistics: dict[str, tuple[float, float, float]]

    def __str__(self) -> str:
        rows = [(name, *map(float, numbers)) for name, numbers in self.statistics.items()]
        lines = aligned(("check", "observed", "model", "tail probability"), rows)
        if not np.all(np.isnan(self.pit)):
            lines += ["", "rows per tenth of the leave-one-out distribution", "  ".join(map(str, self.pit_counts))]
        if self.rootogram is not None:
            each = zip(
                *(self.rootogram[name] for name in ("values", "observed", "expected", "low", "high")), strict=True
            )
            table = [(f"{value:g}", *map(float, numbers)) for value, *numbers in each]
            lines += ["", *aligned(("value", "rows", "expected", "low", "high"), table)]
        return "\n".join(lines)

    __repr__ = __str__


def check_of(
    y: np.ndarray,
    draws: np.ndarray,
    loo: Any,
    discrete: bool,
    residuals: np.ndarray,
    places: np.ndarray | None,
    times: Any,
    seed: int,
) -> Check:
    """Return the checks of responses y, given draws of the model (draws, rows) and its leave-one-out distributions.

    `residuals` are those around posterior draws of f, (draws, rows); they are used with `places` and `times` only.
    `places` are coordinates per row, or None.  `times` is (time, series) per row, or None.
    """
    rng = np.random.default_rng(seed)
    pit = _randomised(loo, discrete, rng)
    mean, sd = draws.mean(axis=0), np.maximum(draws.std(axis=0), 1e-12)
    left_out = (y - loo.mean) / loo.std if hasattr(loo, "std") else (y - mean) / sd
    found = {"dispersion": _compared(float(np.mean(left_out**2)), np.mean(((draws - mean) / sd) ** 2, axis=1))}
    if discrete or (np.any(y == 0) and np.any(draws == 0)):  # zero is a value of its own, not a number among others
        found["zeros"] = _compared(float(np.mean(y == 0)), np.mean(draws == 0, axis=1))
    found["largest value"] = _compared(float(np.max(y)), np.max(draws, axis=1))
    if places is not None:
        found["correlation of neighbours"] = _pair_check(residuals, _neighbours(places), rng)
    if times is not None:
        found["correlation in time"] = _pair_check(residuals, _successors(*times), rng)
    counts = np.histogram(pit[~np.isnan(pit)], BINS, (0.0, 1.0))[0]
    return Check(pit, counts, _rootogram(y, draws) if discrete else None, found)


def _randomised(loo: Any, discrete: bool, rng: np.random.Generator) -> np.ndarray:
    """Return P(Y < y) + u P(Y = y) with a uniform u for whole numbers, else P(Y ≤ y)."""
    probability = np.asarray(getattr(loo, "probability", np.nan), float)
    if probability.ndim != 1:
        return np.full(len(loo.log_density), np.nan)
    if not discrete:
        return probability
    return np.clip(probability - rng.uniform(size=len(probability)) * np.exp(loo.log_density), 0.0, 1.0)


def _compared(observed: float, drawn: np.ndarray) -> tuple[float, float, float]:
    """Return the observed value, the mean over draws, and a two-sided tail probability."""
    tail = min(float(np.mean(drawn >= observed)), float(np.mean(drawn <= observed)))
    return float(observed), float(np.mean(drawn)), min(1.0, 2 * tail)


def _pair_check(
    residuals: np.ndarray, pairs: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> tuple[float, float, float]:
    """Compare the correlation of pairs of residuals with its values after permutations, as in a test by Moran's I.

    Returns the means over the draws, and a two-sided tail probability over draws and permutations.
    """
    i, j = pairs
    if len(i) < 2:
        return np.nan, np.nan, np.nan
    r = (residuals - residuals.mean(axis=1, keepdims=True)) / residuals.std(axis=1, keepdims=True)
    r = np.resize(r, (max(PERMUTATIONS, len(r)), r.shape[1]))
    shuffled = rng.permuted(r, axis=1)
    found, expected = (np.mean(one[:, i] * one[:, j], axis=1) for one in (r, shuffled))
    tail = min(float(np.mean(expected >= found)), float(np.mean(expected <= found)))
    return float(np.mean(found)), float(np.mean(expected)), min(1.0, 2 * tail)


def _neighbours(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows: every row with its nearest rows at other places."""
    distinct, place = np.unique(places, axis=0, return_inverse=True)
    first = np.unique(place.reshape(-1), return_index=True)[1]
    near = cKDTree(distinct).query(distinct, k=np.arange(2, min(NEIGHBOURS + 2, len(distinct) + 1)))[1]
    i = np.repeat(np.arange(len(distinct)), near.shape[1])
    return first[i], first[near.ravel()]


def _successors(time: np.ndarray, series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows that follow each other in a series."""
    order = np.lexsort((time, series))
    i, j = order[:-1], order[1:]
    same = (series[i] == series[j]) & (time[i] < time[j])
    return i[same], j[same]


def _rootogram(y: np.ndarray, draws: np.ndarray) -> dict[str, np.ndarray]:
    values = np.arange(0, min(int(max(y.max(), np.quantile(draws, 0.999))), MAX_COUNT_SHOWN) + 1)
    counts = np.array([[np.sum(draw == value) for value in values] for draw in draws])
    low, high = np.quantile(counts, [0.05, 0.95], axis=0)
    observed = np.array([np.sum(y == value) for value in values])
    return {"values": values, "observed": observed, "expected": counts.mean(axis=0), "low": low, "high": high}
