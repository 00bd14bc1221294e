"""FormulaModel: a fitted formula with predictions, terms, draws and files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitewise.checks import at_least
from sitewise.errors import UserError
from sitewise.estimators.exporting import write
from sitewise.estimators.fitted_estimator import FittedEstimator
from sitewise.estimators.model_file import to_bytes
from sitewise.explain.table_columns import Explained
from sitewise.formula.design import INTERCEPT, Design, FormulaTerm
from sitewise.formula.expansion import canonical_name
from sitewise.formula.exported_inputs import exported_inputs
from sitewise.formula.formula_columns import explained_formula
from sitewise.formula.formula_estimator import kind_of
from sitewise.formula.formula_file import StoredFormula
from sitewise.formula.formula_summary import Summary
from sitewise.formula.grammar import names_in, parse_expression
from sitewise.formula.predictive_checks import Check, check_of
from sitewise.formula.summarise import log_evidence, summary_of
from sitewise.formula.term_posteriors import TermPosteriors
from sitewise.likelihoods import Likelihood
from sitewise.process import files
from sitewise.tables.table import Table, table_of

PREDICTED_SIDE = ("exposure", "trials", "noise")  # describe new rows, too


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Predictions of the response per row.

    Attributes
    ----------
    mean : array of shape (n_rows,)
        The expected response: probability of the second class for two classes, expected label for ordered numbers.
    low, high : array of shape (n_rows,)
        The ends of the interval of a new response.
    level : float
        The level of the interval.
    """

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float


@dataclasses.dataclass(frozen=True)
class TermPredictions:
    """Predictions of the terms of a formula per row, on the scale of the latent function (the linear predictor).

    Attributes
    ----------
    names : tuple of str
        The terms.
    mean, sd : array of shape (n_rows, n_terms)
        Posterior mean and standard deviation.  Smooth terms are relative to their average over the training rows.
    low, high : array of shape (n_rows, n_terms)
        The ends of pointwise credible intervals.
    level : float
        The level of the intervals.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float


class FormulaModel:
    """A fitted formula; `sitewise.fit` makes it.

    Parameters
    ----------
    design : Design
        How a table becomes inputs.
    likelihood : str or Likelihood
        The likelihood as given.
    estimator : GPRegressor, GPClassifier or GPOrdinal
        The fitted estimator.
    side : dict
        The expressions of side information, by keyword.
    seconds : float, default=0.0
        The time of the fit.
    messages : sequence of str, default=()
        The warnings of the fit.

    Attributes
    ----------
    formula : str
        The formula.
    terms : list of FormulaTerm
        The terms: linear terms together, smooth and group terms one by one, the intercept.
    rows : int
        The number of training rows.
    warnings : tuple of str
        The warnings of the fit.

    See Also
    --------
    fit : fits a formula to a table.
    compare : compares fitted formulas.
    """

    def __init__(
        self,
        design: Design,
        likelihood: str | Likelihood,
        estimator: FittedEstimator,
        side: Mapping[str, str],
        seconds: float = 0.0,
        messages: Sequence[str] = (),
    ) -> None:
        self.design, self.likelihood, self.estimator = design, likelihood, estimator
        self._side, self.seconds, self.warnings = dict(side), seconds, tuple(messages)

    @property
    def formula(self) -> str:
        return self.design.formula.text

    @property
    def terms(self) -> list[FormulaTerm]:
        return self.design.terms

    @property
    def rows(self) -> int:
        """The number of training rows."""
        return len(self.estimator._X)

    def __repr__(self) -> str:
        return f"FormulaModel({self.formula!r}, likelihood={self.likelihood!r}, n={self.rows})"

    # -- inputs ----------------------------------------------------------------------------------------------

    def _table(self, new: Any) -> Table:
        return new if isinstance(new, Table) else table_of(new, "the new table")

    def _inputs(self, new: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the inputs of new rows, or of the training rows for None, and their side information."""
        if new is None:
            kept = {name: self.estimator._side[name] for name in PREDICTED_SIDE if name in self.estimator._side}
            return self.estimator._X, kept
        table = self._table(new)
        side = {}
        for name, text in self._side.items():
            node = parse_expression(text)
            if name in PREDICTED_SIDE and all(column in table.columns for column in names_in(node)):
                side[name] = self.design.coding.numbers(node, table)
        return np.asarray(self.design.inputs(table)), side

    @property
    def likelihood_name(self) -> str:
        """The likelihood as it was named, or the name of its class."""
        return self.likelihood if isinstance(self.likelihood, str) else type(self.likelihood).__name__

    def explained(self) -> Explained:
        """Return the estimator with the columns of its inputs, for displays and forecasts."""
        return explained_formula(self.design, self.estimator, self._future_side)

    @property
    def predicted_side(self) -> dict[str, str]:
        """The expressions of side information that predictions use, by keyword."""
        return {name: text for name, text in self._side.items() if name in PREDICTED_SIDE}

    def _future_side(self, new: Any, given: dict[str, Any]) -> dict[str, Any]:
        """Return the given side information with that of future rows; UserError if trials or exposure are missing.

        A forecast per trial beside observed numbers of successes would be misread.
        """
        needed = self.predicted_side
        found = {**({} if new is None else self._inputs(new)[1]), **given}
        gone = [f"{name}={text!r}" for name, text in needed.items() if name not in found]
        if gone:
            name = gone[0].split("=")[0]
            raise UserError(
                f"The model was fitted with {gone[0]}; add its column to the table of new rows, or in Python give "
                f"{name}= or new=."
            )
        return found

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(
        self, new: Any = None, terms: bool | str | Sequence[str] | None = None, interval: float | None = None
    ) -> np.ndarray | Prediction | TermPredictions:
        """Predict the response, with an interval, or the terms of the formula.

        Parameters
        ----------
        new : table, default=None
            New rows with the columns of the formula; None for the training rows.  New levels of groups are predicted
            from their prior.  Without the columns of `trials` or `exposure`, predictions are for one trial or for
            exposure 1.
        terms : bool, str or sequence of str, default=None
            True for all terms, or names of terms: predict these on the scale of the latent function.
        interval : float, default=None
            The level of an interval: of a new response, or with `terms` of the term (0.9 if not given).

        Returns
        -------
        predictions : array, Prediction or TermPredictions
            The expected response; with `interval` also the ends of the interval; with `terms` the terms.
        """
        if interval is not None and not 0 < interval < 1:
            raise UserError(f"interval must lie between 0 and 1, as in interval=0.9; got {interval!r}.")
        X, side = self._inputs(new)
        if terms is not None and terms is not False:
            return self._predict_terms(X, terms, 0.9 if interval is None else interval)
        mean = self._mean(X, side)
        if interval is None:
            return mean
        if kind_of(self.likelihood) == "classes":
            raise UserError("A label of two classes has no interval; predict() gives its probability.")
        low, high = self.estimator.predict_interval(X, interval, **side)
        return Prediction(mean, low, high, interval)

    def predict_parameter(self, new: Any = None, level: float = 0.9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predict the parameter of the second formula, such as the scale of the noise in the units of the response.

        Parameters
        ----------
        new : table, default=None
            New rows with the columns of the formula; None for the training rows.
        level : float, default=0.9
            The level of the credible interval.

        Returns
        -------
        median, low, high : array of shape (n_rows,)
            The posterior median of the parameter, and the ends of its interval.
        """
        if self.design.formula.varying is None:
            raise UserError("predict_parameter is for a second formula, as in 'y ~ s(x); scale ~ z'.")
        return self.estimator.predict_parameter(self._inputs(new)[0], level)

    def _mean(self, X: np.ndarray, side: Mapping[str, np.ndarray]) -> np.ndarray:
        kind = kind_of(self.likelihood)
        if kind == "values":
            return self.estimator.predict(X, **side)
        table = self.estimator.predict_proba(X)
        return table[:, 1] if kind == "classes" else table @ self.estimator.label_values_

    def _predict_terms(self, X: np.ndarray, terms: bool | str | Sequence[str], level: float) -> TermPredictions:
        chosen = self._terms_named(terms)
        functions = [self.posteriors_of(number) for number in range(len(self.design.formula.functions))]
        moments = [functions[term.function].term(term, X) for term in chosen]
        mean, sd = (np.reshape([one[i] for one in moments], (len(chosen), len(X))).T for i in (0, 1))
        reach = functions[0].reach(level)
        return TermPredictions(tuple(t.name for t in chosen), mean, sd, mean - reach * sd, mean + reach * sd, level)

    def _terms_named(self, terms: bool | str | Sequence[str]) -> list[FormulaTerm]:
        if terms is True:
            return [term for term in self.terms if term.kind != INTERCEPT]
        wanted = [terms] if isinstance(terms, str) else list(terms)  # type: ignore[arg-type]
        known = {term.name: term for term in self.terms}
        wanted = [name if name in known else canonical_name(str(name), self.design.before) for name in wanted]
        odd = [name for name in wanted if name not in known]
        if odd:
            raise UserError(f"There is no term {odd[0]!r}; the terms are {', '.join(map(repr, known))}.")
        return [known[name] for name in wanted]

    @property
    def posteriors(self) -> TermPosteriors:
        """Posteriors of the terms and coefficients on the scale of the latent function."""
        return self.posteriors_of(0)

    def posteriors_of(self, function: int) -> TermPosteriors:
        """Return the posteriors of the terms of the response (0) or of the parameter that varies (1)."""
        return TermPosteriors(self.estimator, self.design, function)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted formula to one file that `sitewise.load` reads (docs/reference/model-file.md).

        Parameters
        ----------
        path : str or path
            The file; an existing file is replaced as a whole.
        """
        more = {
            "likelihood": self.likelihood, "side": self._side, "seconds": self.seconds, "messages": list(self.warnings),
        }  # fmt: skip
        files.write_whole(Path(path), to_bytes(StoredFormula.of(self.design, self.estimator, more)))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted formula for predictions with NumPy alone, and `numpy_predictor.py` in the same folder.

        Parameters
        ----------
        path : str or path
            The model file, such as "model.npz".
        """
        write(path, [exported_inputs(self.design)], self.estimator, predicts_class=False)

    @staticmethod
    def of_file(stored: StoredFormula) -> FormulaModel:
        """Return the model of the content of a file."""
        return FormulaModel(stored.design(), estimator=stored.inner, **stored.state["more"])

    # -- diagnostics -----------------------------------------------------------------------------------------

    def summary(self, level: float = 0.9) -> Summary:
        """Return the table of estimates: coefficients, smooth and group terms, likelihood, evidence, leave-one-out.

        Parameters
        ----------
        level : float, default=0.9
            The level of the intervals.

        Returns
        -------
        summary : Summary
            `print` shows it as text, a notebook as tables; `to_frame()` returns a data frame.
        """
        if not 0 < level < 1:
            raise UserError(f"level must lie between 0 and 1, got {level!r}.")
        return summary_of(self.estimator, self.design, self.likelihood_name, level, self.seconds, self.warnings)

    @property
    def loo(self) -> Any:
        """Leave-one-out predictions of the training rows: log_density, and for numbers probability, mean and std."""
        return self.estimator.loo_

    @property
    def log_evidence(self) -> float:
        """The log evidence from which the hyperparameters were learned, in nats."""
        return log_evidence(self.estimator)

    def check(self, draws: int = 200, seed: int = 0) -> Check:
        """Return posterior predictive checks: calibration, rootogram, dispersion, zeros, correlations of residuals.

        Parameters
        ----------
        draws : int, default=200
            The number of draws of the responses.
        seed : int, default=0
            The seed.

        Returns
        -------
        check : Check
            `print` shows it as text.
        """
        if kind_of(self.likelihood) != "values":
            raise UserError("check() needs a response of numbers; for labels use sitewise.ReliabilityDisplay.")
        own = self.estimator._latents[0].model.likelihood
        return check_of(
            self.estimator._y, self.simulate(None, draws, seed), self.loo, bool(own.discrete()),
            self.estimator._realised_residuals(draws, seed), self._places(), self._times(), seed,
        )  # fmt: skip

    def _columns_of(self, kind: str) -> np.ndarray | None:
        """Return the inputs of the first term of a kind, per training row."""
        term = next((one for one in self.terms if one.kind == kind), None)
        if term is None:
            return None
        names = self.estimator._given_names()
        return np.asarray(self.estimator._X[:, [names.index(column) for column in term.columns]])

    def _places(self) -> np.ndarray | None:
        return self._columns_of("map")

    def _times(self) -> tuple[np.ndarray, np.ndarray] | None:
        found = self._columns_of("series")
        if found is None:
            return None
        return found[:, 0], found[:, 1] if found.shape[1] > 1 else np.zeros(len(found))

    def simulate(self, new: Any = None, draws: int = 100, seed: int = 0) -> np.ndarray:
        """Draw new responses jointly for all rows: the posterior predictive distribution.

        Parameters
        ----------
        new : table, default=None
            New rows; None for the training rows.
        draws : int, default=100
            The number of draws.
        seed : int, default=0
            The seed.

        Returns
        -------
        responses : array of shape (draws, n_rows)
            One row per draw.
        """
        at_least("draws", draws, 1)
        X, side = self._inputs(new)
        found = self.estimator.sample_y(X, draws, seed, **side)
        return np.asarray(found).T
