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

    def importance(self, X: Any = None, groups: Mapping[str, Sequence[str | int]] | None = None) -> Importance:
        """Return the share of the variance of the fitted function per column, alone and in total, with errors.

        Works for every kernel.  Columns vary over their values in the training rows, or in X.  `groups` names columns
        that vary together and count as one, such as {"place": ["longitude", "latitude"]}.  `print` shows a table;
        `Importance` explains the shares and their limits.

        Examples
        --------
        >>> print(model.importance())  # doctest: +SKIP
        column  alone    ±    total    ±
        age      0.61  0.04    0.72  0.04
        income   0.24  0.03    0.35  0.04
        """
        return importance(self, X, groups)

    @property
    def feature_importances_(self) -> np.ndarray:
        """The `total` shares of `importance()`, divided by their sum, for scikit-learn's tools."""
        total = total_shares(self)
        return total / np.sum(total) if np.any(total > 0) else total

    def lengthscales(self, level: float = 0.9) -> list[Lengthscale]:
        """Return every lengthscale of the fitted kernel with its columns, standard error and interval.

        Fit with kernel="ard" for one free lengthscale per column.  Errors come from the curvature of the evidence at
        its maximum, by two evaluations per hyperparameter; with method="mcmc" they come from the draws.
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

        Parameters
        ----------
        feature : name or number of the column
        X : rows to average over; None means the training rows
        term : name or number of a term of the kernel, such as "season", or a list for their sum, on the latent scale;
            `predict_terms` lists the names.  The effect of a term that repeats itself is shown over one period.
        response : True for average predictions (the mean of y, the probability of `classes_[1]`, or of every class of
            more than two); False for the latent function minus its average over the rows; None means True without
            `term`
        level : level of the band
        points, grid : number of values of the column, or the values.  The default is every level of a group, all values
            of a column with at most ten, and 20 values otherwise, or as many as show a season.
        rows : maximum number of rows to average over; None means 200, fewer for joint classes and method="mcmc"

        All other columns are held fixed, which may give combinations that do not occur in the data.  Counts refer to
        one unit of exposure, and to one trial.
        """
        return effect(
            self, feature, X, term=term, response=response, level=level, points=points, grid=grid, rows=rows
        )  # fmt: skip

    def predict_terms(self, X: Any) -> Terms:
        """Predict every term of the kernel at new rows, with its standard deviation, and the mean.

        For kernels that are sums, as with `groups` or kernel="additive".  The scale is the scale of `predict_latent`.
        """
        return predict_terms(self, X)

    def predict_utility(self, items: Any, return_cov: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Predict utilities of items, minus their average, with standard deviations, from pairwise comparisons.

        For models with `kernels.Pairwise`; `items` have half of the columns of X.  Pairwise comparisons determine
        differences only.  With `return_cov` the covariance matrix replaces the standard deviations.
        """
        return predict_utility(self, items, return_cov)

    def term_shares(self, X: Any = None) -> Shares:
        """Return the share of the variance of f per term of the kernel, with standard errors.

        Columns vary independently of each other over their values in the training rows, or in X.  `print` shows a
        table.
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

        The interaction is the joint effect minus the sum of the single effects: 0 if the effects add up.  The default
        is the two columns with the largest total shares of `importance()`.  Columns whose total share is far above
        their share alone are worth examining.  `points` is the number of values per column; `rows` as for `effect`,
        default 100.
        """
        return interaction(self, first, second, X, points=points, rows=rows)
