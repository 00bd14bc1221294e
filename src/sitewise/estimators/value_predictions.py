"""Predictions of numbers: means, deviations, intervals, densities, draws, and the diagnostics of training rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from sitewise.estimators import side_information
from sitewise.estimators.base import GPBase, RandomState
from sitewise.estimators.intervals import Intervals
from sitewise.estimators.loo import ValueLoo
from sitewise.estimators.side_information import Side
from sitewise.explain.outliers import Outliers, find_outliers
from sitewise.fitted.mixture import Mixture
from sitewise.likelihoods import BY_NAME
from sitewise.sites import Sites

_ROBUST = ", ".join(repr(name) for name, kind in BY_NAME.items() if kind.robust)


def _routing_hint(name: str) -> str:
    """How scikit-learn passes a keyword on to `score`."""
    if not get_config()["enable_metadata_routing"]:
        return "; in pipelines and cross-validation sklearn.set_config(enable_metadata_routing=True) passes it on"
    return (
        "; before scikit-learn 1.8 the score of a Pipeline does not ask for it by itself: give "
        f"scoring=sklearn.metrics.check_scoring(pipeline).set_score_request({name}=True)"
    )


class ValuePredictions(Intervals, RegressorMixin, GPBase):
    """What GPRegressor has after fit.  `y_mean_` and `y_scale_` are the units in which the model sees y."""

    y_mean_: float
    y_scale_: float

    # -- units and side information -------------------------------------------------------------------------

    def _targets(self, y: np.ndarray, side: Side) -> list[np.ndarray]:
        side = side_information.in_units(side, self.y_mean_, self.y_scale_)
        return [side_information.table((y - self.y_mean_) / self.y_scale_, side)]

    def _check_y(self, y: Any) -> np.ndarray:
        y = np.array(column_or_1d(y), float)
        if not np.all(np.isfinite(y)):
            raise ValueError("y contains NaN or infinity; remove or impute those entries first.")
        return y

    def _log_unit(self, y: np.ndarray, side: Side) -> float | np.ndarray:
        """Only a value that was observed has a density; that of a censored row is a probability, which has no unit."""
        unit = float(np.log(self.y_scale_))
        return np.where(side_information.censored(y, side), 0.0, unit)

    def _latent_units(self, mean: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.y_mean_ + self.y_scale_ * mean, self.y_scale_**2 * var

    def _given(self, rows: int, given: Mapping[str, Any], needed_for: str = "") -> Side:
        """The side information of new rows, checked; all that fit had must be there if it is needed."""
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
        """The second column of the likelihood's table at new rows."""
        own = side_information.in_units(side, self.y_mean_, self.y_scale_)
        return side_information.second_column(self._side, own, rows, needed)

    def _plain(self, q: Mixture) -> Mixture:
        return q._replace(side=self._second({}, len(q.mean), needed=False))

    def _predicted(self, X: Any, given: Mapping[str, Any], needed: bool = True) -> Mixture:
        """f at new rows, with what is known about the rows."""
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
        """Expected y of each row.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the columns of fit.
        return_std : bool, default False
            Whether to return the standard deviation of y as well, noise included.
        exposure : number or array of shape (n_rows,), default 1
            For counts that were fitted with an exposure: the result is the expected count, exposure times rate; at
            exposure 1 it is the rate.
        trials : number or array of shape (n_rows,), default 1
            For binomial: the result is the expected number of successes; for one trial it is their probability.
        noise : number or array of shape (n_rows,)
            For heteroscedastic_gaussian: the standard deviation of the error of each row.  Only `return_std` needs it;
            0 stands for the function itself, without a measurement.
        output : number or array of shape (n_rows,)
            For Switched: of which output each row is.

        Returns
        -------
        mean : array of shape (n_rows,)
        std : array of shape (n_rows,), if `return_std`

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
        """R² of the expected values: 1 is perfect, 0 is what the mean of y achieves.

        The side information is that of these rows, as in fit.  With bounds both y and the expected values are cut off
        there; with event or until an expected value is right wherever the row's own may
        lie.  `log_predictive_density` judges the whole distribution instead.
        """
        y = self._check_y(y)
        known: dict[str, Any] = {"exposure": exposure, "trials": trials, "noise": noise, "output": output}
        bounds = {"lower": lower, "upper": upper, "event": event, "until": until}
        side = self._given(len(y), {**known, **bounds}, "score")
        mean = side_information.within_bounds(np.asarray(self.predict(X, **known)), y, side)
        return float(r2_score(side_information.within_bounds(y, y, side), mean, sample_weight=sample_weight))

    def log_predictive_density(self, X: Any, y: Any, **side: Any) -> np.ndarray:
        """log p(y | x) of each row, in the units of y; side information as keywords, as in fit.

        For a censored row it is the log probability of lying where it may.
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
        """P(Y ≤ y | x) of each row, y in its own units: one number for all rows, or one for each.

        `side` are exposure, trials or noise, as in predict; with bounds Y is the value itself, before it is cut off.
        """
        q = self._predicted(X, side)
        return q.cdf((np.broadcast_to(np.asarray(y, float), len(q.mean)) - self.y_mean_) / self.y_scale_)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: RandomState = None, **side: Any) -> np.ndarray:
        """Observations drawn jointly for all rows: shape (rows, n_samples); `side` is that of predict."""
        X = self._new_rows(X)
        rng = check_random_state(random_state)
        (latent,) = self._latents
        drawn = latent.draw(int(rng.randint(2**31 - 1)), X, n_samples)
        drawn = drawn._replace(side=self._second(self._given(len(X), side), len(X)))
        return self.y_mean_ + self.y_scale_ * drawn.observe(int(rng.randint(2**31 - 1))).T

    # -- training rows ---------------------------------------------------------------------------------------

    def update(self, X_new: Any, y_new: Any, sample_weight: ArrayLike | None = None, **side: Any) -> Self:
        """Add rows, keep the hyperparameters, and re-converge from the present sites.

        The result is that of inference on all rows at these hyperparameters.  Call fit to learn them again.  The new
        rows need the side information that fit had, as keywords.
        """
        return self._extend(X_new, y_new, sample_weight, self._given(len(self._new_rows(X_new)), side, "update"))

    @property
    def outliers_(self) -> Outliers:
        """The training rows that the other rows and the fitted robust noise make very improbable; see `Outliers`."""
        check_is_fitted(self)
        if not self.likelihood_.robust:
            raise AttributeError(  # hasattr and dir are to say no
                f"outliers_ is for robust noise, but this model has {type(self.likelihood_).__name__}; fit with "
                f"one of {_ROBUST}."
            )
        assert isinstance(self.sites_, Sites)
        return find_outliers(self.sites_.prec, self._weight, self.loo_)

    @property
    def loo_(self) -> ValueLoo:
        """Leave-one-out log densities, probabilities, means and deviations of the training rows, without refitting.

        They are exact at the fitted hyperparameters with Gaussian noise, and approximate otherwise.
        """
        (q,) = self._cavities()
        q = q._replace(side=self._second(self._side, len(self._y)))
        (table,) = self._targets(self._y, self._side)
        unknown = np.full(len(self._y), np.nan)
        try:
            mean, var = self._latent_units(*q.y_moments())
        except NotImplementedError:
            mean, var = unknown, unknown
        try:
            probability = q.cdf((self._y - self.y_mean_) / self.y_scale_)
        except NotImplementedError:
            probability = unknown
        density = q.log_density(table) - self._log_unit(self._y, self._side)
        return ValueLoo(density, probability, mean, np.sqrt(var))
