"""One search for hyperparameters: climb θ ↦ evidence(θ, λ*(θ)), and start inference at each θ from the last sites.

`ascend` is a generator that requests evaluations, so that many searches can be answered by one compiled program;
`search` answers the requests of one.  Both take a `Problem` and return a `Best`; neither changes the problem.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from sitewise.arrays.engine import to_host
from sitewise.data import Data
from sitewise.inference import Inference, Solution
from sitewise.inference.solve import solve_with_posterior
from sitewise.learning.ascent import climb
from sitewise.learning.checkpoint import Checkpoint, Start, near
from sitewise.learning.clock import Clock
from sitewise.learning.objective import Evaluation, MakePosterior
from sitewise.learning.problem import Problem
from sitewise.model import Model
from sitewise.sites import Sites
from sitewise.types import Outcome

Callback = Callable[[dict[str, Any]], None]
LEAST_CURVATURE = 0.1  # nats per squared unit of log θ: a guessed Hessian may be steeper than the objective
MAX_FALLBACKS = 3  # points of one search at which the fallbacks of inference are tried; they take many steps


@dataclasses.dataclass(frozen=True, eq=False)
class Best:
    """The best point of a search, and how the search ended.

    posterior   makes q(f) at this point from the factor of the evaluation; None on an accelerator
    inverse     the inverse of the negative Hessian per row, for another search of this objective
    trusted     whether this inverse began with a computed one
    gradient    of the objective at this point; None on sites that another search has solved for
    """

    vector: np.ndarray
    value: float
    solution: Solution
    settled: bool
    posterior: MakePosterior | None = None
    success: bool = False
    reason: str = ""
    rounds: int = 0
    inverse: np.ndarray | None = None
    trusted: bool = False
    gradient: np.ndarray | None = None


@dataclasses.dataclass
class Trace:
    """The evaluations of all searches of one fit: entries for the report, a callback, a file to resume from."""

    callback: Callback | None = None
    checkpoint: Checkpoint | None = None
    clock: Clock = dataclasses.field(default_factory=Clock)
    entries: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def coarse(self) -> Trace:
        """Return the trace of a coarse stage: the same callback and clock, entries of its own, no file."""
        return Trace(self.callback, clock=self.clock)

    def answer(self, problem: Problem, vector: np.ndarray, sites: Sites) -> tuple[Evaluation, bool]:
        """Return the evaluation, and whether an earlier run had computed it."""
        known = None if self.checkpoint is None else self.checkpoint.answer(vector)
        if known is not None:
            return known, True
        found = problem.evaluate(vector, sites)
        if self.checkpoint is not None:
            self.checkpoint.add(vector, found)
        return found, False

    def kept(self, name: str, compute: Callable[[], Start]) -> Start:
        """Return the start of an ascent, computed or read from the checkpoint."""
        return compute() if self.checkpoint is None else self.checkpoint.start(name, compute)

    def record(self, problem: Problem, vector: np.ndarray, found: Evaluation, repeated: bool) -> None:
        """Add an entry, and call the callback unless the evaluation was read from the checkpoint."""
        self.clock.evaluated()
        entry = {
            **problem.trainable.constrained(np.asarray(vector)),
            "objective": float(found.value),
            "share": self.clock.share,
            "slope": float(np.max(np.abs(found.gradient), initial=0.0)) / problem.total,
            "residual": float(found.solution.stats.residual),
            "steps": int(found.solution.stats.steps),
            "outcome": found.solution.outcome.name,
        }
        self.entries.append(entry)
        if self.callback is not None and not repeated:
            self.callback(entry)


Guess = Callable[[Sites], np.ndarray | None]
Request = tuple[np.ndarray, Sites]  # θ, and the sites from which inference starts
Answer = tuple[Evaluation, bool]  # the evaluation, and whether an earlier run had computed it


def search(
    problem: Problem,
    start: Start,
    trace: Trace,
    *,
    max_rounds: int | None = None,
    tol: float | None = None,
    least_gain: float = 0.0,
    guess: Guess | None = None,
) -> Best:
    """Climb from `start` to the best point; the settings of the problem limit rounds and give the tolerance.

    `guess` makes the inverse of the negative Hessian per row from the sites of the first evaluation, if `start` has
    none.
    """
    run = ascend(problem, start, trace, max_rounds=max_rounds, tol=tol, least_gain=least_gain, guess=guess)
    request = next(run)
    if trace.checkpoint is not None:
        trace.checkpoint.begin()
    while True:
        try:
            request = run.send(trace.answer(problem, *request))
        except StopIteration as end:
            return end.value


def ascend(
    problem: Problem,
    start: Start,
    trace: Trace,
    *,
    max_rounds: int | None = None,
    tol: float | None = None,
    least_gain: float = 0.0,
    guess: Guess | None = None,
) -> Generator[Request, Answer, Best]:
    """Yield (θ, sites to start from), receive the evaluation there, and return the best point."""
    best: Best | None = None
    first, inverse, sites = start
    sites, fallbacks, settings = problem.first_sites if sites is None else sites, 0, problem.settings
    steps = climb(
        first / problem.units,
        problem.limits / problem.units[:, None],
        tol=settings.tol if tol is None else tol,
        max_rounds=settings.max_rounds if max_rounds is None else min(max_rounds, settings.max_rounds),
        guess=lambda: guess(sites) if inverse is None and guess is not None and sites is not None else inverse,
        least_gain=least_gain * len(first) / problem.total,
        least_curvature=LEAST_CURVATURE / problem.total if inverse is None else np.inf,
    )
    vector = next(steps) * problem.units if len(first) else first
    while True:
        result, repeated = yield vector, sites
        if not result.solution.outcome.settled and sites is not problem.first_sites:
            # The sites of the last θ may be a bad start here; the likelihood's own start is never a very bad one.
            again, repeated = yield vector, problem.first_sites
            if again.solution.outcome.settled or not np.isfinite(float(result.value)):
                result = again
        if not result.solution.outcome.settled and fallbacks < MAX_FALLBACKS:
            fallbacks += 1
            found = problem.solve_by_fallbacks(problem.model_at(vector), result.solution)
            if found.outcome.settled:
                result, repeated = yield vector, found.sites
        value, slope = float(result.value), np.asarray(result.gradient)
        trace.record(problem, vector, result, repeated)
        # Evidence on sites that are far from a fixed point means nothing, however high it is: such a start is kept
        # until a settled point is found, and such a step counts as failed, so that the ascent shortens it.
        settled = near(result.solution)
        finite = np.isfinite(value) and bool(np.all(np.isfinite(slope)))
        if not finite and best is None:
            raise ValueError(_not_finite(problem, vector, result.solution.outcome))
        if finite and (best is None or (settled and not (best.settled and value <= best.value))):
            best = Best(np.array(vector), value, result.solution, settled, result.posterior, gradient=slope)
        if result.solution.outcome.settled and finite and result.solution.sites is not None:  # kept with the best
            sites = result.solution.sites
        if not (settled and finite):
            value = -np.inf
        assert best is not None
        if len(first) == 0:
            return dataclasses.replace(best, success=True, reason="nothing to train; inference only")
        try:
            scaled = problem.units * slope / problem.total
            vector = problem.units * steps.send((value / problem.total, scaled))
        except StopIteration as stop:
            end = stop.value
            return dataclasses.replace(
                best, success=end.converged, reason=end.reason, rounds=end.rounds, inverse=end.inverse,
                trusted=end.trusted,
            )  # fmt: skip


def inferred(problem: Problem, best: Best, model: Model, inference: Inference, data: Data, sites: Sites) -> Best:
    """Return the point with the sites that `inference` finds from `sites`, and the objective there."""
    solution, q, posterior = solve_with_posterior(inference, model, data, sites)
    evidence = problem.pair.evidence
    if q is None:
        value = float(evidence(model, data, solution.sites))
    else:
        value = float(evidence.on_marginals(model.likelihood, to_host(data), q, solution.sites))
    value += problem.log_prior(best.vector)
    found = dataclasses.replace(best, solution=solution, value=value, posterior=lambda: posterior, gradient=None)
    return found if np.isfinite(value) else best


def _not_finite(problem: Problem, vector: np.ndarray, outcome: Outcome) -> str:
    """Say what is wrong with the starting point."""
    if problem.objective.priors and not np.isfinite(problem.log_prior(vector)):
        names = ", ".join(name for name, _ in problem.objective.priors)
        return f"A prior has no density at the starting point: check the priors of {names} against their values."
    advice = "" if outcome.ok else f" {outcome.advice}"
    return f"The evidence is not finite at the starting point.{advice}"
