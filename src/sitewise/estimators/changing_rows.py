"""update and forget: add or remove training rows of a fitted estimator with the hyperparameters held fixed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sitewise.estimators.distinct_rows import Merged, merge
from sitewise.estimators.fitted_estimator import FittedEstimator
from sitewise.estimators.settings import method_of
from sitewise.estimators.side_information import Side
from sitewise.estimators.training import Approximate, Sampling
from sitewise.fitted.latent import Latent
from sitewise.learning.running import goes_on
from sitewise.types import Outcome


class ChangingRows(FittedEstimator):
    """Mixin with `update` and `forget`, which restart inference from the present sites."""

    def update(self, X_new: Any, y_new: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows, keep the hyperparameters, and continue inference from the present sites until it converges.

        The result equals inference on all rows at these hyperparameters.  Call fit to learn the hyperparameters again.
        With a Markov chain, adding rows after the last row takes time proportional to the number of new rows: early
        sites that would not change are held fixed (`learning.running`).  Adding rows before or between the present
        rows takes as long as inference on all rows.

        Parameters
        ----------
        X_new : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        y_new : array of shape (n_rows,)
            Their targets.
        sample_weight : array of shape (n_rows,), default=None
            Weight per row, by default 1.

        Returns
        -------
        self
        """
        return self._extend(X_new, y_new, sample_weight, {})

    def _extend(self, X_new: Any, y_new: Any, sample_weight: ArrayLike | None, side: Side) -> Self:
        """Add rows with their side information."""
        X_new = self._new_rows(X_new)
        y_new = self._check_y(y_new)
        if len(y_new) != len(X_new):
            raise ValueError(f"X_new has {len(X_new)} rows but y_new has {len(y_new)}; give one y per row.")
        new_weight = self._weights(sample_weight, X_new)
        method = method_of(self)
        old = np.arange(len(self._X))
        X = np.concatenate([self._X, X_new])
        y = np.concatenate([self._y, y_new])
        both = {name: np.concatenate([before, side[name]]) for name, before in self._side.items()}
        weight = np.concatenate([self._weight, new_weight])
        if isinstance(method, Approximate) and np.any(new_weight > 0):
            more = [merge(X_new, target, new_weight) for target in self._targets(y_new, side)]
            if all(goes_on(one.posterior, m.data.X) for one, m in zip(self._with_sites("update"), more, strict=True)):
                return self._append(method, X, y, both, weight, more)
        return self._change(X, y, both, weight, old, old)

    def _append(
        self, method: Approximate, X: np.ndarray, y: np.ndarray, side: Side, weight: np.ndarray, more: list[Merged]
    ) -> Self:
        """Infer with new rows that come after the present rows in time; `more` holds them per latent function."""
        latents, outcomes, merged = [], [], []
        for latent, before, m in zip(self._with_sites("update"), self._indices, more, strict=True):
            latent.model.likelihood.check(m.data.y)
            found, outcome = method.append(latent, m.data)
            latents.append(found)
            outcomes.append(outcome)
            behind = np.where(m.place < 0, m.place, m.place + latent.data.rows)
            merged.append(Merged(found.data, np.concatenate([before, behind])))
        return self._changed(X, y, side, weight, merged, latents, outcomes)

    def forget(self, rows: ArrayLike) -> Self:
        """Remove training rows and continue inference until it converges.

        Parameters
        ----------
        rows : array of int, or of bool of shape (n_rows,)
            The numbers of the rows, or a mask.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        rows, count = np.asarray(rows), len(self._X)
        if rows.dtype == bool and rows.shape != (count,):
            raise ValueError(f"A mask of rows must have one entry per training row, {count}.")
        if rows.dtype != bool and (
            rows.dtype.kind not in "iu" or (rows.size and (rows.min() < -count or rows.max() >= count))
        ):
            raise ValueError(f"rows must be whole numbers below {count}, the number of training rows, or a mask.")
        kept = np.ones(count, bool)
        kept[rows] = False
        if not np.any(kept & (self._weight > 0)):
            raise ValueError("forget would remove all rows of positive weight; keep at least one.")
        old = np.flatnonzero(kept)
        side = {name: column[kept] for name, column in self._side.items()}
        return self._change(self._X[kept], self._y[kept], side, self._weight[kept], np.arange(len(old)), old)

    def _change(
        self, X: np.ndarray, y: np.ndarray, side: Side, weight: np.ndarray, new_rows: np.ndarray, old_rows: np.ndarray
    ) -> Self:
        """Infer again with other rows; row new_rows[i] was row old_rows[i]."""
        method = method_of(self)
        if isinstance(method, Sampling):
            raise ValueError("mcmc cannot continue from the present draws when rows change; call fit with all rows.")
        old = list(zip(self._with_sites("update"), self._indices, strict=True))
        targets = self._targets(y, side)
        merged = [merge(X, t, weight) for t in targets]
        latents, outcomes = [], []
        for (latent, before), m in zip(old, merged, strict=True):
            latent.model.likelihood.check(m.data.y)
            both = (before[old_rows] >= 0) & (m.place[new_rows] >= 0)
            found, solution = method.infer(latent, m.data, before[old_rows][both], m.place[new_rows][both])
            latents.append(found)
            outcomes.append(solution.outcome)
        return self._changed(X, y, side, weight, merged, latents, outcomes)

    def _changed(
        self, X: np.ndarray, y: np.ndarray, side: Side, weight: np.ndarray, merged: list[Merged],
        latents: Sequence[Latent], outcomes: Sequence[Outcome],
    ) -> Self:  # fmt: skip
        """Store the result of inference with other rows, and warn if it did not converge."""
        self._X, self._y, self._side, self._weight = X, y, side, weight
        self._store(merged, latents)
        self.converged_ = all(o.ok for o in outcomes)
        worst = max(outcomes)
        advice = worst.advice_for("estimator")
        self.fit_report_ = f"Inference again with {len(X)} rows, hyperparameters kept: {worst.name.lower()}. {advice}"
        if not self.converged_:
            warnings.warn(f"Inference did not converge. {advice}", ConvergenceWarning, stacklevel=4)
        return self
