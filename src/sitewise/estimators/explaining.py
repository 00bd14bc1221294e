"""What a fitted estimator says about its columns: how much each matters, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sitewise.explain.decomposition import Shares, Terms, predict_terms, predict_utility, term_shares
from sitewise.explain.effects import Effect, Interaction, effect, interaction
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.importance import Importance, importance, total_shares
from sitewise.explain.lengthscales import Lengthscale, lengthscales


class Explaining(Fitted):
    """Methods of a fitted estimator; columns are given by their names, or by numbers from 0."""

    def importance(self, X: Any = None, groups: Mapping[str, Sequence[str | int]] | None = None) -> Importance:
        """How much of the variation of the fitted function each column explains, alone and in total, with errors.

        Works for every kernel.  The columns move as they do in the training rows, or in X.  `groups` names columns that
        belong together, such as {"shop": ["shop=north", "shop=south", "shop=west"]}, which then move and count as one.
        `print` it for a table; `Importance` says what the shares mean and what they do not.

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
        """The `total` shares of `importance()`, divided by their sum, as scikit-learn's tools expect them."""
        total = total_shares(self)
        return total / np.sum(total) if np.any(total > 0) else total

    def lengthscales(self, level: float = 0.9) -> list[Lengthscale]:
        """Every lengthscale of the fitted kernel with its columns, standard error and interval.

        Fit with kernel="ard" for one free lengthscale per column.  The errors are those of the maximum of the evidence,
        computed here by two evaluations per hyperparameter; with method="mcmc" they come from the draws.
        """
        return lengthscales(self, level)

    def effect(
        self,
        feature: str | int,
        X: Any = None,
        *,
        response: bool = True,
        level: float = 0.9,
        points: int = 20,
        grid: ArrayLike | None = None,
        rows: int | None = None,
    ) -> Effect:
        """How the prediction changes with one column, averaged over the rows, with a band.

        Parameters
        ----------
        feature : name or number of the column
        X : the rows to average over; None takes the training rows
        response : True for average predictions (the mean of y, or the probability of `classes_[1]`, or of every class
            of more); False for the latent function minus its average over the rows
        level : of the band
        points, grid : how many values of the column, or which; a column with at most ten values has all of them
        rows : how many rows to average over, drawn evenly if there are more; None is 200, fewer for joint classes and
            method="mcmc"

        The column is moved while the others stay as they are in the rows, also where such rows do not exist.  Counts
        are those of one unit of exposure, and of one trial.
        """
        return effect(self, feature, X, response=response, level=level, points=points, grid=grid, rows=rows)

    def predict_terms(self, X: Any) -> Terms:
        """Every term of the kernel at new rows, with its standard deviation, and the mean: why f is what it is there.

        For a kernel that is a sum, such as those of `groups` and kernel="additive"; on the scale of `predict_latent`.
        """
        return predict_terms(self, X)

    def predict_utility(self, items: Any, return_cov: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Utilities of single items of a model of duels (`kernels.Pairwise`), minus their average, and deviations.

        `items` have half of the columns of X.  Duels tell differences only, so that the average is not known.  With
        `return_cov` the covariance matrix takes the place of the deviations.
        """
        return predict_utility(self, items, return_cov)

    def term_shares(self, X: Any = None) -> Shares:
        """The share of the variation of f that each term of the kernel makes, with standard errors.

        The columns move independently of each other, as they do in the training rows, or in X.  `print` it for a table.
        """
        return term_shares(self, X)

    def interaction(
        self,
        first: str | int | None = None,
        second: str | int | None = None,
        X: Any = None,
        *,
        points: int = 7,
        rows: int | None = None,
    ) -> Interaction:
        """What two columns do together beyond the sum of their effects: a map on the latent scale, with deviations.

        Without names it is that of the two columns with the largest total shares of `importance()`.  It is 0 where the
        two effects simply add up.  Columns whose total share is far above their share alone are worth naming.  `points`
        are those along each column; `rows` as for `effect`, 100 by default.
        """
        if (first is None) != (second is None):
            raise ValueError("Name both columns of an interaction, or none for the two most important ones.")
        if first is None or second is None:
            order = np.argsort(-total_shares(self, X), kind="stable")
            if len(order) < 2:
                raise ValueError("An interaction is of two columns, but this model has one; use effect instead.")
            first, second = map(int, order[:2])
        return interaction(self, first, second, X, points=points, rows=rows)
