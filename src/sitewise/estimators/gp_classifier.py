"""GPClassifier: Gaussian process classification for two or more classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from sitewise import means
from sitewise.estimators.class_predictions import ClassPredictions
from sitewise.estimators.fitted_estimator import KernelChoice, RandomState
from sitewise.estimators.refusals import refuse_missing_inputs, refuse_missing_targets, refuse_unusable_columns
from sitewise.estimators.shared_parameters import documented
from sitewise.estimators.side_information import Side
from sitewise.fitted.mixture import Functions, Mixture
from sitewise.hyperparameters import Hyperparameters
from sitewise.kernels import Kernel
from sitewise.learning.nested import Nested
from sitewise.likelihoods import BY_NAME, Likelihood, Softmax
from sitewise.methods import METHODS, Method
from sitewise.parts import Part
from sitewise.process.precision import WORKING_DTYPE
from sitewise.process.progress import Report
from sitewise.structures import Structure, structure_of

_LIKELIHOODS = {name: kind for name, kind in BY_NAME.items() if kind.support == "classes"}
_SIGNS = (1.0, -1.0)  # y of the positive class and of all other classes
_MULTI_CLASS = ("auto", "joint", "one_vs_rest")
# Algorithm 1 and MCMC are for one latent function per row.
_JOINT_METHODS = tuple(name for name, method in METHODS.items() if method.learner is Nested and not method.samples)
_CLASS_KERNELS = ("own", "shared")
MAX_JOINT_SIZE = 3_000  # rows times classes; above, joint inference takes minutes and gigabytes


@documented
class GPClassifier(ClassPredictions):
    """Gaussian process classification for scikit-learn, with calibrated class probabilities.

    Two classes have one latent function, K > 2 classes one per class.  Joint classes have a softmax likelihood and a
    shared kernel, or one kernel per class.  One against the rest, every class is a separate problem
    with its own kernel, and the probabilities are divided by their sum.

    Parameters
    ----------
    {kernel}
    {groups}
    likelihood : str or Likelihood, default="probit"
        "probit", "logit", or a likelihood object of two classes.  Joint classes have a softmax instead.
    mean : Mean, default=None
        A mean of `sitewise.means`; None is zero.
    {method}
    {integrate}
    {hyperparameters}
    {structure}
    class_weight : dict or str, default=None
        Weights of the classes, or "balanced", as in scikit-learn.
    multi_class : str, default="auto"
        How three or more classes are treated: "joint" or "one_vs_rest".  "auto" means "joint" if this is possible
        (method "hybrid", "ep", "vi" or "laplace"; no mean, no likelihood object, no parts) and affordable (rows times
        classes at most 3 000, and no inducing inputs, which take n·(classes·m)²).  `multi_class_` is the choice.
    class_kernels : str, default="shared"
        For joint classes: "own" for one set of kernel parameters per class, or "shared".
    {random_state}
    {warm_start}
    {verbose}

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels.
    class_weight_ : array of shape (n_classes,)
        The weights of the classes.
    multi_class_ : str or None
        "joint" or "one_vs_rest"; None for two classes.
    {fitted}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sitewise import GPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> train, test = slice(50, 150, 2), slice(51, 150, 2)  # versicolor and virginica
    >>> model = GPClassifier().fit(X[train], y[train])
    >>> model.predict_proba(X[test]).shape
    (50, 2)
    >>> bool(model.score(X[test], y[test]) > 0.9)
    True

    See Also
    --------
    GPOrdinal : for ordered labels such as ratings.
    TableEncoder : encodes tables with categories, dates and missing values.
    EffectDisplay : plots the effect of each column.
    ReliabilityDisplay : plots the calibration of the probabilities.
    estimators.decide : decisions by cost.

    Notes
    -----
    One against the rest, `kernel_`, `mean_` and `likelihood_` are lists with one entry per class; so is `kernel_` with
    class_kernels="own".
    """

    _typical_variance = 16.0

    def __init__(
        self,
        kernel: KernelChoice = None,
        *,
        groups: str | int | Sequence[str | int] | None = None,
        likelihood: str | Likelihood = "probit",
        mean: means.Mean | None = None,
        method: str | Method = "hybrid",
        integrate: bool | str = "auto",
        hyperparameters: Hyperparameters | None = None,
        structure: str | Structure | Part | Sequence[Part] = "auto",
        class_weight: str | dict[Any, float] | None = None,
        multi_class: str = "auto",
        class_kernels: str = "shared",
        random_state: RandomState = 0,
        warm_start: bool = False,
        verbose: bool | int | Report = False,
    ) -> None:
        self.kernel = kernel
        self.groups = groups
        self.likelihood = likelihood
        self.mean = mean
        self.method = method
        self.integrate = integrate
        self.hyperparameters = hyperparameters
        self.structure = structure
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.class_kernels = class_kernels
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    # -- fitting -----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters and the sites.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            Numbers; scale columns of very different sizes first.
        y : array of shape (n_rows,)
            Labels, strings or numbers.
        sample_weight : array of shape (n_rows,), default=None
            Weight per row, by default 1; weight 2 is equivalent to duplicating the row.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sitewise import GPClassifier
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> GPClassifier().fit(X, np.where(np.sin(X[:, 0]) > 0, "up", "down")).predict([[1.5], [4.5]])
        array(['up', 'down'], dtype='<U4')
        """
        refuse_unusable_columns(X, type(self).__name__)
        refuse_missing_inputs(X, type(self).__name__)
        refuse_missing_targets(y)
        self._keep_names(X)
        X, y = validate_data(self, X, y, dtype=WORKING_DTYPE)
        check_classification_targets(y)
        if self.multi_class not in _MULTI_CLASS:
            raise ValueError(f"multi_class must be 'auto', 'joint' or 'one_vs_rest', got {self.multi_class!r}.")
        if self.class_kernels not in _CLASS_KERNELS:
            raise ValueError(f"class_kernels must be 'own' or 'shared', got {self.class_kernels!r}.")
        weight = self._weights(sample_weight, X)
        classes, codes = np.unique(column_or_1d(y), return_inverse=True)
        seen = np.unique(codes[weight > 0])
        if len(seen) < 2:
            found = f"only one class, {str(classes[seen[0]])!r}" if len(seen) else "no row of positive weight"
            raise ValueError(f"GPClassifier needs rows of at least two classes, but y holds {found}.")
        if len(seen) < len(classes):
            absent = ", ".join(repr(str(c)) for c in np.delete(classes, seen))
            raise ValueError(f"All rows of class {absent} have weight 0; leave those rows out, or give them weight.")
        self.classes_ = classes
        self.class_weight_ = np.ones(len(classes))
        if self.class_weight is not None:
            # Imported here, as it imports large parts of scikit-learn.
            from sklearn.utils.class_weight import compute_class_weight

            self.class_weight_ = compute_class_weight(self.class_weight, classes=classes, y=y)
        self._X, self._y, self._weight = np.array(X), codes, weight * self.class_weight_[codes]
        self.multi_class_ = self._multi_class()
        self._fit(Softmax(len(classes)) if self.multi_class_ == "joint" else self._start_likelihood())
        return self

    def _functions(self) -> int:
        return len(self.classes_) if len(self.classes_) > 2 else 1

    def _multi_class(self) -> str | None:
        """Return `multi_class_` for these classes, rows and settings; None for two classes."""
        if len(self.classes_) == 2:
            return None
        reasons = []
        method, structure = Method.of(self.method), structure_of(self.structure)
        if method.name not in _JOINT_METHODS:
            reasons.append(f"method {' or '.join(map(repr, _JOINT_METHODS))}")
        sparse = structure.is_sparse(len(self._X), len(self.classes_))
        if sparse and self.class_kernels == "own":
            reasons.append("class_kernels='shared' with inducing inputs")
        if not structure.joint:
            reasons.append(f"a structure other than {type(structure).__name__}")
        if self.mean is not None:
            reasons.append("no mean, which would be the same for all classes and change nothing")
        if isinstance(self.likelihood, Likelihood):
            reasons.append("no likelihood object: the likelihood is a softmax")
        if self.multi_class == "joint" and reasons:
            raise ValueError(f"multi_class='joint' needs {'; '.join(reasons)}. Change that, or use 'one_vs_rest'.")
        large = sparse or len(self._X) * len(self.classes_) > MAX_JOINT_SIZE
        if self.multi_class == "one_vs_rest" or (self.multi_class == "auto" and (reasons or large)):
            return "one_vs_rest"
        return "joint"

    def _kernels(self, kernel: Kernel, likelihood: Likelihood) -> Kernel | list[Kernel]:
        return [kernel] * likelihood.latents if likelihood.latents > 1 and self.class_kernels == "own" else kernel

    def _start_likelihood(self) -> Likelihood:
        if isinstance(self.likelihood, Likelihood):
            return self.likelihood
        if not isinstance(self.likelihood, str) or self.likelihood not in _LIKELIHOODS:
            raise ValueError(
                f"likelihood must be one of {', '.join(map(repr, _LIKELIHOODS))} or a likelihood object, got "
                f"{self.likelihood!r}."
            )
        return _LIKELIHOODS[self.likelihood]()

    @property
    def _joint(self) -> bool:
        return getattr(self, "multi_class_", None) == "joint"  # not in model files of early versions

    def _targets(self, y: np.ndarray, side: Side) -> list[np.ndarray]:
        if len(self.classes_) == 2:
            return [np.where(y == 1, 1.0, -1.0)]
        if self._joint:
            return [y.astype(float)]
        return [np.where(y == k, 1.0, -1.0) for k in range(len(self.classes_))]

    def _check_y(self, y: Any) -> np.ndarray:
        y = column_or_1d(y)
        codes = np.searchsorted(self.classes_, y) if _comparable(self.classes_, y) else np.zeros(len(y), int)
        codes = np.minimum(codes, len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if np.any(unknown):
            raise ValueError(
                f"y holds {str(np.asarray(y)[unknown][0])!r}, which is not one of the classes of fit: "
                f"{', '.join(repr(str(c)) for c in self.classes_)}."
            )
        return codes

    def update(self, X_new: Any, y_new: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows, keep the hyperparameters, and continue inference from the present sites until it converges.

        Parameters
        ----------
        X_new : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        y_new : array of shape (n_rows,)
            Their labels, entries of `classes_`.
        sample_weight : array of shape (n_rows,), default=None
            Weight per row, by default 1; `class_weight` is applied as well.

        Returns
        -------
        self
        """
        weight = self._weights(sample_weight, self._new_rows(X_new))
        codes = self._check_y(y_new)
        if len(codes) == len(weight):
            weight = weight * self.class_weight_[codes]
        return super().update(X_new, y_new, weight)

    # -- prediction ----------------------------------------------------------------------------------------

    def _log_odds_terms(self, qs: list[Mixture]) -> np.ndarray:
        """Return log p and log(1 − p) of the positive class per latent function, shape (functions, 2, rows)."""
        return np.stack([[q.log_density(sign) for sign in _SIGNS] for q in qs])

    def _class_logs(self, qs: list[Mixture]) -> np.ndarray:
        return qs[0].log_probabilities() if self._joint else _shares(self._log_odds_terms(qs))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return log odds of `classes_[1]`, or of each class against the rest; finite even if p rounds to 0 or 1.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.

        Returns
        -------
        log_odds : array of shape (n_rows,) or (n_rows, n_classes)
            One number per row for two classes, one per class for more.
        """
        if self._joint:
            logs = self.predict_log_proba(X)
            others = [logsumexp(np.delete(logs, k, axis=1), axis=1) for k in range(logs.shape[1])]
            return logs - np.stack(others, axis=1)
        terms = self._log_odds_terms(self._at(X))
        odds = terms[:, 0] - terms[:, 1]
        return odds[0] if len(odds) == 1 else odds.T

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable class per row.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.

        Returns
        -------
        labels : array of shape (n_rows,)
            Entries of `classes_`.  If errors have different costs, use `sitewise.estimators.decide` with
            `predict_proba`.

        Examples
        --------
        >>> import numpy as np
        >>> from sitewise import GPClassifier
        >>> X = np.linspace(-1, 1, 20)[:, None]
        >>> model = GPClassifier().fit(X, X[:, 0] > 0)
        >>> model.predict([[0.9]])
        array([ True])
        """
        odds = self.decision_function(X)
        best = (odds > 0).astype(int) if odds.ndim == 1 else np.argmax(odds, axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy: the share of rows whose class is the most probable class.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            Test rows, with the same columns as in fit.
        y : array of shape (n_rows,)
            Their labels.
        sample_weight : array of shape (n_rows,), default=None
            Weight per row, by default 1.
        """
        return float(super().score(X, y, sample_weight))

    def _drawn_codes(self, drawn: list[Functions], rng: np.random.RandomState) -> np.ndarray:
        if self._joint:
            return super()._drawn_codes(drawn, rng)
        terms = np.stack([[one.log_prob(sign) for sign in _SIGNS] for one in drawn])
        cumulative = np.cumsum(np.exp(_shares(terms.reshape(*terms.shape[:2], -1))), axis=1)
        codes = np.sum(rng.uniform(size=(len(cumulative), 1)) > cumulative[:, :-1], axis=1)
        return codes.reshape(terms.shape[2:])


def _shares(terms: np.ndarray) -> np.ndarray:
    """Return log class probabilities from `_log_odds_terms`."""
    logs = terms[0, ::-1].T if len(terms) == 1 else terms[:, 0].T
    return logs - logsumexp(logs, axis=1, keepdims=True)


def _comparable(classes: np.ndarray, y: np.ndarray) -> bool:
    numbers = [a.dtype.kind in "biuf" for a in (classes, np.asarray(y))]
    return numbers[0] == numbers[1]
