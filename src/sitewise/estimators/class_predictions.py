"""Predictions of GPClassifier and GPOrdinal: class probabilities, log scores, draws of labels, leave-one-out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state

from sitewise.checks import at_least
from sitewise.estimators.base import GPBase
from sitewise.estimators.fitted_estimator import RandomState
from sitewise.fitted.loo import ClassLoo
from sitewise.fitted.mixture import Functions, Mixture


class ClassPredictions(ClassifierMixin, GPBase):
    """Methods of a fitted estimator of classes, based on `_class_logs`."""

    classes_: np.ndarray

    def _class_logs(self, qs: list[Mixture]) -> np.ndarray:
        """Return log class probabilities per row, given the latent functions; one column per class."""
        raise NotImplementedError

    def _check_y(self, y: Any) -> np.ndarray:
        """Return the number of the class per row; raise ValueError for unknown classes."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict class probabilities.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.

        Returns
        -------
        probabilities : array of shape (n_rows, n_classes)
            One column per entry of `classes_`.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict log class probabilities.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.

        Returns
        -------
        log_probabilities : array of shape (n_rows, n_classes)
            One column per entry of `classes_`.
        """
        return self._class_logs(self._at(X))

    def log_predictive_density(self, X: Any, y: Any) -> np.ndarray:
        """Return log p(y | x) per row: the log score of the observed class.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        y : array of shape (n_rows,)
            The observed labels.

        Returns
        -------
        log_density : array of shape (n_rows,)
            In nats.
        """
        logs, codes = self.predict_log_proba(X), self._check_y(y)
        if len(codes) != len(logs):
            raise ValueError(f"X has {len(logs)} rows but y has {len(codes)}; give one y per row.")
        return logs[np.arange(len(codes)), codes]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None) -> np.ndarray:
        """Draw labels jointly for all rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        n_samples : int, default=1
            The number of draws.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        labels : array of shape (n_rows, n_samples)
            Entries of `classes_`.
        """
        at_least("n_samples", n_samples, 1)
        X = self._new_rows(X)
        rng = check_random_state(random_state)
        drawn = [latent.draw(int(rng.randint(2**31 - 1)), X, n_samples) for latent in self._latents]
        return self.classes_[self._drawn_codes(drawn, rng).T]

    def _drawn_codes(self, drawn: list[Functions], rng: np.random.RandomState) -> np.ndarray:
        """Return numbers of classes, one row per draw, given draws of the latent functions."""
        return drawn[0].observe(int(rng.randint(2**31 - 1))).astype(int)

    @property
    def loo_(self) -> ClassLoo:
        """Approximate leave-one-out log densities and probabilities of the training rows, without refits."""
        logs = self._class_logs(self._cavities())
        return ClassLoo(logs[np.arange(len(logs)), self._y], np.exp(logs))
