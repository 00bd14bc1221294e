"""Score one model on one fold: log density, class probabilities, distribution function and CRPS per test row.

A score is plain data, kept in a file:

    classes   log_density, proba (shape: test rows × classes), prediction, right
    values    log_density, prediction, below = P(Y < y), up_to = P(Y ≤ y), crps

The continuous ranked probability score is the mean pinball loss over all quantiles, taken here over `LEVELS`:

    crps = 2 ∫ ρ_τ(y − q(τ)) dτ,    ρ_τ(r) = r (τ − [r < 0]).

It has the unit of y and equals the absolute error for a point prediction.  For up to `MAX_TRIALS_SUMMED` trials it is
the sum Σ_k (P(Y ≤ k) − [y ≤ k])², k < n, because binomial quantiles are slow.  Censored rows have no CRPS.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sitewise.app.compare.scipy_distributions import side_law
from sitewise.app.process import fact, recorded_warnings
from sitewise.estimators.base import GPBase
from sitewise.estimators.side_information import CENSORING, Side, censored, ends, within_bounds
from sitewise.likelihoods import BY_NAME
from sitewise.likelihoods.amounts import AmountsLaw
from sitewise.methods import Method

Score = dict[str, Any]
LEVELS = (np.arange(16) + 0.5) / 16
MAX_TRIALS_SUMMED = 64
_WITHOUT_EVIDENCE: Score = {"evidence": None, "converged": True, "warnings": []}


def own_evidence(model: GPBase) -> float | None:
    """Return the evidence that the fit maximised, in nats, or None.

    mcmc maximises no evidence; the hybrid of joint classes has other sites after learning than during learning.
    """
    structure = model.models_[0][0].prior.structure
    name = Method.of(model.method).definition.objective_on(structure)
    return None if name is None else model.evidence_[name]


def score(
    model: GPBase,
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    side: Side | None = None,
    side_test: Side | None = None,
) -> Score:
    """Fit an estimator on (X, y) and score its predictions of (X_test, y_test)."""
    side, side_test = side or {}, side_test or {}
    began = time.perf_counter()
    with recorded_warnings() as caught:
        warnings.simplefilter("ignore", ConvergenceWarning)  # `converged` reports it
        model.fit(X, y, **side)
    seconds = time.perf_counter() - began
    own = own_evidence(model)
    found = {
        "evidence": None if own is None else own / len(X),
        "seconds": seconds,
        "converged": bool(model.converged_),
        "warnings": [fact(w) for w in caught if isinstance(w, UserWarning)],
    }
    density = model.log_predictive_density(X_test, y_test, **side_test)
    if hasattr(model, "classes_"):
        return {**found, **of_classes(model.predict_proba(X_test), model.classes_, y_test), **_listed(density)}
    known = {name: column for name, column in side_test.items() if name not in CENSORING}
    below, up_to = _limits(
        lambda values: model.predict_cdf(X_test, values, **known), model.likelihood_.support, y_test, side_test
    )
    if _few_trials(known):
        crps = _sum_of_squares(lambda k: model.predict_cdf(X_test, np.full(len(y_test), k), **known), y_test, known)
    else:
        crps = _pinball(y_test, model.predict_quantiles(X_test, LEVELS, **known))
    return {**found, **_of_values(density, model.predict(X_test, **known), below, up_to, crps, y_test, side_test)}


def score_without_inputs(
    likelihood: str, y: np.ndarray, y_test: np.ndarray, side: Side | None = None, side_test: Side | None = None
) -> Score:
    """Score predictions that ignore the inputs: class frequencies, or the same distribution for all rows."""
    kind = BY_NAME[likelihood]
    if kind.support in ("classes", "ranks"):
        classes, counts = np.unique(y, return_counts=True)
        proba = np.tile(counts / counts.sum(), (len(y_test), 1))
        return without_evidence(of_classes(proba, classes, y_test))
    if side:
        return without_evidence(of_law(*side_law(y, side, side_test or {}, kind.support), y_test, side_test))
    return without_evidence(of_law(kind.baseline(np.asarray(y, float)), kind.discrete(), y_test))


def without_evidence(found: Score, seconds: float = 0.0) -> Score:
    """Complete the score of a model that is not a Gaussian process and has no evidence."""
    return {**_WITHOUT_EVIDENCE, "seconds": seconds, **found}


def of_classes(proba: np.ndarray, classes: np.ndarray, y: np.ndarray) -> Score:
    """Score class probabilities; a class of y that is not in `classes` has probability 0."""
    best = np.argmax(proba, axis=1)
    place = np.argmax(classes[None] == y[:, None], axis=1)
    known = classes[place] == y
    with np.errstate(divide="ignore"):
        density = np.log(np.where(known, proba[np.arange(len(y)), place], 0.0))
    return {
        **_listed(density), "classes": [str(c) for c in classes], "proba": proba.tolist(),
        "prediction": [str(c) for c in classes[best]], "right": (classes[best] == y).tolist(),
    }  # fmt: skip


def of_law(law: Any, whole: bool, y: np.ndarray, side: Side | None = None) -> Score:
    """Score a distribution of SciPy, common to all rows or one per row; `whole` means that y is discrete."""
    side = side or {}
    support = "counts" if whole else "amounts" if isinstance(law, AmountsLaw) else "real"
    below, up_to = _limits(law.cdf, support, y, side)
    density = law.logpmf(y) if whole else law.logpdf(y)
    if np.any(hidden := censored(y, side)):
        low, high = ends(y, side)
        with np.errstate(divide="ignore"):
            between = np.where(np.isinf(high), law.logsf(low), np.log(np.maximum(law.cdf(high) - law.cdf(low), 0.0)))
        density = np.where(hidden, between, density)
    if _few_trials(side):
        crps = _sum_of_squares(law.cdf, y, side)
    else:
        crps = _pinball(y, np.stack([np.broadcast_to(law.ppf(level), y.shape) for level in LEVELS], axis=1))
    return _of_values(density, np.broadcast_to(law.mean(), y.shape), below, up_to, crps, y, side)


def _of_values(
    density: np.ndarray, mean: np.ndarray, below: np.ndarray, up_to: np.ndarray, crps: np.ndarray, y: np.ndarray,
    side: Side,
) -> Score:  # fmt: skip
    """Return the score of predictive distributions; censored rows have no CRPS."""
    return {
        **_listed(density),
        "prediction": within_bounds(mean, y, side).tolist(),
        "below": below.tolist(),
        "up_to": up_to.tolist(),
        "crps": crps[~censored(y, side)].tolist(),
    }


def _limits(
    cdf: Callable[[np.ndarray], np.ndarray], support: str, y: np.ndarray, side: Side
) -> tuple[np.ndarray, np.ndarray]:
    """Return P(Y < y) and P(Y ≤ y); for a censored row, the distribution function at both ends of its interval."""
    if support in ("counts", "ranks"):
        return cdf(y - 1) * (y > 0), cdf(y)
    low, high = ends(y, side)
    up_to = np.where(np.isinf(high), 1.0, cdf(np.where(np.isinf(high), y, high)))
    if support == "amounts":
        return up_to * (y > 0), up_to
    below = np.where(np.isinf(low), 0.0, cdf(np.where(np.isinf(low), y, low))) if np.any(low != high) else up_to
    return below, up_to


def _pinball(y: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Return the CRPS per row as twice the mean pinball loss over `LEVELS`."""
    gap = y[:, None] - quantiles
    return 2 * np.mean(gap * (LEVELS - (gap < 0)), axis=1)


def _few_trials(side: Side) -> bool:
    return "trials" in side and np.max(side["trials"]) <= MAX_TRIALS_SUMMED


def _sum_of_squares(cdf: Callable[[int], np.ndarray], y: np.ndarray, side: Side) -> np.ndarray:
    """Return the CRPS per row of successes in few trials: Σ_k (P(Y ≤ k) − [y ≤ k])²."""
    found = np.zeros(len(y))
    for k in range(int(np.max(side["trials"]))):
        found += (k < side["trials"]) * (cdf(k) - (y <= k)) ** 2
    return found


def _listed(density: np.ndarray) -> Score:
    return {"log_density": np.asarray(density).tolist()}
