"""Predictions of GPRegressor: mean, standard deviation, quantiles, density, cdf, draws, score, leave-one-out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn import get_config
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from sitewise.checks import at_least
from sitewise.estimators import side_information
from sitewise.estimators.base import GPBase
from sitewise.estimators.fitted_estimator import RandomState
from sitewise.estimators.intervals import Intervals
from sitewise.estimators.side_information import Side
from sitewise.explain.outliers import Outliers, find_outliers
from sitewise.fitted.loo import ValueLoo
from sitewise.fitted.mixture import Functions, Mixture
from sitewise.likelihoods import BY_NAME, Likelihood, VaryingParameter
from sitewise.sites import Sites

_ROBUST = ", ".join(repr(name) for name, kind in BY_NAME.items() if kind.robust)


def _routing_hint(name: str) -> str:
    """Return a hint on how scikit-learn passes a keyword to `score`."""
    if not get_config()["enable_metadata_routing"]:
        return "; in pipelines and cross-validation sklearn.set_config(enable_metadata_routing=True) passes it on"
    return (
        "; before scikit-learn 1.8 the score of a Pipeline does not ask for it by itself: give "
        f"scoring=sklearn.metrics.check_scoring(pipeline).set_score_request({name}=True)"
    )


class ValuePredictions(Intervals, RegressorMixin, GPBase):
    """Methods of a fitted GPRegressor; `y_mean_` and `y_scale_` are centre and scale of the normalised target."""

    y_mean_: float
    y_scale_: float

    # -- units and side information -------------------------------------------------------------------------

    def _targets(self, y: np.ndarray, side: Side) -> list[np.ndarray]:
        side = side_information.in_units(side, self.y_mean_, self.y_scale_)
        likelihood = self._start_likelihood()
        if likelihood.period is None:
            return [side_information.table((y - self.y_mean_) / self.y_scale_, side)]
        likelihood.check(y)
        return [self._in_turn(y - self.y_mean_)]

    def _start_likelihood(self) -> Likelihood:
        """Return the likelihood with which learning starts."""
        raise NotImplementedError

    def _in_turn(self, y: np.ndarray, centre: float | np.ndarray = 0.0) -> np.ndarray:
        """Return angles in the turn around `centre`; other targets unchanged."""
        period = self._start_likelihood().period
        return y if period is None else y - period * np.round((y - centre) / period)

    def _check_y(self, y: Any) -> np.ndarray:
        y = np.array(column_or_1d(y), float)
        if not np.all(np.isfinite(y)):
            raise ValueError("y contains NaN or infinity; remove or impute those entries first.")
        return y

    def _log_unit(self, y: np.ndarray, side: Side) -> float | np.ndarray:
        """Return the log unit per row; 0 for a censored row, whose likelihood is a probability and has no unit."""
        unit = float(np.log(self.y_scale_))
        return np.where(side_information.censored(y, side), 0.0, unit)

    def _latent_units(self, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        several = self.likelihood_.functions and mean.ndim == 2
        if not several:
            return self.y_mean_ + self.y_scale_ * mean, self.y_scale_**2 * var
        # The second function is the logarithm of a scale, or y has no units.  A covariance has the functions first.
        axis = 0 if var.ndim == 3 else 1
        level, scale = np.array([self.y_mean_, np.log(self.y_scale_)]), np.array([self.y_scale_, 1.0])
        shape = [2 if k == axis else 1 for k in range(mean.ndim)]
        factor = (scale**2).reshape(2, 1, 1) if var.ndim == 3 else (scale**2).reshape(1, 2)
        return level.reshape(shape) + scale.reshape(shape) * mean, factor * var

    def predict_parameter(self, X: Any, level: float = 0.9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predict the parameter that varies with x (`varying`): median and credible interval, in the units of y.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        level : float, default=0.9
            The level of the interval.

        Returns
        -------
        median, low, high : array of shape (n_rows,)
            The posterior median of the parameter, and the ends of its interval.
        """
        check_is_fitted(self)
        if not isinstance(self.likelihood_, VaryingParameter):
            raise ValueError("predict_parameter is for a parameter that depends on x; fit with varying='scale'.")
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
        mean, var = self._latent_units(*self._at(X)[0].f_moments())
        reach = ndtri(0.5 + level / 2) * np.sqrt(var[:, 1])
        link = self.likelihood_.link
        median, low, high = (np.asarray(link.backward(mean[:, 1] + step)) for step in (0.0 * reach, -reach, reach))
        return median, low, high

    def _given(self, rows: int, given: Mapping[str, Any], needed_for: str = "") -> Side:
        """Check the side information of new rows; with `needed_for`, every keyword of fit is required."""
        check_is_fitted(self)
        side = side_information.read(self.likelihood_, rows, given)
        new = [name for name in side if not self._side]
        if new:
            raise ValueError(
                f"The model was fitted without {new[0]}; give {new[0]}= to fit, too, or leave it out here."
            )
        missing = side_information.lacking(self._side, side)
        if needed_for and missing is not None:
            hint = _routing_hint(missing) if needed_for == "score" else ""
            raise ValueError(f"The model was fitted with {missing}=, and {needed_for} needs it for its rows{hint}.")
        return side

    def _second(self, side: Side, rows: int, needed: bool = True) -> tuple[np.ndarray, ...]:
        """Return the further columns of the likelihood's table at new rows."""
        own = side_information.in_units(side, self.y_mean_, self.y_scale_)
        return side_information.second_column(self._side, own, rows, needed)

    def _plain(self, q: Mixture) -> Mixture:
        return q._replace(side=self._second({}, len(q.mean), needed=False))

    def _predicted(self, X: Any, given: Mapping[str, Any], needed: bool = True) -> Mixture:
        """Return f at new rows, with the side information of the rows."""
        (q,) = self._at(X)
        rows = len(q.mean)
        return q._replace(side=self._second(self._given(rows, given), rows, needed))

    # -- prediction ----------------------------------------------------------------------------------------

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        *,
        exposure: ArrayLike | None = None,
        trials: ArrayLike | None = None,
        noise: ArrayLike | None = None,
        output: ArrayLike | None = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the expected y per row.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        return_std : bool, default=False
            Whether to return the standard deviation of y as well, noise included.
        exposure : number or array of shape (n_rows,), default=None
            For counts fitted with an exposure: the result is the expected count, exposure · rate.  None means 1: the
            rate.
        trials : number or array of shape (n_rows,), default=None
            For binomial: the result is the expected number of successes.  None means 1: the success probability.
        noise : number or array of shape (n_rows,), default=None
            For heteroscedastic_gaussian: standard deviation of the measurement error per row.  Only `return_std` needs
            it; 0 predicts the function without measurement error.
        output : number or array of shape (n_rows,), default=None
            For Switched: index of the output per row.

        Returns
        -------
        mean : array of shape (n_rows,)
            The expected values.
        std : array of shape (n_rows,)
            The standard deviations, if `return_std`.

        Examples
        --------
        >>> import numpy as np
        >>> from sitewise import GPRegressor
        >>> X = np.linspace(0, 6, 30)[:, None]
        >>> model = GPRegressor().fit(X, np.sin(X[:, 0]) + 0.1 * np.cos(40 * X[:, 0]))
        >>> mean, std = model.predict([[1.0]], return_std=True)
        >>> bool(abs(mean[0] - np.sin(1.0)) < 2 * std[0])
        True
        """
        given = {"exposure": exposure, "trials": trials, "noise": noise, "output": output}
        q = self._predicted(X, given, needed=return_std or "output" in self._side)
        mean, var = self._latent_units(*q.y_moments())
        return (mean, np.sqrt(var)) if return_std else mean

    def _quantiles(self, X: Any, levels: np.ndarray, given: Mapping[str, Any]) -> np.ndarray:
        return self.y_mean_ + self.y_scale_ * self._predicted(X, given).quantiles(levels)

    def score(
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
    ) -> float:
        """Return R² of the expected values: 1 is perfect, 0 is the score of predicting the mean of y.

        Errors of angles are at most half a turn, and the mean of angles is the mean direction.  With bounds, y and
        expected values are clipped at the bounds; with event or until, an expected value within the interval of a
        censored row has no error.  `log_predictive_density` evaluates the whole distribution.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            Test rows, with the same columns as in fit.
        y : array of shape (n_rows,)
            The observed values.
        sample_weight : array of shape (n_rows,), default=None
            Weight per row, by default 1.
        exposure, trials, lower, upper, event, until, noise, output : as in GPRegressor.fit
            Side information of these rows.
        """
        y = self._check_y(y)
        known: dict[str, Any] = {"exposure": exposure, "trials": trials, "noise": noise, "output": output}
        bounds = {"lower": lower, "upper": upper, "event": event, "until": until}
        side = self._given(len(y), {**known, **bounds}, "score")
        mean = np.asarray(self.predict(X, **known))
        if self.likelihood_.period is not None:
            centre = self.likelihood_.level(y, np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight))
            near = self._in_turn(y, centre)
            y, mean = near, near + self._in_turn(mean - y)
        from sklearn.metrics import r2_score  # imported here: it takes a fifth of a second, and fits do not need it

        mean = side_information.within_bounds(mean, y, side)
        return float(r2_score(side_information.within_bounds(y, y, side), mean, sample_weight=sample_weight))

    def log_predictive_density(self, X: Any, y: Any, **side: Any) -> np.ndarray:
        """Return log p(y | x) per row, in the units of y: the log score of the observed value.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        y : array of shape (n_rows,)
            The observed values.
        **side
            The keywords of `fit`.  For a censored row the result is the log probability of its interval.

        Returns
        -------
        log_density : array of shape (n_rows,)
            In nats.
        """
        (q,) = self._at(X)
        y = self._check_y(y)
        if len(y) != len(q.mean):
            raise ValueError(f"X has {len(q.mean)} rows but y has {len(y)}; give one y per row.")
        known = self._given(len(y), side, "log_predictive_density")
        (table,) = self._targets(y, known)
        self.likelihood_.check(table)
        return q.log_density(table) - self._log_unit(y, known)

    def predict_cdf(self, X: Any, y: Any, **side: Any) -> np.ndarray:
        """Return P(Y ≤ y | x) per row.

        With bounds Y is the uncensored value.  An angle is taken in the turn around the expected value.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        y : number or array of shape (n_rows,)
            One value for all rows, or one per row.
        **side
            exposure, trials or noise, as in predict.

        Returns
        -------
        probability : array of shape (n_rows,)
            Between 0 and 1.
        """
        return self._cdf(self._predicted(X, side), np.asarray(y, float))

    def _cdf(self, q: Mixture, y: np.ndarray) -> np.ndarray:
        y = (np.broadcast_to(y, len(q.mean)) - self.y_mean_) / self.y_scale_
        return q.cdf(self._in_turn(y, q.f_moments()[0]))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None, **side: Any) -> np.ndarray:
        """Draw observations jointly for all rows.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        n_samples : int, default=1
            The number of draws.
        random_state : int, RandomState or None, default=None
            Seed of the draws.
        **side
            exposure, trials, noise or output of these rows, as in predict.

        Returns
        -------
        y : array of shape (n_rows, n_samples)
            The draws.
        """
        at_least("n_samples", n_samples, 1)
        rng = check_random_state(random_state)
        drawn = self._draw_functions(self._new_rows(X), n_samples, rng, side)
        return self.y_mean_ + self.y_scale_ * drawn.observe(int(rng.randint(2**31 - 1))).T

    def _draw_functions(
        self, X: np.ndarray, draws: int, rng: np.random.RandomState, side: Mapping[str, Any]
    ) -> Functions:
        """Return joint draws of the latent function at these rows, with their side information."""
        (latent,) = self._latents
        drawn = latent.draw(int(rng.randint(2**31 - 1)), X, draws)
        return drawn._replace(side=self._second(self._given(len(X), dict(side)), len(X)))

    def _realised_residuals(self, draws: int, seed: int) -> np.ndarray:
        """Return (y − E[y | f]) / sd[y | f] of the training rows per posterior draw of f, shape (draws, n_rows).

        If the model is correct, (y, f) has the same distribution as responses and the function that they were drawn
        from.  These residuals are then independent, unlike those around the posterior mean.
        """
        kept = {name: self._side[name] for name in ("exposure", "trials", "noise") if name in self._side}
        drawn = self._draw_functions(self._X, draws, check_random_state(seed), kept)
        return drawn.residuals((self._y - self.y_mean_) / self.y_scale_)

    # -- training rows ---------------------------------------------------------------------------------------

    def update(self, X_new: Any, y_new: Any, sample_weight: ArrayLike | None = None, **side: Any) -> Self:
        """Add rows, keep the hyperparameters, and continue inference from the present sites until it converges.

        The result equals inference on all rows at these hyperparameters.  Call fit to learn the hyperparameters again.

        Parameters
        ----------
        X_new : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.
        y_new : array of shape (n_rows,)
            Their values.
        sample_weight : array of shape (n_rows,), default=None
            Weight per row, by default 1.
        **side
            The keywords that fit had.

        Returns
        -------
        self
        """
        return self._extend(X_new, y_new, sample_weight, self._given(len(self._new_rows(X_new)), side, "update"))

    @property
    def outliers_(self) -> Outliers:
        """Training rows that are very improbable given all other rows and the fitted robust noise; see `Outliers`."""
        check_is_fitted(self)
        if not self.likelihood_.robust:
            needed = f"robust noise, but this model has {type(self.likelihood_).__name__}; fit with one of {_ROBUST}."
            if self.likelihood_.functions:
                needed = f"one latent function and robust noise; fit without varying=, with one of {_ROBUST}."
            raise AttributeError(f"outliers_ is for {needed}")  # so that hasattr is False
        assert isinstance(self.sites_, Sites)
        return find_outliers(self.sites_.prec, self._weight, self.loo_)

    def _loo_log_density(self) -> np.ndarray:
        (q,) = self._cavities()
        return self._density_of_training_rows(q)

    @property
    def loo_(self) -> ValueLoo:
        """Leave-one-out log densities, probabilities, means and standard deviations of the training rows.

        Exact at the fitted hyperparameters with Gaussian noise, otherwise approximate.
        """
        (q,) = self._cavities()
        q = q._replace(side=self._second(self._side, len(self._y)))
        unknown = np.full(len(self._y), np.nan)
        try:
            mean, var = self._latent_units(*q.y_moments())
        except NotImplementedError:
            mean, var = unknown, unknown
        try:
            probability = self._cdf(q, self._y)
        except NotImplementedError:
            probability = unknown
        return ValueLoo(self._density_of_training_rows(q), probability, mean, np.sqrt(var))

    def _density_of_training_rows(self, q: Mixture) -> np.ndarray:
        """Return the log density of the training targets, in the units of y."""
        (table,) = self._targets(self._y, self._side)
        return q.log_density(table) - self._log_unit(self._y, self._side)
