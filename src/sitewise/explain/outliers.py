"""Which training rows a robust model considers outliers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sitewise.estimators.loo import ValueLoo

# The share of rows that are called outliers although the model is right about all of them.
_SHARE = 0.01
_SHOWN = 10


class Outliers(NamedTuple):
    """rows         numbers of the rows that are outliers, the least expected first
    probability  of every training row: that Y is at least as far out as y, given all other rows
    precision    of every training row's site, relative to the median of those above zero; NaN for a row of weight 0

    With u = P(Y ≤ y | all other rows), noise included, the probability is p = 2 min(u, 1 − u).  Where the fitted noise
    is that of the data, u is uniform on (0, 1) and so is p, whatever the likelihood: of rows that belong to the model
    one in a hundred has p < 0.01, and those are called outliers.  Robust noise is fitted to the bulk of the rows, so
    that a wrong value lies far out in its tail; there it has little influence, which the precision of its site shows.
    """

    rows: np.ndarray
    probability: np.ndarray
    precision: np.ndarray

    def sentence(self) -> str:
        """The outliers in one sentence, for a report."""
        if len(self.rows) == 0:
            return "No row is treated as an outlier (outliers_)."
        shown = ", ".join(str(r) for r in self.rows[:_SHOWN]) + (", …" if len(self.rows) > _SHOWN else "")
        plural = "rows are" if len(self.rows) > 1 else "row is"
        return (
            f"{len(self.rows)} of {len(self.precision)} {plural} treated as outliers (outliers_): {shown}. "
            f"About {_SHARE * len(self.precision):.2g} would be without any wrong value."
        )


def find_outliers(prec: np.ndarray, weight: np.ndarray, loo: ValueLoo) -> Outliers:
    """The outliers among the training rows, given the precisions of their sites and what is expected of them."""
    counted = weight > 0
    positive = prec[counted & (prec > 0)]
    relative = np.where(counted, prec, np.nan) / (np.median(positive) if len(positive) else 1.0)
    probability = 2 * np.minimum(loo.probability, 1 - loo.probability)
    rows = np.flatnonzero(counted & (probability < _SHARE))
    return Outliers(rows[np.argsort(probability[rows], kind="stable")], probability, relative)
