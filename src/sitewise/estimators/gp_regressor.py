"""GPRegressor: Gaussian process regression with any likelihood of numbers."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import column_or_1d, validate_data

from sitewise import means
from sitewise.data import Data
from sitewise.estimators import side_information
from sitewise.estimators.distinct_rows import merge
from sitewise.estimators.fitted_estimator import KernelChoice, RandomState
from sitewise.estimators.refusals import (
    refuse_labels,
    refuse_missing_inputs,
    refuse_missing_targets,
    refuse_tables,
    refuse_unusable_columns,
)
from sitewise.estimators.settings import refuse_with_two_functions
from sitewise.estimators.shared_parameters import documented
from sitewise.estimators.value_predictions import ValuePredictions
from sitewise.hyperparameters import Hyperparameters
from sitewise.kernel_choice import Varying
from sitewise.kernels import Kernel, Matern52
from sitewise.kernels.lengthscale_start import start_lengthscale
from sitewise.likelihoods import BY_NAME, Likelihood, VaryingParameter
from sitewise.methods import Method
from sitewise.parts import Part
from sitewise.parts_structure import Parts
from sitewise.process.precision import WORKING_DTYPE
from sitewise.process.progress import Report
from sitewise.structures import Structure

SECOND_VARIANCE = 0.5  # of the second latent function, where learning starts
_LIKELIHOODS = {name: kind for name, kind in BY_NAME.items() if kind.support != "classes"}


@documented
class GPRegressor(ValuePredictions):
    """Gaussian process regression for scikit-learn: robust regression, counts with exposure, shares, lifetimes, …

    Parameters
    ----------
    {kernel}
    {groups}
    likelihood : str or Likelihood, default="gaussian"
        The distribution of y around the latent function; an object of `sitewise.likelihoods`, or a name:

        - real values: "gaussian"; robust regression: "student_t", "laplace_noise"; a quantile: "asymmetric_laplace"
        - values with a known error per row: "heteroscedastic_gaussian"; censored values: "censored_gaussian"
        - counts, also with exposure: "poisson", "negative_binomial", "zero_inflated_poisson",
          "zero_inflated_negative_binomial"; successes in trials: "binomial", "beta_binomial"
        - positive values: "gamma", "log_normal"; amounts that may be zero: "hurdle_gamma", "tweedie"
        - lifetimes, also censored (survival analysis): "weibull", "log_logistic"
        - shares between 0 and 1: "beta"; angles: "von_mises"
        - ordered classes 0, 1, 2, … as numbers: "ordinal" (GPOrdinal takes labels)
    varying : str or Varying, default=None
        A parameter of the likelihood that depends on x through a second latent function: "scale" for "gaussian" (noise
        that depends on x), "student_t" and "log_normal"; "inflation" for zero-inflated counts; "shape" for "gamma",
        "negative_binomial" and "log_logistic"; "precision" for "beta"; "intercept" for "hurdle_gamma".
        `Varying("scale", kernel)` gives the kernel of the second function, and `Varying("scale", structure=[…])` its
        parts.  None holds the parameter constant.
    mean : Mean, default=None
        A mean of `sitewise.means`; None means zero, or a learned constant if y is not f plus noise.
    normalize_y : bool or str, default="auto"
        Whether to learn on (y − mean)/(standard deviation) of the training targets; "auto" does so for Gaussian and
        robust noise.  "scale" learns on y/(root mean square of y) where "auto" would normalise: for a function without
        an intercept.  Angles are taken relative to their mean direction, and not scaled.  Predictions, densities and
        evidences are always in the units of y; kernel, likelihood, mean, priors and bounds, given and fitted, refer to
        the normalised target.
    {method}
    {integrate}
    {hyperparameters}
    {structure}
    {random_state}
    {warm_start}
    {verbose}

    Attributes
    ----------
    y_mean_, y_scale_ : float
        Centre and scale of the normalised target.
    outliers_ : Outliers
        With robust noise, the rows that are very improbable given all other rows.
    {fitted}

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sitewise import GPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GPRegressor().fit(X[:100], y[:100])
    >>> low, high = model.predict_interval(X[100:], level=0.9)
    >>> bool(0.8 < ((low <= y[100:]) & (y[100:] <= high)).mean() < 1.0)
    True

    See Also
    --------
    GPClassifier : for classes.
    GPOrdinal : for ordered labels.
    TableEncoder : encodes tables with categories, dates and missing values.
    EffectDisplay : plots the effect of each column.
    estimators.survival_curve : survival curves with credible bands.
    """

    __metadata_request__fit = side_information.REQUESTS
    __metadata_request__score = side_information.REQUESTS
    __metadata_request__predict = side_information.PREDICT_REQUESTS

    def __init__(
        self,
        kernel: KernelChoice = None,
        *,
        groups: str | int | Sequence[str | int] | None = None,
        likelihood: str | Likelihood = "gaussian",
        varying: str | Varying | None = None,
        mean: means.Mean | None = None,
        normalize_y: bool | str = "auto",
        method: str | Method = "hybrid",
        integrate: bool | str = "auto",
        hyperparameters: Hyperparameters | None = None,
        structure: str | Structure | Part | Sequence[Part] = "auto",
        random_state: RandomState = 0,
        warm_start: bool = False,
        verbose: bool | int | Report = False,
    ) -> None:
        self.kernel = kernel
        self.groups = groups
        self.likelihood = likelihood
        self.varying = varying
        self.mean = mean
        self.normalize_y = normalize_y
        self.method = method
        self.integrate = integrate
        self.hyperparameters = hyperparameters
        self.structure = structure
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        kind = _LIKELIHOODS.get(self.likelihood) if isinstance(self.likelihood, str) else self.likelihood
        tags.target_tags.positive_only = getattr(kind, "support", "real") != "real"
        return tags

    # -- fitting -----------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        event: ArrayLike | None = None,
        until: ArrayLike | None = None,
        noise: ArrayLike | None = None,
        output: ArrayLike | None = None,
    ) -> Self:
        """Learn the hyperparameters and the sites.

        The keywords after `sample_weight` are side information: each is one number for all rows or one per row.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            Numbers; scale columns of very different sizes first.
        y : array of shape (n_rows,)
            One number per row.
        sample_weight : array of shape (n_rows,), default=None
            Weight per row, by default 1; weight 2 is equivalent to duplicating the row.
        exposure : number or array of shape (n_rows,), default=None
            For counts: time observed, area, people at risk.  The expected count is exposure · rate, and the rate
            depends on X.
        trials : number or array of shape (n_rows,), default=None
            For "binomial" and "beta_binomial": the number of trials; y is the number of successes.
        lower, upper : number or array of shape (n_rows,), default=None
            For "weibull", "log_logistic" and "censored_gaussian": rows with y ≤ lower are left-censored at lower,
            rows with y ≥ upper right-censored at upper; −inf and inf mean no bound.  Between the bounds y is the
            value.
        event : array of shape (n_rows,), default=None
            For the same likelihoods: 1 if the event was observed at y, 0 if the row is right-censored at y.
        until : array of shape (n_rows,), default=None
            For the same likelihoods: the value lies between y and until: equal if observed, inf if right-censored.
        noise : number or array of shape (n_rows,), default=None
            For "heteroscedastic_gaussian": standard deviation of the measurement error per row, in the units of y.
        output : array of shape (n_rows,), default=None
            For `likelihoods.Switched`: index of the likelihood per row: 0, 1, 2, …

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sitewise import GPRegressor
        >>> X, months = np.linspace(0, 3, 40)[:, None], np.tile([6.0, 12.0], 20)
        >>> claims = np.floor(months * np.exp(0.5 * X[:, 0]) / 4)
        >>> model = GPRegressor(likelihood="poisson").fit(X, claims, exposure=months)
        >>> a_year, a_month = model.predict([[1.0]], exposure=12), model.predict([[1.0]])
        >>> bool(np.isclose(a_year[0], 12 * a_month[0]))
        True
        """
        refuse_unusable_columns(X, type(self).__name__)
        refuse_missing_inputs(X, type(self).__name__)
        refuse_tables(y)
        refuse_missing_targets(y)
        refuse_labels(y)
        self._keep_names(X)
        X, y = validate_data(self, X, y, dtype=WORKING_DTYPE, y_numeric=True, ensure_min_samples=2)
        self._X, self._weight = np.array(X), self._weights(sample_weight, X)
        self._y = np.array(column_or_1d(y), float)
        given = {
            "exposure": exposure, "trials": trials, "lower": lower, "upper": upper, "event": event, "until": until,
            "noise": noise, "output": output,
        }  # fmt: skip
        likelihood = self._start_likelihood()
        if likelihood.functions:
            refuse_with_two_functions(self)
        if likelihood.support == "real" and np.all(self._y == self._y[0]):
            warnings.warn(
                f"All values of y are equal to {self._y[0]:g}: neither the noise nor the effect of a column can be "
                "learned.",
                UserWarning,
                stacklevel=2,
            )
        self._side = side_information.read(likelihood, len(y), given, fitting=True)
        side_information.warn_of_copies(self._X, self._given_names(), self._side)
        likelihood = likelihood.with_keywords(self._side)
        self.y_mean_, self.y_scale_ = self._units(likelihood)
        self._fit(likelihood)
        if likelihood.robust and hasattr(self, "sites_"):
            self._report = functools.partial(self._with_outliers, self._report)
        return self

    def _with_outliers(self, report: Callable[[], str]) -> str:
        return f"{report()}\n{self.outliers_.sentence()}"

    def _start_likelihood(self) -> Likelihood:
        base, varying = self._base_likelihood(), Varying.of(self.varying)
        return base if varying is None else VaryingParameter(base, varying.parameter)

    def _base_likelihood(self) -> Likelihood:
        if isinstance(self.likelihood, Likelihood):
            return self.likelihood
        if not isinstance(self.likelihood, str) or self.likelihood not in _LIKELIHOODS:
            raise ValueError(
                f"likelihood must be one of {', '.join(map(repr, _LIKELIHOODS))} or a likelihood object, "
                f"got {self.likelihood!r}."
            )
        return _LIKELIHOODS[self.likelihood].for_targets(self._y, self._weight)

    def _kernels(self, kernel: Kernel, likelihood: Likelihood) -> Kernel | list[Kernel]:
        if not likelihood.functions:
            return kernel
        varying = Varying.of(self.varying)
        if varying is not None and varying.kernel is not None:
            return [kernel, varying.kernel]
        if varying is not None and varying.structure is not None:
            return [kernel, Parts.of(varying.structure).own_kernel(self._X, self._given_names(), SECOND_VARIANCE)]
        return [kernel, Matern52(start_lengthscale(self._X), SECOND_VARIANCE)]

    def _start_means(self, likelihood: Likelihood, data: Data) -> means.Mean | list[means.Mean | None]:
        mean, varying = self._start_mean(likelihood, data), Varying.of(self.varying)
        return mean if varying is None else [mean, varying.mean]

    def _units(self, likelihood: Likelihood) -> tuple[float, float]:
        angles = likelihood.period is not None
        if self.normalize_y is True and not (likelihood.location_scale or angles):
            raise ValueError(
                f"normalize_y=True needs a likelihood of the form y = f + noise, which {type(likelihood).__name__} is "
                "not; leave it at 'auto'."
            )
        if self.normalize_y is False or not (likelihood.location_scale or angles):
            return 0.0, 1.0
        if self.normalize_y not in (True, "auto", "scale"):
            raise ValueError(f"normalize_y must be True, False, 'auto' or 'scale', got {self.normalize_y!r}.")
        centred = self.normalize_y != "scale"
        # From the distinct rows: weights and duplicated rows give exactly the same units.
        data = merge(self._X, self._y, self._weight).data
        if angles:
            return (likelihood.level(data.y, data.weight) or 0.0) if centred else 0.0, 1.0
        centre = float(np.average(data.y, weights=data.weight)) if centred else 0.0
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
