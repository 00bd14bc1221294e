"""GPRegressor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from sitewise import means
from sitewise.data import Data
from sitewise.estimators.base import GPBase, RandomState
from sitewise.estimators.loo import ValueLoo
from sitewise.estimators.outliers import Outliers, find_outliers
from sitewise.estimators.rows import merge
from sitewise.evidence import Evidence
from sitewise.hyperpriors import HyperPrior
from sitewise.inference import Inference
from sitewise.kernels import Kernel
from sitewise.likelihoods import BY_NAME, Likelihood
from sitewise.runtime.precision import WORKING_DTYPE
from sitewise.runtime.progress import Report
from sitewise.sites import Sites

# Classes are for GPClassifier.
_LIKELIHOODS = {name: kind for name, kind in BY_NAME.items() if kind.support != "classes"}
_ROBUST = ", ".join(repr(name) for name, kind in _LIKELIHOODS.items() if kind.robust)


class GPRegressor(RegressorMixin, GPBase):
    """Gaussian process regression for scikit-learn, with Gaussian or any other noise: robust, counts, shares, …

    Parameters
    ----------
    kernel : a kernel of `sitewise.kernels` whose values are the starting point; None is Matern52()
    likelihood : "gaussian"; "student_t" or "laplace_noise" (robust); "poisson" or "negative_binomial" (counts);
        "gamma" or "log_normal" (positive values); "beta" (shares in (0, 1)); "ordinal" (ordered classes 0, 1, 2, …); or
        a likelihood object
    mean : a mean of `sitewise.means`; None is zero, and a trained constant where y is not f plus noise
    normalize_y : learn on (y − mean)/deviation of the training targets; "auto" does so for Gaussian and robust
        noise.  Predictions, densities and evidences are always in the units of y; kernel, likelihood, priors and
        bounds, given and fitted, refer to the normalised target
    method : "hybrid" (VI sites, EP evidence), "ep", "vi", "laplace", "hybrid-vem", or "mcmc": draws of hyperparameters
        and latent function, over which predictions are averaged
    inference, evidence, gradient, power : parts of the method, to replace its own
    max_iter, tol : when to stop learning (iterations; gradient per row); None is the learner's own
    n_restarts : further random starts
    sampling : for method="mcmc": {"draws": 1000, "warmup": 200, "chains": 4, "thin": 1} or a part of it
    bounds, priors : name or pattern of a hyperparameter, as in "kernel.lengthscale" → (low, high); name → prior.  With
        method="mcmc" a positive one without a prior gets a wide one, log θ ~ N(log of its starting value, 2²)
    fixed, train : names or patterns of hyperparameters to hold, or to train although held by default, such as
        train="likelihood.df"; fixed="*" keeps everything as given
    n_inducing : None for the full GP, O(n³); a number m for a sparse GP, O(nm²), with m inducing inputs
    inducing : how they are chosen, "kmeans" or "greedy", or a table of inputs; train="inducing" moves them too
    jitter : added to the diagonal of the training covariance (of the inducing inputs, as a share of its mean)
    random_state, warm_start, verbose : as in scikit-learn; warm_start starts from the last hyperparameters; verbose may
        be a function, which is called with what is being done and the share of it that is done

    After fit
    ---------
    kernel_, mean_, likelihood_, y_mean_, y_scale_, n_iter_, converged_, fit_report_, and, computed on request:
    evidence_, sites_, loo_, influence_, and, with robust noise, outliers_; with method="mcmc", samples_ instead, and
    kernel_, mean_, likelihood_ at the median of the draws
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        likelihood: str | Likelihood = "gaussian",
        mean: means.Mean | None = None,
        normalize_y: bool | str = "auto",
        method: str = "hybrid",
        inference: str | Inference | None = None,
        evidence: str | Evidence | None = None,
        gradient: str | None = None,
        power: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        n_restarts: int = 0,
        sampling: dict[str, int] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        priors: Mapping[str, HyperPrior] | None = None,
        fixed: str | Sequence[str] | None = None,
        train: str | Sequence[str] | None = None,
        n_inducing: int | None = None,
        inducing: str | ArrayLike = "kmeans",
        jitter: float = 0.0,
        random_state: RandomState = None,
        warm_start: bool = False,
        verbose: bool | int | Report = False,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.mean = mean
        self.normalize_y = normalize_y
        self.method = method
        self.inference = inference
        self.evidence = evidence
        self.gradient = gradient
        self.power = power
        self.max_iter = max_iter
        self.tol = tol
        self.n_restarts = n_restarts
        self.sampling = sampling
        self.bounds = bounds
        self.priors = priors
        self.fixed = fixed
        self.train = train
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.jitter = jitter
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        kind = _LIKELIHOODS.get(self.likelihood) if isinstance(self.likelihood, str) else self.likelihood
        tags.target_tags.positive_only = getattr(kind, "support", "real") != "real"
        return tags

    # -- fitting -----------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the hyperparameters and the sites."""
        X, y = validate_data(self, X, y, dtype=WORKING_DTYPE, y_numeric=True, ensure_min_samples=2)
        self._X, self._weight = np.array(X), self._weights(sample_weight, X)
        self._y = np.array(column_or_1d(y), float)
        likelihood = self._start_likelihood()
        self.y_mean_, self.y_scale_ = self._units(likelihood)
        self._fit(likelihood)
        if likelihood.robust and hasattr(self, "sites_"):
            self._report = functools.partial(self._with_outliers, self._report)
        return self

    def _with_outliers(self, report: Callable[[], str]) -> str:
        return f"{report()}\n{self.outliers_.sentence()}"

    def _start_likelihood(self) -> Likelihood:
        if isinstance(self.likelihood, Likelihood):
            if len(self.likelihood.columns) > 1:
                raise ValueError(
                    f"GPRegressor takes one number per row as y, but {type(self.likelihood).__name__} here wants the "
                    f"columns {', '.join(self.likelihood.columns)}; use Model and Data for it, as in the README."
                )
            return self.likelihood
        if not isinstance(self.likelihood, str) or self.likelihood not in _LIKELIHOODS:
            raise ValueError(
                f"likelihood must be one of {', '.join(map(repr, _LIKELIHOODS))} or a likelihood object, "
                f"got {self.likelihood!r}."
            )
        return _LIKELIHOODS[self.likelihood].for_targets(self._y)

    def _units(self, likelihood: Likelihood) -> tuple[float, float]:
        if self.normalize_y is True and not likelihood.location_scale:
            raise ValueError(
                f"normalize_y=True needs a likelihood of the form y = f + noise, which {type(likelihood).__name__} is "
                "not; leave it at 'auto'."
            )
        if self.normalize_y is False or not likelihood.location_scale:
            return 0.0, 1.0
        if self.normalize_y not in (True, "auto"):
            raise ValueError(f"normalize_y must be True, False or 'auto', got {self.normalize_y!r}.")
        # From the distinct rows, so that weights and copies give the same units to the last digit.
        data = merge(self._X, self._y, self._weight).data
        centre = float(np.average(data.y, weights=data.weight))
        with np.errstate(over="ignore"):
            spread = float(np.sqrt(np.average((data.y - centre) ** 2, weights=data.weight)))
        if not np.isfinite(spread):
            raise ValueError("The spread of y is too large for double precision; divide y by a power of ten first.")
        return centre, spread if spread > 1e-12 * abs(centre) else 1.0

    def _start_mean(self, likelihood: Likelihood, data: Data) -> means.Mean:
        level = likelihood.level(np.asarray(data.y), np.asarray(data.weight))
        if self.mean is None and level is not None:
            return means.Constant(level)
        return super()._start_mean(likelihood, data)

    def _targets(self, y: np.ndarray) -> list[np.ndarray]:
        return [(y - self.y_mean_) / self.y_scale_]

    def _check_y(self, y: Any) -> np.ndarray:
        y = np.array(column_or_1d(y), float)
        if not np.all(np.isfinite(y)):
            raise ValueError("y contains NaN or infinity; remove or impute those entries first.")
        return y

    def _log_unit(self) -> float:
        return float(np.log(self.y_scale_))

    def _latent_units(self, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.y_mean_ + self.y_scale_ * mean, self.y_scale_**2 * var

    # -- prediction ----------------------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Mean of y at each row; if `return_std`, with its standard deviation, noise included."""
        (q,) = self._at(X)
        mean, var = self._latent_units(*q.y_moments())
        return (mean, np.sqrt(var)) if return_std else mean

    def log_predictive_density(self, X: Any, y: Any) -> np.ndarray:
        """log p(y | x) of each row, in the units of y."""
        (q,) = self._at(X)
        y = self._check_y(y)
        if len(y) != len(q.mean):
            raise ValueError(f"X has {len(q.mean)} rows but y has {len(y)}; give one y per row.")
        self.likelihood_.check(self._targets(y)[0])
        return q.log_density(self._targets(y)[0]) - self._log_unit()

    def predict_cdf(self, X: Any, y: Any) -> np.ndarray:
        """P(Y ≤ y | x) of each row, y in its own units: one number for all rows, or one for each."""
        (q,) = self._at(X)
        y = np.broadcast_to(np.asarray(y, float), len(q.mean))
        return q.cdf(self._targets(y)[0])

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None) -> np.ndarray:
        """Observations drawn jointly for all rows: shape (rows, n_samples)."""
        X = self._new_rows(X)
        rng = check_random_state(random_state)
        (latent,) = self._latents
        drawn = latent.draw(int(rng.randint(2**31 - 1)), X, n_samples)
        return self.y_mean_ + self.y_scale_ * drawn.observe(int(rng.randint(2**31 - 1))).T

    @property
    def outliers_(self) -> Outliers:
        """The training rows that the fitted robust noise gives almost no weight; see `Outliers`."""
        check_is_fitted(self)
        if not self.likelihood_.robust:
            raise AttributeError(  # hasattr and dir are to say no
                f"outliers_ is for robust noise, but this model has {type(self.likelihood_).__name__}; fit with "
                f"one of {_ROBUST}."
            )
        assert isinstance(self.sites_, Sites)
        return find_outliers(self.sites_.prec, self._weight, self.loo_.log_density)

    @property
    def loo_(self) -> ValueLoo:
        """Leave-one-out log densities, probabilities, means and deviations of the training rows, without refitting."""
        (q,) = self._cavities()
        (y,) = self._targets(self._y)
        unknown = np.full(len(y), np.nan)
        try:
            mean, var = self._latent_units(*q.y_moments())
        except NotImplementedError:
            mean, var = unknown, unknown
        try:
            probability = q.cdf(y)
        except NotImplementedError:
            probability = unknown
        return ValueLoo(q.log_density(y) - self._log_unit(), probability, mean, np.sqrt(var))
