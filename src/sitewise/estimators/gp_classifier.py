"""GPClassifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from sitewise import means
from sitewise.estimators.base import GPBase, RandomState
from sitewise.estimators.distinct_rows import refuse_dates
from sitewise.estimators.inducing_settings import count_of
from sitewise.estimators.loo import ClassLoo
from sitewise.estimators.side_information import Side
from sitewise.evidence import Evidence
from sitewise.fitted.mixture import Mixture
from sitewise.hyperpriors import HyperPrior
from sitewise.inference import EP, Inference
from sitewise.kernels import Kernel
from sitewise.learning.nested import Nested
from sitewise.likelihoods import BY_NAME, Likelihood, Softmax
from sitewise.methods import METHODS
from sitewise.parameters import Groups
from sitewise.process.precision import WORKING_DTYPE
from sitewise.process.progress import Report

_LIKELIHOODS = {name: kind for name, kind in BY_NAME.items() if kind.support == "classes"}
_SIGNS = (1.0, -1.0)  # y of the positive class, and of the others
_MULTI_CLASS = ("auto", "joint", "one_vs_rest")
# EP has no sites for several latent functions of a row, and Algorithm 1 is for one.
_JOINT_METHODS = tuple(
    name
    for name, method in METHODS.items()
    if method.learner is Nested
    and (pair := method.pair_on("classes")) is not None
    and not isinstance(pair.inference, EP)
)
_CLASS_KERNELS = ("own", "shared")
_JOINT_SIZE = 3_000  # rows times classes beyond which joint inference takes minutes and gigabytes


class GPClassifier(ClassifierMixin, GPBase):
    """Gaussian process classification for scikit-learn.

    Two classes have one latent function; K > 2 classes have one each.  Joint classes share a softmax likelihood, each
    with its own kernel or all with one.  One against the rest, every class is a separate problem with its own kernel,
    and the probabilities are divided by their sum.

    Parameters
    ----------
    kernel : a kernel of `sitewise.kernels` whose values are the starting point; None is Matern52().  "average" fits an
        isotropic kernel, two with shrunk lengthscales and an additive one with pairs, and weights their predictions by
        their evidences with the hyperparameters integrated out; a list of kernels is averaged over in the same way
    ard : True gives every column of X a lengthscale of its own, in a given kernel too, which then starts from the
        lengthscale that it has; "shrunk" draws them towards a common one (`kernels.Shrunk`); False leaves the kernel as
        it is.  "auto" is "shrunk" for the default kernel of two to a hundred columns, else False
    groups : name or number of a column, or several, whose values name groups of rows: it is no input of the kernel, and
        every group gets an offset of its own (`kernels.Index`); groups that fit has not seen are predicted without one
    additive : True for a sum of effects of single columns and of pairs, 1 without pairs (`kernels.Additive`);
        `predict_terms`, `term_shares` and `effect` show them.  Its many hyperparameters have the weak priors of
        `integrate`
    likelihood : "probit", "logit", or a likelihood object of two classes; joint classes have a softmax instead
    mean : a mean of `sitewise.means`; None is zero
    method : "hybrid" (VI sites; EP evidence, or Laplace's for joint classes; with inducing inputs EP, for joint classes
        VI), "ep", "vi", "laplace", "hybrid-vem", or "mcmc": draws of hyperparameters and latent function, over which
        predictions are averaged
    inference, evidence, gradient, power : parts of the method, to replace its own
    max_iter, tol : when to stop learning (iterations; gradient per row); None is the learner's own
    n_restarts : further random starts
    integrate : True averages predictions over the hyperparameters instead of taking the best ones: nodes around the
        optimum, weighted by the evidence and a weak prior, log θ ~ N(log start, 2²) where `priors` has none.  "grid"
        or "lattice" (for up to two hyperparameters), "ccd" (more) or "laplace" choose the design;
        fit_report_ says how good it is
    sampling : for method="mcmc": {"draws": 250, "warmup": 25, "chains": 4, "thin": 1} or a part of it
    bounds, priors : name or pattern of a hyperparameter, as in "kernel.lengthscale" → (low, high), or → prior.  With
        method="mcmc" a positive one without a prior gets a wide one, log θ ~ N(log of its starting value, 2²)
    fixed, train : names or patterns of hyperparameters to hold, or to train although held by default; fixed="*"
        keeps the kernel as given
    tied : groups of hyperparameters that share one value, as in [("kernel.parts.0.lengthscale",
        "kernel.parts.1.lengthscale")] or ["kernel.parts.*.lengthscale"]
    structure : "full", O(n³); "markov" for X of one column, the time, which gives the same numbers in O(n) for kernels
        that have this form (`kernels.state_space`); "auto" is "markov" from 2 000 rows on where possible
    series : the column of X, by number or name, whose values name independent series that share all hyperparameters, of
        any lengths; the other column is the time.  It makes structure "markov".  A new value at prediction is a series
        without rows, of which the prior is known
    n_inducing : a number m for a sparse GP, O(nm²), with m inducing inputs; "auto" for as many as fit into about 15 s
        on two cores, or "60s" for another time (`priors.inducing.how_many`: a rule of the numbers of rows, no clock;
        the full GP where that is as fast); hyperparameters are then learned with at most 20 000 rows; None for none
    inducing : how they are chosen: "kmeans"; "refreshed", k-means once more in the lengthscales of columns that some of
        the rows have taught; "trained", moved from those of k-means to where the evidence is greatest, which takes
        several times as long and is worth it where m is small; "greedy"; or a table of inputs
    jitter : added to the diagonal of the training covariance (of the inducing inputs, as a share of its mean)
    class_weight : None, "balanced" or {class: weight}, as in scikit-learn
    multi_class : "joint", "one_vs_rest", or "auto": joint where that is possible (method "hybrid", "vi" or "laplace",
        no mean or likelihood object) and affordable (rows times classes at most 3 000, and no inducing inputs, with
        which it costs n·(classes·m)²), else one against the rest; `multi_class_` says which
    class_kernels : for joint classes: "own", every class learns its own values of the kernel's parameters, or "shared"
    random_state, warm_start, verbose : as in scikit-learn; warm_start starts from the last hyperparameters; verbose may
        be a function, which is called with what is being done and the share of it that is done

    Attributes
    ----------
    classes_, multi_class_ : the labels, and what became of `multi_class`
    kernel_, mean_, likelihood_ : what was learned: lists of one per class if one against the rest, and kernel_ also if
        joint classes have their own; with method="mcmc", at the median of the draws
    n_iter_, converged_, fit_report_ : how the fit went, the last in plain words
    evidence_, sites_, loo_, influence_ : of the training rows, computed on request
    samples_ : with method="mcmc", the draws, instead of evidence_ to influence_
    """

    _typical_variance = 16.0

    def __init__(
        self,
        kernel: Kernel | Sequence[Kernel] | str | None = None,
        *,
        ard: bool | str = "auto",
        groups: str | int | Sequence[str | int] | None = None,
        additive: bool | int = False,
        likelihood: str | Likelihood = "probit",
        mean: means.Mean | None = None,
        method: str = "hybrid",
        inference: str | Inference | None = None,
        evidence: str | Evidence | None = None,
        gradient: str | None = None,
        power: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        n_restarts: int = 0,
        integrate: bool | str = False,
        sampling: dict[str, int] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        priors: Mapping[str, HyperPrior] | None = None,
        fixed: str | Sequence[str] | None = None,
        train: str | Sequence[str] | None = None,
        tied: Groups | None = None,
        structure: str = "auto",
        series: int | str | None = None,
        n_inducing: int | str | None = None,
        inducing: str | ArrayLike = "kmeans",
        jitter: float = 0.0,
        class_weight: str | dict[Any, float] | None = None,
        multi_class: str = "auto",
        class_kernels: str = "shared",
        random_state: RandomState = None,
        warm_start: bool = False,
        verbose: bool | int | Report = False,
    ) -> None:
        self.kernel = kernel
        self.ard = ard
        self.groups = groups
        self.additive = additive
        self.likelihood = likelihood
        self.mean = mean
        self.method = method
        self.inference = inference
        self.evidence = evidence
        self.gradient = gradient
        self.power = power
        self.max_iter = max_iter
        self.tol = tol
        self.n_restarts = n_restarts
        self.integrate = integrate
        self.sampling = sampling
        self.bounds = bounds
        self.priors = priors
        self.fixed = fixed
        self.train = train
        self.tied = tied
        self.structure = structure
        self.series = series
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.jitter = jitter
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
            Numbers; columns of very different sizes are better scaled first.
        y : array of shape (n_rows,)
            Labels, texts or numbers.
        sample_weight : array of shape (n_rows,), default 1
            How often each row counts: a row of weight 2 is the same as two copies of it.

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
        refuse_dates(X)
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
        self.class_weight_ = compute_class_weight(self.class_weight, classes=classes, y=y)
        self._X, self._y, self._weight = np.array(X), codes, weight * self.class_weight_[codes]
        self.multi_class_ = self._multi_class()
        self._fit(Softmax(len(classes)) if self.multi_class_ == "joint" else self._start_likelihood())
        return self

    def _multi_class(self) -> str | None:
        """The value of `multi_class_` for these classes, rows and settings; None for two classes."""
        if len(self.classes_) == 2:
            return None
        reasons = []
        if self.method not in _JOINT_METHODS or self.inference == "ep" or isinstance(self.inference, EP):
            reasons.append(f"method {' or '.join(map(repr, _JOINT_METHODS))}, and no EP")
        inputs = count_of(self.n_inducing, len(self._X), 1, len(self.classes_))
        sparse = inputs is not None or not isinstance(self.inducing, str)
        if sparse and self.class_kernels == "own":
            reasons.append("class_kernels='shared' with inducing inputs")
        if self.structure == "markov" or self.series is not None:
            reasons.append("a structure other than 'markov', and no series")
        if self.mean is not None:
            reasons.append("no mean, which would be the same for all classes and change nothing")
        if isinstance(self.likelihood, Likelihood):
            reasons.append("no likelihood object: the likelihood is a softmax")
        if self.multi_class == "joint" and reasons:
            raise ValueError(f"multi_class='joint' needs {'; '.join(reasons)}. Change that, or use 'one_vs_rest'.")
        large = sparse or len(self._X) * len(self.classes_) > _JOINT_SIZE
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
        return getattr(self, "multi_class_", None) == "joint"  # a model file of an early version lacks it

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
                f"y holds {str(np.asarray(y)[unknown][0])!r}, which is none of the classes of fit: "
                f"{', '.join(repr(str(c)) for c in self.classes_)}."
            )
        return codes

    def update(self, X_new: Any, y_new: Any, sample_weight: ArrayLike | None = None) -> Self:
        weight = self._weights(sample_weight, self._new_rows(X_new))
        codes = self._check_y(y_new)
        if len(codes) == len(weight):
            weight = weight * self.class_weight_[codes]
        return super().update(X_new, y_new, weight)

    update.__doc__ = GPBase.update.__doc__

    # -- prediction ----------------------------------------------------------------------------------------

    def _log_odds_terms(self, qs: list[Mixture]) -> np.ndarray:
        """log p and log(1 − p) of each latent function's positive class: shape (functions, 2, rows)."""
        return np.stack([[q.log_density(sign) for sign in _SIGNS] for q in qs])

    def _log_proba(self, qs: list[Mixture]) -> np.ndarray:
        return qs[0].log_probabilities() if self._joint else _shares(self._log_odds_terms(qs))

    def decision_function(self, X: Any) -> np.ndarray:
        """Log odds of `classes_[1]`, or of each class against the rest; they do not saturate where p is 0 or 1."""
        if self._joint:
            logs = self.predict_log_proba(X)
            others = [logsumexp(np.delete(logs, k, axis=1), axis=1) for k in range(logs.shape[1])]
            return logs - np.stack(others, axis=1)
        terms = self._log_odds_terms(self._at(X))
        odds = terms[:, 0] - terms[:, 1]
        return odds[0] if len(odds) == 1 else odds.T

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the columns of fit.

        Returns
        -------
        labels : array of shape (n_rows,)
            Entries of `classes_`.  Where errors have different costs, `sitewise.estimators.decide` chooses by
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

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities, one column per entry of `classes_`."""
        return self._log_proba(self._at(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities: shape (n_rows, n_classes), one column per entry of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def log_predictive_density(self, X: Any, y: Any) -> np.ndarray:
        """log p(y | x) of each row."""
        logs = self.predict_log_proba(X)
        codes = self._check_y(y)
        if len(codes) != len(logs):
            raise ValueError(f"X has {len(logs)} rows but y has {len(codes)}; give one y per row.")
        return logs[np.arange(len(codes)), codes]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None) -> np.ndarray:
        """Labels drawn jointly for all rows: shape (rows, n_samples)."""
        X = self._new_rows(X)
        rng = check_random_state(random_state)
        drawn = [latent.draw(int(rng.randint(2**31 - 1)), X, n_samples) for latent in self._latents]
        if self._joint:
            return self.classes_[drawn[0].observe(int(rng.randint(2**31 - 1))).astype(int).T]
        terms = np.stack([[one.log_prob(sign).ravel() for sign in _SIGNS] for one in drawn])
        cumulative = np.cumsum(np.exp(_shares(terms)), axis=1)
        codes = np.sum(rng.uniform(size=(len(cumulative), 1)) > cumulative[:, :-1], axis=1)
        return self.classes_[codes.reshape(n_samples, len(X)).T]

    @property
    def loo_(self) -> ClassLoo:
        """Leave-one-out log densities and probabilities of the training rows, without refitting: approximate."""
        logs = self._log_proba(self._cavities())
        return ClassLoo(logs[np.arange(len(logs)), self._y], np.exp(logs))


def _shares(terms: np.ndarray) -> np.ndarray:
    """Log probabilities of the classes from `_log_odds_terms`."""
    logs = terms[0, ::-1].T if len(terms) == 1 else terms[:, 0].T
    return logs - logsumexp(logs, axis=1, keepdims=True)


def _comparable(classes: np.ndarray, y: np.ndarray) -> bool:
    numbers = [a.dtype.kind in "biuf" for a in (classes, np.asarray(y))]
    return numbers[0] == numbers[1]
