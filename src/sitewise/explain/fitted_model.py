"""What the functions of `explain` ask of a fitted estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sitewise.data import Data
from sitewise.fitted.function import FittedFunction
from sitewise.fitted.mixture import Mixture


class Fitted:
    """The base of the estimators, as `explain` knows it.

    _X, _y, _weight   the training rows as given
    _side             what is known about each row besides y, by name
    _latents          one fitted function; for one-against-the-rest classification, one per class
    """

    n_features_in_: int
    method: Any
    _X: np.ndarray
    _y: np.ndarray
    _weight: np.ndarray
    _side: Mapping[str, np.ndarray]
    _latents: Sequence[FittedFunction]

    def _new_rows(self, X: Any) -> np.ndarray:
        """Inputs as given by the user, checked."""
        raise NotImplementedError

    def _candidates(self, data: Data) -> list[Any]:
        """The kernels to start from (`estimators.candidates.Candidate`)."""
        raise NotImplementedError

    def _log_unit(self, y: np.ndarray, side: Any) -> float | np.ndarray:
        """log of the factor between the model's units of y and the user's, for the density of each row."""
        return 0.0

    def _plain(self, q: Mixture) -> Mixture:
        """The same rows, with the side information of rows about which nothing is said."""
        return q

    def _column_names(self) -> list[str]:
        """The names of the columns: those of the table of fit, or x0, x1, …"""
        check_is_fitted(self)
        given = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if given is None else [str(name) for name in given]

    def _output_names(self) -> tuple[str, ...]:
        """What each column of an effect is about: the second of two classes, every class of more, or "" for y."""
        if not hasattr(self, "_log_proba"):
            return ("",)
        classes = [str(c) for c in getattr(self, "classes_", ())]
        return (classes[1],) if len(classes) == 2 else tuple(classes)

    def _y_units(self) -> tuple[float, float]:
        """Level and scale of y: y = level + scale · (y in the model's units)."""
        return getattr(self, "y_mean_", 0.0), getattr(self, "y_scale_", 1.0)

    def _label_values(self) -> np.ndarray | None:
        """The numbers that ordered labels stand for; None for an estimator without ordered labels."""
        return getattr(self, "label_values_", None)

    def _response_in_words(self) -> str:
        """What a predicted number is."""
        return getattr(self, "ranks_in_words_", "") or "predicted y"

    def _averages_kernels(self) -> bool:
        """Whether predictions are averages over several kernels."""
        return hasattr(self, "kernel_weights_")

    def _mean_response(self, qs: list[Mixture]) -> np.ndarray:
        """The prediction at the rows of the latent functions: class probabilities, or E[y]; one column per output."""
        if (of_classes := getattr(self, "_log_proba", None)) is not None:
            table = np.exp(of_classes(qs))
            return table[:, 1:] if table.shape[1] == 2 else table
        values = self._label_values()
        if values is not None:
            return (np.exp(self._label_logs(qs)) @ values)[:, None]  # type: ignore[attr-defined]
        return self._plain(qs[0]).y_moments()[0][:, None]
