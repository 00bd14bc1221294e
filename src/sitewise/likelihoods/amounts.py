"""One distribution for amounts of which some are zero: what the likelihoods of amounts are compared with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sitewise.likelihoods.base import positive_baseline


class AmountsLaw(NamedTuple):
    """Zero with probability `none`, else as `some`, a distribution of SciPy; `logpdf` of a zero is log `none`."""

    none: Any
    some: Any

    @staticmethod
    def of(y: np.ndarray) -> AmountsLaw:
        """The share of zeros, with half a zero and half an amount added, and a log-normal distribution of the rest."""
        positive = y[y > 0] if np.any(y > 0) else np.ones(1)
        return AmountsLaw((np.sum(y == 0) + 0.5) / (len(y) + 1), positive_baseline(positive))

    def logpdf(self, y: np.ndarray) -> np.ndarray:
        return np.where(y > 0, np.log1p(-self.none) + self.some.logpdf(np.where(y > 0, y, 1.0)), np.log(self.none))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return np.where(y < 0, 0.0, self.none + (1 - self.none) * self.some.cdf(np.maximum(y, 0.0)))

    def ppf(self, level: float) -> np.ndarray:
        above = np.clip((level - self.none) / (1 - self.none), 0.0, 1.0)
        return np.where(above > 0, self.some.ppf(above), 0.0)

    def mean(self) -> np.ndarray:
        return (1 - self.none) * self.some.mean()
