"""GPOrdinal: Gaussian process ordinal regression for ordered labels such as ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.utils.validation import column_or_1d, validate_data

from sitewise import means
from sitewise.estimators.class_predictions import ClassPredictions
from sitewise.estimators.fitted_estimator import KernelChoice, RandomState
from sitewise.estimators.intervals import Intervals
from sitewise.estimators.refusals import refuse_missing_inputs, refuse_missing_targets, refuse_unusable_columns
from sitewise.estimators.shared_parameters import documented
from sitewise.estimators.side_information import Side
from sitewise.fitted.mixture import Mixture
from sitewise.hyperparameters import Hyperparameters
from sitewise.likelihoods import Ordinal
from sitewise.methods import Method
from sitewise.parts import Part
from sitewise.process.precision import WORKING_DTYPE
from sitewise.process.progress import Report
from sitewise.structures import Structure
from sitewise.tables.table import ranked_categories

MAX_LABELS = 50


@documented
class GPOrdinal(Intervals, ClassPredictions):
    """Ordinal regression for scikit-learn: ordered labels such as ratings 1 to 5, or "low" < "mid" < "high".

    The model has one latent function and learned cut points; the label is the interval between cut points that contains
    the function plus Gaussian noise.  Neighbouring labels are therefore confused more often than distant labels, which
    GPClassifier does not take into account.

    Parameters
    ----------
    {kernel}
    order : sequence, default=None
        The labels from the lowest to the highest, as in ["low", "mid", "high"]; None sorts numbers by their size and
        takes the order of an ordered category of pandas.
    {groups}
    mean : Mean, default=None
        A mean of `sitewise.means`; None is zero.
    {method}
    {integrate}
    {hyperparameters}
    {structure}
    {random_state}
    {warm_start}
    {verbose}

    Attributes
    ----------
    classes_ : array of shape (n_labels,)
        The labels in their order.
    label_values_ : array of shape (n_labels,)
        The numeric values of the labels: the labels if they are numbers, else their ranks from 1.
    ranks_in_words_ : str
        A description of `label_values_` if they are ranks, else empty.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from sitewise import GPOrdinal
    >>> X = np.linspace(0, 3, 30)[:, None]
    >>> stars = 1 + np.arange(30) // 10
    >>> model = GPOrdinal(integrate=False).fit(X, stars)
    >>> model.predict([[0.2], [1.5], [2.8]])
    array([1, 2, 3])

    See Also
    --------
    GPClassifier : for labels without an order.
    duels : pairwise comparisons, also with ties.
    """

    _typical_variance = 16.0

    def __init__(
        self,
        kernel: KernelChoice = None,
        *,
        order: Sequence[Any] | None = None,
        groups: str | int | Sequence[str | int] | None = None,
        mean: means.Mean | None = None,
        method: str | Method = "hybrid",
        integrate: bool | str = "auto",
        hyperparameters: Hyperparameters | None = None,
        structure: str | Structure | Part | Sequence[Part] = "auto",
        random_state: RandomState = 0,
        warm_start: bool = False,
        verbose: bool | int | Report = False,
    ) -> None:
        self.kernel = kernel
        self.order = order
        self.groups = groups
        self.mean = mean
        self.method = method
        self.integrate = integrate
        self.hyperparameters = hyperparameters
        self.structure = structure
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    # -- fitting -----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters, the cut points and the sites.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            Numbers; scale columns of very different sizes first.
        y : array of shape (n_rows,)
            Labels: numbers with any spacing, an ordered category of pandas, or strings whose order is given by `order`.
        sample_weight : array of shape (n_rows,), default=None
            Weight per row, by default 1; weight 2 is equivalent to duplicating the row.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sitewise import GPOrdinal
        >>> X = np.linspace(0, 3, 30)[:, None]
        >>> size = np.array(["low", "mid", "high"])[np.arange(30) // 10]
        >>> model = GPOrdinal(order=["low", "mid", "high"]).fit(X, size)
        >>> model.predict([[0.2], [2.8]])
        array(['low', 'high'], dtype='<U4')
        """
        refuse_unusable_columns(X, type(self).__name__)
        refuse_missing_inputs(X, type(self).__name__)
        refuse_missing_targets(y)
        ranked = ranked_categories(y)
        self._keep_names(X)
        X, y = validate_data(self, X, y, dtype=WORKING_DTYPE, ensure_min_samples=2)
        y = column_or_1d(y)
        if self.order is None and ranked is not None:
            present = set(y.tolist())
            self.classes_ = _in_order(y, [label for label in ranked if label in present])
        else:
            self.classes_ = _in_order(y, self.order)
        self._X, self._y, self._weight = np.array(X), self._check_y(y), self._weights(sample_weight, X)
        seen = np.bincount(self._y[self._weight > 0], minlength=len(self.classes_))
        if np.any(seen == 0):
            raise ValueError(
                f"No row has the label {str(self.classes_[np.argmin(seen)])!r} and positive weight; leave the label "
                "out of order, or give its rows weight."
            )
        self._fit(Ordinal.of(len(self.classes_)))
        return self

    def _targets(self, y: np.ndarray, side: Side) -> list[np.ndarray]:
        return [y.astype(float)]

    def _check_y(self, y: Any) -> np.ndarray:
        codes = {label: code for code, label in enumerate(self.classes_.tolist())}
        labels = np.asarray(column_or_1d(y)).tolist()
        unknown = [label for label in labels if label not in codes]
        if unknown:
            raise ValueError(
                f"y holds {str(unknown[0])!r}, which is not one of the labels "
                f"{', '.join(repr(str(c)) for c in self.classes_)}."
            )
        return np.array([codes[label] for label in labels], int)

    @property
    def label_values_(self) -> np.ndarray:
        """The numeric values of the labels: the labels if they are numbers, else their ranks from 1."""
        try:
            return self.classes_.astype(float)
        except ValueError:
            return np.arange(1.0, len(self.classes_) + 1)

    @property
    def ranks_in_words_(self) -> str:
        """A description of `label_values_` if they are ranks, else empty."""
        try:
            self.classes_.astype(float)
        except ValueError:
            return f"rank, from 1 ({self.classes_[0]}) to {len(self.classes_)} ({self.classes_[-1]})"
        return ""

    # -- prediction ----------------------------------------------------------------------------------------

    def _class_logs(self, qs: list[Mixture]) -> np.ndarray:
        (q,) = qs
        logs = np.stack([q.log_density(float(code)) for code in range(len(self.classes_))], axis=1)
        return logs - logsumexp(logs, axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable label per row.

        If labels are numbers, the expected rating is `predict_proba(X) @ classes_`.  `predict_interval(X)` gives a
        range of labels.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.

        Returns
        -------
        labels : array of shape (n_rows,)
            Entries of `classes_`.
        """
        return self.classes_[np.argmax(self.predict_log_proba(X), axis=1)]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy: the share of rows whose label is the most probable label.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            Test rows, with the same columns as in fit.
        y : array of shape (n_rows,)
            Their labels.
        sample_weight : array of shape (n_rows,), default=None
            Weight per row, by default 1.
        """
        codes = self._check_y(y)
        right = np.argmax(self.predict_log_proba(X), axis=1) == codes
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight, float)))

    def _quantiles(self, X: Any, levels: np.ndarray, given: Mapping[str, Any]) -> np.ndarray:
        if given:
            raise ValueError(f"Ordered labels have no side information; leave {next(iter(given))} out.")
        (q,) = self._at(X)
        return self.classes_[q.quantiles(levels).astype(int)]


def _in_order(y: np.ndarray, order: Sequence[Any] | None) -> np.ndarray:
    """Return the labels from the lowest to the highest."""
    if order is None:
        labels = np.unique(y)
        if labels.dtype.kind not in "biuf":
            shown = ", ".join(repr(str(label)) for label in labels[:5])
            raise ValueError(
                f"Labels that are strings need an order; give order= with the labels ({shown}) from the lowest to the "
                "highest, or y as an ordered category of pandas."
            )
    else:
        labels = np.asarray(order)
        if labels.ndim != 1 or len(np.unique(labels)) != len(labels):
            raise ValueError(f"order must list every label once, from the lowest to the highest; got {order!r}.")
    if len(labels) > MAX_LABELS:
        raise ValueError(f"y holds {len(labels)} different labels; use GPRegressor for numbers.")
    if len(labels) < 3:
        raise ValueError(f"GPOrdinal needs at least three labels, got {len(labels)}; use GPClassifier for two.")
    return labels
