"""Run the stages of a schedule: one search after another, each from the hyperparameters and sites of the one before.

A coarse stage hands three things to the next stage: the hyperparameters, the inverse of the Hessian per row, and sites
predicted for rows outside its subset.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from sitewise.arrays.engine import on_host
from sitewise.arrays.spread import agreed, is_spread
from sitewise.data import Data
from sitewise.kernels.distances import same_rows
from sitewise.learning.ascent import CONVERGED, NO_GAIN
from sitewise.learning.checkpoint import Start
from sitewise.learning.hessian import can_guess, guessed_inverse, inverse_per_row
from sitewise.learning.objective import INPUTS, pulls_on_host
from sitewise.learning.problem import Problem
from sitewise.learning.schedule import (
    ALL_ROWS_SITES_TOL,
    ROUNDS_BEFORE_HESSIAN,
    STAGE_FACTOR,
    Schedule,
    Stage,
    StageEnd,
    coarse_rows,
)
from sitewise.learning.search import Best, Trace, inferred, search
from sitewise.learning.subset import predicted_sites, sampled
from sitewise.model import Model
from sitewise.priors.inducing import select
from sitewise.types import replace


def run(schedule: Schedule, problem: Problem, seed: int, trace: Trace) -> tuple[Problem, Best, list[StageEnd]]:
    """Run the searches of a schedule; return the problem, its best point, and how the stages ended.

    The problem is another one at the end if inducing inputs were moved.  A coarse stage that was read from the
    checkpoint is not among the ends.

    Parameters
    ----------
    schedule : Schedule
        The stages.
    problem : Problem
        Has the rows from which hyperparameters are learned.
    seed : int
        Seed of the rows and inducing inputs of the stages.
    trace : Trace
        Called with every evaluation.
    """
    best: Best | None = None
    start, ends = Start(problem.start), list[StageEnd]()
    coarse_model = functools.cache(functools.partial(_with_fewer_inputs, problem, seed))
    for k, stage in enumerate(schedule.stages):
        if stage.max_rounds == 0:
            continue  # the sites of all rows, at the hyperparameters that the other stages find
        trace.clock.begin(k)
        if stage.coarse:
            following = _rows_to_predict(problem, schedule.stages[k + 1], seed)
            inner = trace.coarse()
            compute = functools.partial(_coarse, problem, coarse_model, stage, start, seed, inner, ends, following)
            start = trace.kept(f"stage {k}", compute)
            continue
        total = problem.total
        if stage.move_inputs:
            assert best is not None
            problem, end, total = _moved(problem, best, stage, seed, trace.coarse())
            start, best = Start(problem.start), None
            coarse_model = functools.cache(functools.partial(_with_fewer_inputs, problem, seed))
        elif stage.restart is not None:
            assert best is not None
            end = search(problem, Start(problem.restarts(seed)[stage.restart - 1]), trace)
            # An ascent that did not converge may have ended next to a pole of Laplace's evidence.
            if (end.success, end.value) > (best.success, best.value):
                best = end
        elif stage.continues:
            assert best is not None
            before, best = best.rounds, _continued(problem, best, stage, trace)
            rounds = best.rounds - before
            end = dataclasses.replace(best, rounds=rounds, reason=best.reason if rounds else "inference only")
        else:
            here = problem.with_sites_tol(stage.sites_tol)
            best = end = _climb(here, start, stage, trace, problem.settings.max_rounds, f"Hessian of stage {k}")
        ends.append(StageEnd(stage, end.rounds, end.value / total, end.reason))
    assert best is not None
    return problem, best, ends


def _climb(problem: Problem, start: Start, stage: Stage, trace: Trace, max_rounds: int, name: str) -> Best:
    """Search from `start`; compute a Hessian during the search if the stage asks for one and none is known."""
    guess = functools.partial(guessed_inverse, problem, start.vector) if can_guess(problem) else None
    go = functools.partial(search, problem, trace=trace, tol=stage.tol, least_gain=stage.least_gain, guess=guess)
    known = start.inverse is not None or INPUTS in problem.trainable.names or not len(start.vector)
    if known or not stage.hessian:
        return go(start, max_rounds=max_rounds)
    first = go(start, max_rounds=min(ROUNDS_BEFORE_HESSIAN, max_rounds))
    left = max_rounds - first.rounds
    if first.success or left <= 0:
        return first

    def with_hessian() -> Start:
        sites = first.solution.sites
        return Start(first.vector, inverse_per_row(problem, first.vector, sites), sites)

    end = go(trace.kept(name, with_hessian), max_rounds=left)
    return dataclasses.replace(end, rounds=first.rounds + end.rounds)


def _coarse(
    problem: Problem,
    model_with: Callable[[int | None], Model],
    stage: Stage,
    start: Start,
    seed: int,
    trace: Trace,
    ends: list[StageEnd],
    following: Data | None,
) -> Start:
    """Search with some of the rows; return where the next stage starts.

    Inference there starts from the predictions of this stage for the rows `following`, if they are given.  Without
    convergence within the bounds of the problem, the next stage starts where this one did.
    """
    assert stage.rows is not None
    rows = sampled(problem.data, stage.rows, seed)
    here = Problem.of(problem.settings, model_with(stage.inputs), rows).with_sites_tol(stage.sites_tol)
    with same_rows(here.data.X):
        end = _climb(here, start, stage, trace, problem.settings.max_rounds, "")
    ends.append(StageEnd(stage, end.rounds, end.value / here.total, end.reason))
    found = Start(start.vector, start.inverse)
    if end.success and not problem.at_bound(end.vector):
        inverse = end.inverse
        if problem.model.prior.dense and problem.on_host:
            inverse = inverse_per_row(here, end.vector, end.solution.sites)
        found = Start(end.vector, inverse)
        if following is not None:
            model = here.model_at(end.vector)
            sites = predicted_sites(problem.pair.inference, model, here.data, end.solution.sites, following)
            found = found._replace(sites=sites)
    return _agreed(found) if is_apart(problem) else found


def _rows_to_predict(problem: Problem, stage: Stage, seed: int) -> Data | None:
    """Return the rows of the next stage, if their sites are to start from predictions.

    For a coarse stage the prediction pays where conditioning is expensive, as it is with a sparse precision.
    """
    prior = problem.model.prior
    if not problem.on_host or not prior.predicts_sites or (stage.coarse and not prior.staged):
        return None
    return problem.data if stage.rows is None or not stage.coarse else sampled(problem.data, stage.rows, seed)


def is_apart(problem: Problem) -> bool:
    """Return whether rows are spread over devices, and every process searches coarse stages by itself."""
    names = problem.trainable.names
    return is_spread(problem.data) and pulls_on_host(problem.model, names) and on_host(problem.model)


def _agreed(start: Start) -> Start:
    """Return the start on which all processes agree: rounding differences would lead them different ways."""
    empty = np.zeros((len(start.vector), len(start.vector)))
    inverse = start.inverse
    some, vector, inverse = agreed((np.array(inverse is not None), start.vector, empty if inverse is None else inverse))
    return Start(vector, inverse if some else None)


def _with_fewer_inputs(problem: Problem, seed: int, count: int | None) -> Model:
    """Return the model with `count` inducing inputs, centres of clusters (a part of Z would leave gaps).

    None returns the model unchanged.
    """
    if count is None:
        return problem.model
    drawn = sampled(problem.data, STAGE_FACTOR**2 * coarse_rows(count), seed)
    fewer = select(np.asarray(drawn.X), "kmeans", count, kernel=problem.model.prior.kernel, seed=seed)
    return replace(problem.model, prior=problem.model.prior.with_inputs(fewer))


def _moved(problem: Problem, best: Best, stage: Stage, seed: int, trace: Trace) -> tuple[Problem, Best, float]:
    """Train hyperparameters and inducing inputs together on some rows.

    Return the problem with those inputs, the end of the search, and the number of rows of the search.

    The ascent starts from the optimum for the present inputs and is short, because EP's evidence (FITC's) is no bound
    and can overfit inducing inputs.
    """
    assert stage.rows is not None
    settings = dataclasses.replace(problem.settings, train=(*problem.settings.train, INPUTS))
    here = Problem.of(settings, problem.model_at(best.vector), sampled(problem.data, stage.rows, seed))
    end = search(here, Start(here.start), trace, max_rounds=stage.max_rounds)
    return Problem.of(problem.settings, here.model_at(end.vector), problem.data), end, here.total


def _continued(problem: Problem, best: Best, stage: Stage, trace: Trace) -> Best:
    """Return the best point with accurate sites in place of approximate ones; continue an unfinished search."""
    left = problem.settings.max_rounds - best.rounds
    if best.reason in (CONVERGED, NO_GAIN) or left <= 0:
        model, inference = problem.model_at(best.vector), problem.pair.inference
        if problem.model.prior.staged and inference.tol is None:
            inference = dataclasses.replace(inference, tol=ALL_ROWS_SITES_TOL)
        return inferred(problem, best, model, inference, problem.data, best.solution.sites)
    start = Start(best.vector, best.inverse, best.solution.sites)
    end = search(problem, start, trace, max_rounds=left, least_gain=stage.least_gain)
    return dataclasses.replace(end, rounds=best.rounds + end.rounds)
