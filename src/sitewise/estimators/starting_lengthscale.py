"""The starting lengthscale of a default kernel: the best of a few, by an evidence without its gradient."""

from __future__ import annotations

import dataclasses

import numpy as np

from sitewise.data import Data
from sitewise.inference import Solution
from sitewise.kernels import NormalScores
from sitewise.kernels.distances import same_rows
from sitewise.kernels.lengthscale_start import typical_distance
from sitewise.learning.nested import Nested
from sitewise.learning.problem import Problem
from sitewise.learning.subset import sampled
from sitewise.model import Model
from sitewise.parameters import values, with_values
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

MAX_STARTS = 8  # lengthscales that are tried
# Rows, times latent functions, of the subset on which they are compared, if there are several columns.
MAX_START_ROWS, START_SEED = 400, 0
START_DISTANCE_SHARE = np.sqrt(2.0)  # typical distances of the longest start, the centre of the weak prior
START_SITES_TOL = 1e-2  # residual of the sites on which they are compared: an error of hundredths of a nat


def starting_lengthscale(learner: Nested, model: Model, data: Data) -> tuple[Model, Sites | None]:
    """Return the model with the starting lengthscale of a default kernel, and the sites of its rows if known.

    Of a few lengthscales the one of highest evidence is the start.  One column: ℓ, ℓ/4, ℓ/16, … down to four
    typical steps.  The optimum of a series of many periods is far below the spread of its times; from there the
    ascent leads to a constant.  Several columns: ℓ, 4ℓ, … up to √2 times the typical distance of rows, which is
    √(2d) standard deviations in d columns, compared on a subset of the rows.  From a lengthscale far below this
    distance the ascent may lead to independent rows, a local maximum that predicts nothing.  With a varying parameter
    the evidences are those of the model that holds the parameter constant.
    """
    simple = model.one_function()
    if simple.likelihood is not model.likelihood:
        # Settings may name hyperparameters of the second function.
        alone = dataclasses.replace(learner, fixed=(), train=(), bounds={}, priors={}, tied=())
        started, _ = starting_lengthscale(alone, simple, data)
        own = values(started)
        return with_values(model, {name: own[name] for name in values(model) if name.startswith("kernel.")}), None
    rows = learner.rows_for_learning(model, data)
    known, X = values(model), model.prior.kernel_columns(np.asarray(rows.X))
    kernel, path = model.prior.kernel, "kernel."
    if isinstance(kernel, NormalScores):
        X, kernel, path = kernel.transform(kernel.active_columns(X)), kernel.base, "kernel.base."
    name = next((n for n in (f"{path}lengthscale", f"{path}base.lengthscale") if n in known), None)
    if name is None or known[name].ndim:
        return model, None
    first = float(known[name])
    if X.shape[1] == 1:
        least = 4 * float(np.ptp(X)) * model.prior.count_series(np.asarray(rows.X)) / len(X)
        lengths = [first * 4.0**-k for k in range(MAX_STARTS) if k == 0 or first * 4.0**-k >= least > 0]
    else:
        seen = X if kernel.active_dims is None else X[:, list(kernel.active_dims)]
        rows = sampled(rows, MAX_START_ROWS // model.likelihood.latents, START_SEED)
        typical = typical_distance(seen / np.asarray(getattr(kernel, "units", 1.0)))
        longest = START_DISTANCE_SHARE * typical
        lengths = [first * 4.0**k for k in range(MAX_STARTS) if k == 0 or first * 4.0**k <= longest]
    if len(lengths) == 1:
        return model, None
    tried = [_lengthened(model, name, length / first) for length in lengths]
    with working_precision():
        problem = Problem.of(learner, model, rows)
        with same_rows(problem.data.X):
            found = [_start_value(problem, one) for one in tried]
    best = int(np.argmax([value for value, _ in found]))
    # A fit from given sites has one stage, as a fit of so few rows has anyway.
    whole = problem.on_host and model.prior.exact and rows.rows == data.rows <= MAX_START_ROWS
    return tried[best], found[best][1].sites if whole else None


def _lengthened(model: Model, name: str, factor: float) -> Model:
    """Return the model with a longer or shorter lengthscale; a longer one has a larger variance, for equal slopes."""
    known = values(model)
    moved = {name: known[name] * factor}
    variance = name.replace("lengthscale", "variance")
    if factor > 1 and variance in known:
        moved[variance] = known[variance] * factor
    return with_values(model, moved)


def _start_value(problem: Problem, model: Model) -> tuple[float, Solution]:
    """Return the objective of a start and its sites; on the host the sites are approximate."""
    vector = np.asarray(problem.trainable.to_vector(model))
    if problem.on_host:
        return problem.approximate_value(vector, problem.first_sites, START_SITES_TOL)
    found = problem.evaluate(vector, problem.first_sites)
    return float(found.value) if found.solution.outcome.settled else -np.inf, found.solution
