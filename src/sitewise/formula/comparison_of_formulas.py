"""Compare fitted formulas on the same rows: differences of evidence and of leave-one-out, with standard errors."""

from __future__ import annotations

import dataclasses

import numpy as np

from sitewise.errors import UserError
from sitewise.formula.formula_model import FormulaModel
from sitewise.formula.formula_summary import aligned
from sitewise.formula.summarise import log_evidence, weighted_sum


@dataclasses.dataclass(frozen=True)
class FormulaComparison:
    """Fitted formulas from the best to the worst leave-one-out log density; `print` shows a table.

    Attributes
    ----------
    formulas : tuple of str
        The formulas, the best first.
    likelihoods : tuple of str
        The likelihood of each; `print` shows them if they differ.
    loo, evidence : array of shape (n_models,)
        The sum of the leave-one-out log densities, and the log evidence, in nats.  This is the evidence from which the
        hyperparameters were learned, or EP's evidence if the models were learned from different ones.
    loo_difference, loo_error : array of shape (n_models,)
        The difference to the best model, and its standard error over the rows.
    evidence_difference : array of shape (n_models,)
        The difference of the log evidence to the best model (the log Bayes factor).
    """

    formulas: tuple[str, ...]
    likelihoods: tuple[str, ...]
    loo: np.ndarray
    evidence: np.ndarray
    loo_difference: np.ndarray
    loo_error: np.ndarray
    evidence_difference: np.ndarray

    def __str__(self) -> str:
        head = ("formula", "loo", "difference", "error", "evidence", "difference")
        numbers = (self.loo, self.loo_difference, self.loo_error, self.evidence, self.evidence_difference)
        names = list(self.formulas)
        if len(set(self.likelihoods)) > 1:
            names = [f"{name}, {likelihood}" for name, likelihood in zip(names, self.likelihoods, strict=True)]
        rows = [(name, *map(float, each)) for name, *each in zip(names, *numbers, strict=True)]
        return "\n".join(aligned(head, rows, "{:.2f}"))

    __repr__ = __str__


def compare(*models: FormulaModel) -> FormulaComparison:
    """Compare fitted formulas on the same rows by leave-one-out log density and evidence.

    The standard error of a difference of leave-one-out log densities is √n times the standard deviation of the
    differences per row.  Differences of a few standard errors or less, or of less than about 4 nats, mean little.

    Parameters
    ----------
    *models : FormulaModel
        At least two fitted formulas with the same response and rows.

    Returns
    -------
    comparison : FormulaComparison
        The best model first.
    """
    if len(models) < 2 or not all(isinstance(model, FormulaModel) for model in models):
        raise UserError("compare takes at least two fitted formulas, as in compare(a, b).")
    first, weight = models[0].estimator._y, models[0].estimator._weight
    for other in models[1:]:
        if not np.array_equal(first, other.estimator._y) or not np.array_equal(weight, other.estimator._weight):
            raise UserError("The models have different responses or rows; fit them to the same table.")
    densities = np.array([model.estimator._loo_log_density() for model in models])
    totals = densities @ weight
    order = np.argsort(-totals, kind="stable")
    gaps = [weighted_sum(one, weight) for one in densities[order] - densities[order[0]]]
    learned = {model.estimator._learned_evidence() for model in models}
    shared = learned.pop() if len(learned) == 1 else "ep"  # a bound and an estimate of log Z have no difference
    evidence = np.array([log_evidence(model.estimator, shared) for model in models])[order]
    difference, error = np.array(gaps).T
    names, likelihoods = (tuple(getattr(models[k], of) for k in order) for of in ("formula", "likelihood_name"))
    return FormulaComparison(names, likelihoods, totals[order], evidence, difference, error, evidence - evidence[0])
