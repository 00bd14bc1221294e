"""Baseline distribution for amounts that may be zero: a point mass at zero and a log-normal distribution."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sitewise.likelihoods.base import positive_baseline


class AmountsLaw(NamedTuple):
    """Mixture of zero, with probability `zero_probability`, and the SciPy distribution `positive`.

    `logpdf` of a zero is log `zero_probability`.
    """

    zero_probability: Any
    positive: Any

    @staticmethod
    def of(y: np.ndarray) -> AmountsLaw:
        """Fit the share of zeros, with half a zero and half a positive amount added, and a log-normal distribution."""
        positive = y[y > 0] if np.any(y > 0) else np.ones(1)
        return AmountsLaw((np.sum(y == 0) + 0.5) / (len(y) + 1), positive_baseline(positive))

    def logpdf(self, y: np.ndarray) -> np.ndarray:
        log_density = np.log1p(-self.zero_probability) + self.positive.logpdf(np.where(y > 0, y, 1.0))
        return np.where(y > 0, log_density, np.log(self.zero_probability))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        zero = self.zero_probability
        return np.where(y < 0, 0.0, zero + (1 - zero) * self.positive.cdf(np.maximum(y, 0.0)))

    def ppf(self, level: float) -> np.ndarray:
        above = np.clip((level - self.zero_probability) / (1 - self.zero_probability), 0.0, 1.0)
        return np.where(above > 0, self.positive.ppf(above), 0.0)

    def mean(self) -> np.ndarray:
        return (1 - self.zero_probability) * self.positive.mean()
