"""Outliers among the training rows of a robust regression model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sitewise.fitted.loo import ValueLoo

FALSE_OUTLIER_SHARE = 0.01  # expected share of outliers if the model is correct for all rows
MAX_OUTLIERS_LISTED = 10


class Outliers(NamedTuple):
    """Outliers and the leave-one-out tail probability of every training row.

    With u = P(Y ≤ y | all other rows), noise included, the probability is p = 2 min(u, 1 − u).  If the model is
    correct, u and p are uniform on (0, 1) for every likelihood, and one row in a hundred has p < 0.01.  Rows with
    p < 0.01 are called outliers.  Robust noise is fitted to the bulk of the rows: a wrong value lies far in its tail
    and has little influence, as the precision of its site shows.

    Attributes
    ----------
    rows : array of int
        Indices of the outliers, most surprising first.
    probability : array of shape (n_rows,)
        Probability of a value at least as extreme as y, given all other rows.
    precision : array of shape (n_rows,)
        Precision of the site of each row, relative to the median of the positive precisions; NaN for a row of weight 0.
    """

    rows: np.ndarray
    probability: np.ndarray
    precision: np.ndarray

    def sentence(self) -> str:
        """Return a sentence on the outliers, for a report."""
        if len(self.rows) == 0:
            return "No row is treated as an outlier (outliers_)."
        shown = ", ".join(str(r) for r in self.rows[:MAX_OUTLIERS_LISTED]) + (
            ", …" if len(self.rows) > MAX_OUTLIERS_LISTED else ""
        )
        plural = "rows are" if len(self.rows) > 1 else "row is"
        return (
            f"{len(self.rows)} of {len(self.precision)} {plural} treated as outliers (outliers_): {shown}. "
            f"About {FALSE_OUTLIER_SHARE * len(self.precision):.2g} would be expected without any wrong value."
        )


def find_outliers(prec: np.ndarray, weight: np.ndarray, loo: ValueLoo) -> Outliers:
    """Find the outliers among the training rows from site precisions and leave-one-out predictions."""
    counted = weight > 0
    positive = prec[counted & (prec > 0)]
    relative = np.where(counted, prec, np.nan) / (np.median(positive) if len(positive) else 1.0)
    probability = 2 * np.minimum(loo.probability, 1 - loo.probability)
    rows = np.flatnonzero(counted & (probability < FALSE_OUTLIER_SHARE))
    return Outliers(rows[np.argsort(probability[rows], kind="stable")], probability, relative)
