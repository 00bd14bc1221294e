"""Methods of a fitted estimator that explain it: importance, effects, interactions, terms, lengthscales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sitewise.explain.decomposition import Shares, Terms, predict_terms, predict_utility, term_shares
from sitewise.explain.effects import Effect, TermChoice, effect
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.importance import Importance, importance, total_shares
from sitewise.explain.interactions import POINTS, Interaction, interaction
from sitewise.explain.lengthscales import Lengthscale, lengthscales


class Explaining(Fitted):
    """Mixin with methods that explain a fitted estimator; columns are given by name or by number from 0.

    `sitewise.estimators` has functions of the same names that take a Pipeline as well: `effect(pipeline, "shop")` is
    about the column of the table, with the names of its categories and in its units.
    """

    def importance(
        self,
        X: Any = None,
        groups: Mapping[str, Sequence[str | int]] | None = None,
        *,
        function: str | None = None,
    ) -> Importance:
        """Return the feature importance: the share of the variance of the fitted function per column, with errors.

        Works for every kernel.  `print` shows a table; `Importance` explains the shares (Sobol' indices) and their
        limits.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns), default=None
            The rows over whose values the columns vary; None for the training rows.
        groups : dict, default=None
            Columns that vary together and count as one, such as {"place": ["longitude", "latitude"]}.
        function : str, default=None
            With `varying`, the function whose variance is shared: "f", or the second function, such as "log scale".
            None means the first.

        Returns
        -------
        importance : Importance
            Shares alone and in total.

        Examples
        --------
        >>> print(model.importance())  # doctest: +SKIP
        column  alone    ±    total    ±
        age      0.61  0.04    0.72  0.04
        income   0.24  0.03    0.35  0.04
        """
        return importance(self, X, groups, function=function)

    @property
    def feature_importances_(self) -> np.ndarray:
        """The `total` shares of `importance()`, divided by their sum, for scikit-learn's tools."""
        if self._latents[0].model.likelihood.functions:
            raise AttributeError("feature_importances_ is for models with one latent function.")  # hasattr is False
        total = total_shares(self)
        return total / np.sum(total) if np.any(total > 0) else total

    def lengthscales(self, level: float = 0.9) -> list[Lengthscale]:
        """Return every lengthscale of the fitted kernel with its columns, standard error and interval.

        Fit with kernel="ard" for one free lengthscale per column.  Errors come from the curvature of the evidence at
        its maximum, by two evaluations per hyperparameter; with method="mcmc" they come from the draws.

        Parameters
        ----------
        level : float, default=0.9
            The level of the intervals.

        Returns
        -------
        lengthscales : list of Lengthscale
            One entry per lengthscale.
        """
        return lengthscales(self, level)

    def effect(
        self,
        feature: str | int,
        X: Any = None,
        *,
        term: TermChoice | None = None,
        response: bool | None = None,
        level: float = 0.9,
        points: int | None = None,
        grid: ArrayLike | None = None,
        rows: int | None = None,
    ) -> Effect:
        """Return the average prediction as a function of one column (partial dependence), with a credible band.

        All other columns are held fixed, which may give combinations that do not occur in the data.  Counts refer to
        one unit of exposure, and to one trial.

        Parameters
        ----------
        feature : str or int
            Name or number of the column.
        X : array of shape (n_rows, n_columns), default=None
            The rows to average over; None for the training rows.
        term : str, int or list of them, default=None
            Name or number of a term of the kernel, such as "season", or a list for their sum, on the latent scale;
            `predict_terms` lists the names.  The effect of a term that repeats itself is shown over one period.
        response : bool, default=None
            True for average predictions (the mean of y, the probability of `classes_[1]`, or of every class of more
            than two); False for the latent function minus its average over the rows; None means True without `term`.
        level : float, default=0.9
            The level of the band.
        points : int, default=None
            The number of values of the column.  None means every level of a group, all values of a column with at
            most ten, and 20 values otherwise, or as many as show a season.
        grid : array, default=None
            The values of the column, instead of `points`.
        rows : int, default=None
            The largest number of rows to average over; None means 200, fewer for joint classes and method="mcmc".

        Returns
        -------
        effect : Effect
            Values of the column with mean, standard deviation and band; `print` shows a table.
        """
        return effect(
            self, feature, X, term=term, response=response, level=level, points=points, grid=grid, rows=rows
        )  # fmt: skip

    def predict_terms(self, X: Any) -> Terms:
        """Predict every term of the kernel at new rows, with its standard deviation, and the mean.

        For kernels that are sums, as with `groups` or kernel="additive".  The scale is the scale of `predict_latent`.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            New rows, with the same columns as in fit.

        Returns
        -------
        terms : Terms
            Names, means and standard deviations.
        """
        return predict_terms(self, X)

    def predict_utility(self, items: Any, return_cov: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Predict utilities of items, minus their average, with standard deviations, from pairwise comparisons.

        For models with `kernels.Pairwise`.  Pairwise comparisons determine differences only.

        Parameters
        ----------
        items : array of shape (n_items, n_columns)
            The items, with half of the columns of X.
        return_cov : bool, default=False
            Whether to return the covariance matrix instead of the standard deviations.

        Returns
        -------
        utility : array of shape (n_items,)
            The utilities, followed by the standard deviations or the covariance matrix.
        """
        return predict_utility(self, items, return_cov)

    def term_shares(self, X: Any = None) -> Shares:
        """Return the share of the variance of f per term of the kernel, with standard errors.

        Columns vary independently of each other.  `print` shows a table.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns), default=None
            The rows over whose values the columns vary; None for the training rows.

        Returns
        -------
        shares : Shares
            One share per term.
        """
        return term_shares(self, X)

    def interaction(
        self,
        first: str | int | None = None,
        second: str | int | None = None,
        X: Any = None,
        *,
        points: int = POINTS,
        rows: int | None = None,
    ) -> Interaction:
        """Return the interaction of two columns on the latent scale, with standard deviations.

        The interaction is the joint effect minus the sum of the single effects: 0 if the effects add up.  Columns
        whose total share of `importance()` is far above their share alone are worth examining.

        Parameters
        ----------
        first, second : str or int, default=None
            Names or numbers of the columns; None for the two columns with the largest total shares of `importance()`.
        X : array of shape (n_rows, n_columns), default=None
            The rows to average over; None for the training rows.
        points : int, default=7
            The number of values per column.
        rows : int, default=None
            The largest number of rows to average over; None means 100.

        Returns
        -------
        interaction : Interaction
            Values of both columns with means and standard deviations.
        """
        return interaction(self, first, second, X, points=points, rows=rows)
