"""From the best point of a search to a fit: the sites that are returned, and the posterior from their factor."""

from __future__ import annotations

import dataclasses

import numpy as np

from sitewise.arrays.engine import on_host, to_host
from sitewise.arrays.spread import whole
from sitewise.data import Data
from sitewise.inference import Inference
from sitewise.inference.solve import Solved, solve, solve_with_posterior
from sitewise.inference.start import start_of
from sitewise.learning.curvature import SearchEnd
from sitewise.learning.fit import Fit, climbed
from sitewise.learning.problem import Problem
from sitewise.learning.schedule import Schedule, Stage, StageEnd
from sitewise.learning.search import Best, Trace, inferred
from sitewise.learning.subset import predicted_sites
from sitewise.model import Model
from sitewise.process.precision import WORKING_DTYPE
from sitewise.sites import Sites


def finish(problem: Problem, best: Best, ends: list[StageEnd], data: Data, schedule: Schedule, trace: Trace) -> Fit:
    """Return the fit at the best point; `data` are all rows, of which the problem may have had some."""
    model = problem.model_at(best.vector)
    best = _settled(problem, model, best)
    solution, reason, value = best.solution, best.reason, best.value
    posterior = None if best.posterior is None else best.posterior()
    final, learned_from = problem.pair.final, None
    if final is not None:
        solution, _, posterior = _final(problem, final, model, solution.sites)
        reason += f"; learned by {problem.pair.inference.name}, sites of {final.name}"
    last = schedule.stages[-1]
    if last.max_rounds == 0:
        learned_from = problem.data
        found = _with_all_rows(problem, best, model, solution.sites, data, last)
        solution, value = found.solution, found.value
        posterior = None if found.posterior is None else found.posterior()
        reason += f"; hyperparameters from {problem.data.rows} of the {data.rows} rows, sites of all rows"
        ends = [*ends, StageEnd(last, 0, value / float(np.sum(whole(data.weight))), solution.outcome.name.lower())]
    return Fit(
        model=model,
        data=data,
        solution=solution.cut(data.rows),
        method=problem.settings.name,
        inference=(final or problem.pair.inference).name,
        objective=value,
        converged=best.success and best.solution.outcome.ok and solution.outcome.ok,
        reason=reason,
        rounds=best.rounds,
        trace=trace.entries,
        problem=problem.objective,
        climbed=climbed(problem.objective, model),
        at_bound=problem.at_bound(best.vector),
        limits=problem.limits,
        learned_from=learned_from,
        stages=tuple(ends),
        latent=posterior,
        search_end=_search_end(problem, best),
    )


def _final(problem: Problem, final: Inference, model: Model, sites: Sites) -> Solved:
    """Solve for the sites that are returned, from the sites of the inference used for learning."""
    for method in final.approach(problem.pair.inference):
        found = solve(method, model, problem.data, sites)
        sites = found.sites if found.outcome.settled else sites
    return solve_with_posterior(final, model, problem.data, sites)


def _search_end(problem: Problem, best: Best) -> SearchEnd | None:
    """Return the estimate of the Hessian that the search ended with, if it began with a computed one."""
    if not best.trusted or best.inverse is None:
        return None
    return SearchEnd(best.inverse / problem.total, best.gradient)


def _settled(problem: Problem, model: Model, best: Best) -> Best:
    """The best point with the sites of a fallback, where inference did not converge; the outcome says so."""
    if best.solution.outcome.settled:
        return best
    found = problem.solve_by_fallbacks(model, best.solution)
    if found is best.solution:
        return best
    value = float(problem.pair.evidence(model, problem.data, found.sites)) + problem.log_prior(best.vector)
    return dataclasses.replace(best, solution=found, value=value, posterior=None) if np.isfinite(value) else best


def _with_all_rows(problem: Problem, best: Best, model: Model, sites: Sites, data: Data, stage: Stage) -> Best:
    """The hyperparameters learned from a subset with the sites of all rows, which start from its predictions.

    More accurate sites would change no digit of a prediction, and every step passes over all rows.
    """
    inference = problem.settings.final_inference(model)
    assert stage.sites_tol is not None
    inference = dataclasses.replace(inference, tol=max(stage.sites_tol, inference.tolerance(WORKING_DTYPE)))
    start = None
    if on_host(model, data, sites):
        start = predicted_sites(inference, *to_host((model, problem.data, sites, data)))
    return inferred(problem, best, model, inference, data, start_of(inference, model, data) if start is None else start)
