"""Which training rows a robust model treats as outliers, according to the fitted sites."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# A row with less than this share of the typical site's precision has almost no influence on the posterior.
_SHARE = 0.1
_SHOWN = 10


class Outliers(NamedTuple):
    """rows       numbers of the rows treated as outliers, the least expected first
    precision  of every training row's site, relative to the median of those above zero; NaN for a row of weight 0

    Robust noise gives little weight to a row that lies far from what its neighbours predict: its site's precision falls
    to zero, and the row no longer determines the function.  A row counts as an outlier below a tenth of the median
    precision; the rows are sorted by their leave-one-out log density.
    """

    rows: np.ndarray
    precision: np.ndarray

    def sentence(self) -> str:
        """The outliers in one sentence, for a report."""
        if len(self.rows) == 0:
            return "No row is treated as an outlier (outliers_)."
        shown = ", ".join(str(r) for r in self.rows[:_SHOWN]) + (", …" if len(self.rows) > _SHOWN else "")
        plural = "rows are" if len(self.rows) > 1 else "row is"
        return f"{len(self.rows)} of {len(self.precision)} {plural} treated as outliers (outliers_): {shown}."


def find_outliers(prec: np.ndarray, weight: np.ndarray, loo_log_density: np.ndarray) -> Outliers:
    """The outliers among the training rows, given the precisions of their sites."""
    counted = weight > 0
    positive = prec[counted & (prec > 0)]
    relative = np.where(counted, prec, np.nan) / (np.median(positive) if len(positive) else 1.0)
    rows = np.flatnonzero(counted & (relative < _SHARE))
    return Outliers(rows[np.argsort(loo_log_density[rows], kind="stable")], relative)
