"""Starting values of lengthscales from the distances of the rows."""

from __future__ import annotations

import numpy as np

DISTANCE_SAMPLE_ROWS = 256  # evenly spaced among the sorted rows; their distances represent the distances of all rows
STANDARDISED_FACTOR = 5.0  # inputs whose scale is within this factor of 1 start from a lengthscale of 1
UNCORRELATED_LENGTHSCALES = 10.0  # distance in lengthscales above which rows are practically uncorrelated


def start_lengthscale(X: np.ndarray) -> float:
    """Return the starting value of the lengthscale for the default kernel.

    The starting value is 1, or the typical distance of rows divided by √(2·columns) if this ratio is far from 1.  If
    the typical distance exceeds ten starting values (from about 50 columns on), the starting value is the typical
    distance.  With distances of 10⁻³ or 10², a lengthscale of 1 is on a plateau of the evidence, and the fit would
    learn only a constant.
    """
    typical = typical_distance(X, otherwise=0.0)
    if typical == 0:
        return 1.0
    scale = typical / np.sqrt(2 * X.shape[1])
    standardised = 1 / STANDARDISED_FACTOR <= scale <= STANDARDISED_FACTOR
    start = 1.0 if standardised else float(scale)
    return start if typical <= UNCORRELATED_LENGTHSCALES * start else typical


def sample(X: np.ndarray) -> np.ndarray:
    """Return evenly spaced rows whose distances represent the distances of all rows; all rows of a small table."""
    return X[np.unique(np.linspace(0, len(X) - 1, DISTANCE_SAMPLE_ROWS).astype(int))]


def typical_distance(X: np.ndarray, otherwise: float = 1.0) -> float:
    """Return the median distance of rows that differ; `otherwise` if all rows are equal."""
    some = sample(X)
    middle = some - np.median(some, axis=0)
    squares = np.sum(middle**2, axis=1)
    apart = squares[:, None] + squares[None, :] - 2 * middle @ middle.T
    apart = apart[apart > 1e-12 * np.max(squares, initial=0.0)]
    return float(np.sqrt(np.median(apart))) if apart.size else otherwise
