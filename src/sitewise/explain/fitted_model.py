"""The interface of fitted estimators for the functions of `explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sitewise.data import Data
from sitewise.fitted.function import FittedFunction
from sitewise.fitted.latent import Latent
from sitewise.fitted.mixture import Mixture
from sitewise.kernels.terms import level_columns
from sitewise.likelihoods import Likelihood


class Fitted:
    """Base class of the estimators with the attributes that `explain` uses.

    _X, _y, _weight   the training rows as given
    _side             side information per row, by name
    _names            column names from a `NamedArray`, which the previous step of a Pipeline may return; or absent
    _latents          one fitted function; for one-against-the-rest classification, one per class
    """

    n_features_in_: int
    method: Any
    _X: np.ndarray
    _y: np.ndarray
    _weight: np.ndarray
    _side: Mapping[str, np.ndarray]
    _names: tuple[str, ...]
    _latents: Sequence[FittedFunction]

    def _new_rows(self, X: Any) -> np.ndarray:
        """Check inputs given by the user."""
        raise NotImplementedError

    def _candidates(self, likelihood: Likelihood, data: Data) -> list[Any]:
        """Return the kernels to start from (`estimators.candidates.Candidate`)."""
        raise NotImplementedError

    def _learning(self) -> Any:
        """Return how hyperparameters are learned (`estimators.training.Approximate` or `Sampling`)."""
        raise NotImplementedError

    def _log_unit(self, y: np.ndarray, side: Any) -> float | np.ndarray:
        """Return the log of the factor between the user's and the model's units of y, per row, for densities."""
        return 0.0

    def _plain(self, q: Mixture) -> Mixture:
        """Return the mixture with default side information."""
        return q

    def _column_names(self) -> list[str]:
        """Return the column names of the table of fit, or x0, x1, …"""
        check_is_fitted(self)
        return self._given_names() or [f"x{i}" for i in range(self.n_features_in_)]

    def _given_names(self) -> list[str]:
        """Return the column names of the table of fit; empty if it had none."""
        return [str(name) for name in getattr(self, "feature_names_in_", getattr(self, "_names", ()))]

    def _kernel_columns(self) -> list[int]:
        """Return the numbers of the columns that the kernel sees."""
        return list(range(self.n_features_in_))

    def _level_columns(self) -> set[int]:
        """Return the numbers of the columns whose values are levels: groups, and the names of series."""
        seen, found = self._kernel_columns(), set(range(self.n_features_in_)) - set(self._kernel_columns())
        for latent in self._latents:
            kernels = latent.model.kernels
            for kernel in kernels if isinstance(kernels, list) else [kernels]:
                found |= level_columns(kernel, seen)
        return found

    def _output_names(self) -> tuple[str, ...]:
        """Return the names of the outputs: the second of two classes, every class of more, or "" for y."""
        if not hasattr(self, "_class_logs") or self._label_values() is not None:
            return ("",)
        classes = [str(c) for c in getattr(self, "classes_", ())]
        return (classes[1],) if len(classes) == 2 else tuple(classes)

    def _y_units(self) -> tuple[float, float]:
        """Return level and scale of y: y = level + scale · (y in the model's units)."""
        return getattr(self, "y_mean_", 0.0), getattr(self, "y_scale_", 1.0)

    def _label_values(self) -> np.ndarray | None:
        """Return the numeric values of ordered labels; None for an estimator without ordered labels."""
        return getattr(self, "label_values_", None)

    def _response_in_words(self) -> str:
        """Return a description of predicted numbers."""
        return getattr(self, "ranks_in_words_", "") or "predicted y"

    def _averages_kernels(self) -> bool:
        """Return whether predictions are averages over several kernels."""
        if hasattr(self, "kernel_weights_"):  # not in model files of early versions
            return True
        return any(len(latent.by_kernel()) > 1 for latent in self._latents if isinstance(latent, Latent))

    def _mean_response(self, qs: list[Mixture]) -> np.ndarray:
        """Return class probabilities or E[y], given the latent functions; one column per output."""
        if (of_classes := getattr(self, "_class_logs", None)) is not None:
            table, values = np.exp(of_classes(qs)), self._label_values()
            if values is not None:
                return (table @ values)[:, None]
            return table[:, 1:] if table.shape[1] == 2 else table
        return self._plain(qs[0]).y_moments()[0][:, None]


def number_of(feature: Any, names: list[str]) -> int:
    """Return the number of a column, given its name or number; raise ValueError if there is none."""
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and 0 <= feature < len(names):
        return int(feature)
    raise ValueError(f"There is no column {feature!r}; give one of {', '.join(names)}, or a number from 0.")
