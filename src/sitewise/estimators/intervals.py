"""Predictive quantiles and prediction intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


class Intervals:
    """Mixin with predict_quantiles and predict_interval, based on `_quantiles`."""

    def _quantiles(self, X: Any, levels: np.ndarray, given: Mapping[str, Any]) -> np.ndarray:
        """Return the smallest y with P(Y ≤ y) ≥ level, shape (levels, rows of X)."""
        raise NotImplementedError

    def predict_quantiles(self, X: Any, levels: ArrayLike = (0.05, 0.5, 0.95), **side: Any) -> np.ndarray:
        """Predict quantiles of y per row, noise included.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        levels : sequence of numbers between 0 and 1, default=(0.05, 0.5, 0.95)
            0.5 is the median.
        **side
            exposure, trials or noise of these rows, as in predict; noise is required if fit had it.

        Returns
        -------
        quantiles : array of shape (n_rows, n_levels)
            The smallest y with P(Y ≤ y) ≥ level; whole numbers for counts.  With bounds, Y is the uncensored value.

        Examples
        --------
        >>> import numpy as np
        >>> from sitewise import GPRegressor
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> counts = np.round(4 + 3 * np.sin(X[:, 0]) + np.cos(40 * X[:, 0]))
        >>> model = GPRegressor(likelihood="poisson").fit(X, counts)
        >>> model.predict_quantiles([[1.0]], [0.1, 0.9]).shape
        (1, 2)
        """
        wanted = np.atleast_1d(np.asarray(levels, float))
        if wanted.ndim != 1 or not np.all((wanted > 0) & (wanted < 1)):
            raise ValueError(f"levels must lie between 0 and 1, both excluded, as in [0.1, 0.5, 0.9]; got {levels!r}.")
        return self._quantiles(X, wanted, side).T

    def predict_interval(self, X: Any, level: float = 0.9, **side: Any) -> tuple[np.ndarray, np.ndarray]:
        """Predict the central prediction interval, which contains y with probability `level`, noise included.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        level : float, default=0.9
            A number between 0 and 1.
        **side
            exposure, trials or noise of these rows, as in predict; noise is required if fit had it.

        Returns
        -------
        low, high : array of shape (n_rows,)
            The quantiles of levels (1 − level)/2 and (1 + level)/2, both ends included.  For discrete targets
            P(low ≤ Y ≤ high) is at least `level`: P(Y < low) < (1 − level)/2 and P(Y ≤ high) ≥ (1 + level)/2.

        Examples
        --------
        >>> import numpy as np
        >>> from sitewise import GPRegressor
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> model = GPRegressor().fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0]))
        >>> low, high = model.predict_interval([[1.0]], level=0.8)
        >>> bool(low[0] < np.sin(1.0) < high[0])
        True
        """
        if not (np.ndim(level) == 0 and 0 < float(level) < 1):
            raise ValueError(f"level must be one number between 0 and 1, such as 0.9 for 90 %; got {level!r}.")
        low, high = self._quantiles(X, np.array([(1 - level) / 2, (1 + level) / 2]), side)
        return low, high
