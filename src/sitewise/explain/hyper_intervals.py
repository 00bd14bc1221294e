"""Intervals of learned hyperparameters: by the curvature of the objective, or the law over which fits average."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable

import numpy as np
from scipy import special

from sitewise.explain.fitted_model import Fitted
from sitewise.fitted.function import FittedFunction, HyperLaw
from sitewise.learning.curvature import Curvature, curvature
from sitewise.learning.nested import Nested
from sitewise.learning.problem import Problem
from sitewise.methods import Method
from sitewise.parameters import Trainable
from sitewise.process.precision import working_precision
from sitewise.supports import Bounded, Positive, Real

MAX_STANDARD_ERROR = 10.0  # of log θ; the evidence is flat above
STEP = 1e-5  # of the vector, for slopes of functions of it
NEGLIGIBLE_SLOPE = 1e-8


def hyper_law(model: Fitted, latent: FittedFunction) -> HyperLaw:
    """Return the distribution of the learned hyperparameters of a fitted function."""
    return latent.hyper_law(lambda: _trainable(model, latent)) or _at_the_optimum(model, latent)


def hyper_intervals(law: HyperLaw, level: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return (low, high) of every learned hyperparameter by name, in its own units.

    An entry that ended at a bound, or is not determined, has NaN or infinite ends.  Parameters on a simplex or in an
    order, whose entries cannot move one by one, are left out.
    """
    trainable, vector, interval = law
    low, high = np.array(vector, float), np.array(vector, float)
    for k, unit in enumerate(np.eye(len(vector))):
        _, below, above = interval(unit, level)
        low[k], high[k] = vector[k] + below, vector[k] + above
    with np.errstate(over="ignore", invalid="ignore"):
        ends = [{name: np.asarray(v) for name, v in trainable.constrained(one).items()} for one in (low, high)]
    movable = [p.name for p in trainable.parameters if isinstance(p.support, Positive | Real | Bounded)]
    return {name: (ends[0][name], ends[1][name]) for name in movable}


def derived_interval(law: HyperLaw, function: Callable[[np.ndarray], float], level: float) -> tuple[float, float]:
    """Return an interval of a function of the vector of hyperparameters, by its slope (delta method)."""
    vector = np.array(law.vector, float)
    steps = STEP * np.eye(len(vector))
    slope = np.array([(function(vector + step) - function(vector - step)) / (2 * STEP) for step in steps])
    slope[np.abs(slope) < NEGLIGIBLE_SLOPE] = 0.0
    value = function(vector)
    if not slope.any():
        return np.nan, np.nan
    _, below, above = law.interval(slope, level)
    return value + below, value + above


def _trainable(model: Fitted, latent: FittedFunction) -> Trainable:
    """Return the learned hyperparameters."""
    method = model._learning()
    assert isinstance(method.learner, Nested)
    return Trainable.of(latent.model, method.learner.fixed, method.learner.train, tied=method.learner.tied)


def _at_the_optimum(model: Fitted, latent: FittedFunction) -> HyperLaw:
    """Return a normal distribution around the optimum, from the curvature of the objective."""
    method = model._learning()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit has warned
        weak = model._candidates(latent.model.likelihood, latent.data)[0].weak
    learner = dataclasses.replace(method, weak=weak).learner_of(latent.model)
    if not isinstance(learner, Nested):
        raise ValueError(
            f"{Method.of(model.method).name} does not end at a maximum of its objective, which standard errors need; "
            "fit with method='hybrid', 'ep', 'vi' or 'laplace'."
        )
    data = learner.rows_for_learning(latent.model, latent.data)
    with working_precision():
        problem = Problem.of(learner, latent.model, data)
        held = problem.at_bound(problem.start)
        same = problem.pair.final is None and data is latent.data
        sites = latent.sites if same else None  # type: ignore[attr-defined]
        covariance, flat = _covariance(curvature(problem.objective, latent.model, data, sites, held))

    def interval(factors: np.ndarray, level: float) -> tuple[float, float, float]:
        reach, used = special.ndtri(0.5 + level / 2), factors != 0
        inner = covariance[np.ix_(used, used)]
        error = np.inf if np.any(flat & used) else float(np.sqrt(factors[used] @ inner @ factors[used]))
        return error, -reach * error, reach * error

    return HyperLaw(problem.trainable, problem.start, interval)


def _covariance(found: Curvature) -> tuple[np.ndarray, np.ndarray]:
    """Return the covariance without flat directions, which would leave no maximum, and a mask of flat directions."""
    flat = -np.diagonal(found.hessian) < 1 / MAX_STANDARD_ERROR**2
    return dataclasses.replace(found, free=found.free & ~flat).covariance, flat
