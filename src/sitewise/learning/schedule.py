"""The stages of a fit: which rows, how many inducing inputs, how accurate sites, when to stop.

Most steps of a search are far from the optimum.  A full GP costs O(n³) per step, so that a coarse stage with a third of
the rows costs a 27th per step, and it ends near the optimum for all rows.  A sparse GP costs O(nm²): a third of the
rows costs a third, and with a third of the inducing inputs a ninth of that.  The Hessian per row hardly differs between
the stages.  The search on all rows then needs few evaluations and has the same optimum.

`schedule_of` decides the stages from the prior, the number of rows and the settings; `run` runs them in one loop.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sitewise.arrays.engine import on_host
from sitewise.arrays.spread import agreed, is_spread
from sitewise.kernels.distances import same_rows
from sitewise.learning.ascent import CONVERGED, NO_GAIN
from sitewise.learning.checkpoint import Start
from sitewise.learning.clock import Expected, evaluation_work
from sitewise.learning.hessian import can_guess, guessed_inverse, inverse_per_row
from sitewise.learning.objective import INPUTS, pulls_on_host
from sitewise.learning.problem import Problem
from sitewise.learning.search import Best, Trace, inferred, search
from sitewise.learning.subset import counted_rows, predicted_sites, sampled
from sitewise.model import Model
from sitewise.priors.inducing import select
from sitewise.types import replace

# The first coarse stage has the larger of these two numbers of rows.  Of fewer than 6 000 rows, but at least 2 000, it
# has a third.
MIN_COARSE_ROWS, COARSE_ROWS_PER_INPUT = 2_000, 5
STAGE_FACTOR = 3  # between the rows of one stage and the next; coarse stages have fewer inducing inputs by it
MIN_COARSE_INPUTS = 50
# The first coarse stage of a full GP has at least the larger of these two numbers of rows: of one latent function, and
# of several classes, whose steps cost (classes + 1) times as much.
MIN_COARSE_FULL_ROWS, COARSE_ROWS_PER_NUMBER = 150, 5
MIN_COARSE_CLASS_ROWS, COARSE_CLASS_ROWS_PER_NUMBER = 100, 2
COARSE_LEAST_GAIN = 0.02  # nats per hyperparameter that a coarse stage leaves to the next one
SINGLE_STAGE_LEAST_GAIN = 0.001  # nats per hyperparameter, of a search without a coarse stage before it
COARSE_TOL = 1e-4  # gradient per row; the optimum for all rows is farther away than this resolves
STAGE_SITES_TOL = 1e-3  # residual of approximate sites, in units of the marginal
ALL_ROWS_SITES_TOL = 1e-6  # residual of the sites of all rows, where a subset was used for learning
ROUNDS_BEFORE_HESSIAN = 15
INPUT_STAGE_ROUNDS = 100  # of the ascent in the inducing inputs, which need not end
# Typical numbers of evaluations: of a search from a start far from the optimum, of the same with a guessed Hessian, of
# a search from the optimum of a coarser stage, and of a stage that only solves for the sites.
FIRST_EVALUATIONS, GUESSED_EVALUATIONS, LATER_EVALUATIONS, INFERENCE_EVALUATIONS = 30, 10, 5, 2
MAX_MOVED_NUMBERS = 5_000  # of inducing inputs; the ascent keeps a matrix of their square


@dataclasses.dataclass(frozen=True)
class Stage:
    """One search of a schedule.

    Parameters
    ----------
    rows : int, default=None
        At most this many rows, drawn at random; None for all rows.
    inputs : int, default=None
        This many inducing inputs, centres of clusters of the rows; None for the inputs of the model.
    sites_tol : float, default=None
        Residual to which inference is solved, for pairs that allow it; None for the tolerance of the inference.
    tol : float, default=None
        Gradient per row at which the search stops; None for the tolerance of the settings.
    least_gain : float, default=0.0
        Nats per hyperparameter: the search stops where the remaining gain is below this.
    hessian : bool, default=False
        Whether to compute a Hessian after `ROUNDS_BEFORE_HESSIAN` rounds if none is known.
    max_rounds : int, default=None
        Rounds of the search; None for the rounds of the settings, 0 for inference only.
    coarse : bool, default=False
        Whether the stage only prepares the next stage: its result is used if it converged within the bounds.
    continues : bool, default=False
        Whether the stage continues from the end of the stage before; if that converged, inference only.
    move_inputs : bool, default=False
        Whether the inducing inputs are trained as well.
    restart : int, default=None
        Number of a random start; the better of its end and the best end so far is taken.
    """

    rows: int | None = None
    inputs: int | None = None
    sites_tol: float | None = None
    tol: float | None = None
    least_gain: float = 0.0
    hessian: bool = False
    max_rounds: int | None = None
    coarse: bool = False
    continues: bool = False
    move_inputs: bool = False
    restart: int | None = None

    def __str__(self) -> str:
        facts = ["all rows" if self.rows is None else f"{self.rows} rows"]
        if self.inputs is not None:
            facts.append(f"{self.inputs} inducing inputs")
        if self.continues:
            facts.append("accurate sites")
        if self.max_rounds == 0:
            facts.append("inference only")
        if self.move_inputs:
            facts.append("inducing inputs moved")
        if self.restart is not None:
            facts.append(f"random start {self.restart}")
        if self.sites_tol is not None:
            facts.append(f"sites to {self.sites_tol:.0e}")
        if self.least_gain:
            facts.append(f"least gain {self.least_gain:g} nats per hyperparameter")
        if self.hessian:
            facts.append(f"Hessian after {ROUNDS_BEFORE_HESSIAN} rounds if none is known")
        return ", ".join(facts)


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The stages of a fit, in their order.

    Parameters
    ----------
    stages : tuple of Stage
        The last stage gives the result.
    """

    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        return "\n".join(f"  {k + 1}. {stage}" for k, stage in enumerate(self.stages))


def schedule_of(problem: Problem, rows: int, *, staged: bool) -> Schedule:
    """Return the stages of a fit.

    Parameters
    ----------
    problem : Problem
        Has the rows from which hyperparameters are learned.
    rows : int
        The number of rows in all.
    staged : bool
        Whether smaller problems may be searched first (not on an accelerator, where every number of rows needs a
        program of its own, nor from given sites).  A Markov chain has one stage, and one per random start.
    """
    settings, model, learned = problem.settings, problem.model, counted_rows(problem.data)
    staged = staged and (model.prior.dense or not model.prior.exact)
    subset = learned if learned < rows else None
    stages = _coarse_stages(problem, learned) if staged else []
    single = model.prior.exact and not stages
    least_gain = min(settings.least_gain, SINGLE_STAGE_LEAST_GAIN) if single else settings.least_gain
    main = Stage(rows=subset, least_gain=least_gain, tol=problem.reachable_tol)
    if staged and not model.prior.exact and problem.on_host and settings.least_gain:
        stages.append(dataclasses.replace(main, sites_tol=STAGE_SITES_TOL, hessian=True))
        main = dataclasses.replace(main, continues=True)
    stages.append(main)
    if settings.move_inputs:
        Z = _movable_inputs(model)
        moved = min(STAGE_FACTOR**2 * _coarse_rows(len(Z)), learned)
        rounds = min(INPUT_STAGE_ROUNDS, settings.max_rounds)
        stages = [*stages, Stage(rows=moved, move_inputs=True, max_rounds=rounds), *stages]
    stages += [Stage(rows=subset, restart=k + 1) for k in range(settings.restarts)]
    if subset is not None:
        stages.append(Stage(max_rounds=0, sites_tol=ALL_ROWS_SITES_TOL))
    return Schedule(tuple(stages))


def expected(schedule: Schedule, problem: Problem, rows: int) -> list[Expected]:
    """Return the typical number of evaluations of every stage, and the work of each; `rows` counts all rows."""
    found = []
    first = GUESSED_EVALUATIONS if can_guess(problem) else FIRST_EVALUATIONS
    for k, stage in enumerate(schedule.stages):
        count = float(first if k == 0 or stage.restart is not None else LATER_EVALUATIONS)
        if stage.hessian and k == 0:
            count += len(problem.start)
        if stage.move_inputs:
            count = float(stage.max_rounds or INPUT_STAGE_ROUNDS)
        if stage.continues or stage.max_rounds == 0:
            count = float(INFERENCE_EVALUATIONS)
        everything = rows if stage.max_rounds == 0 else problem.data.rows
        size = everything if stage.rows is None else min(stage.rows, everything)
        found.append(Expected(count, evaluation_work(problem.model, size, stage.inputs)))
    return found


def _coarse_stages(problem: Problem, rows: int) -> list[Stage]:
    """Return coarse stages, each with three times the rows of the stage before, as far as the rows suffice."""
    have = 0 if problem.model.prior.inputs is None else len(problem.model.prior.inputs)
    fewer = max(MIN_COARSE_INPUTS, have // STAGE_FACTOR)
    inputs = None if have <= fewer or INPUTS in problem.trainable.names else fewer
    stage = Stage(
        inputs=inputs, sites_tol=STAGE_SITES_TOL, tol=max(COARSE_TOL, problem.settings.tol),
        least_gain=COARSE_LEAST_GAIN, hessian=True, coarse=True,
    )  # fmt: skip
    count = have if inputs is None else inputs
    if problem.model.prior.dense:
        fewest, each = MIN_COARSE_FULL_ROWS, COARSE_ROWS_PER_NUMBER
        if problem.model.likelihood.latents > 1:
            fewest, each = MIN_COARSE_CLASS_ROWS, COARSE_CLASS_ROWS_PER_NUMBER
        least = max(fewest, each * len(problem.start))
        sizes = itertools.takewhile(lambda size: size >= least, (rows // STAGE_FACTOR**k for k in itertools.count(1)))
        return [dataclasses.replace(stage, rows=size) for size in reversed(list(sizes))]
    size, found = _coarse_rows(count), []
    if MIN_COARSE_ROWS <= rows < STAGE_FACTOR * MIN_COARSE_ROWS:
        size = max(rows // STAGE_FACTOR, COARSE_ROWS_PER_INPUT * count)
    while rows >= STAGE_FACTOR * size:
        found.append(dataclasses.replace(stage, rows=size))
        size *= STAGE_FACTOR
    return found


def _coarse_rows(inputs: int) -> int:
    return max(MIN_COARSE_ROWS, COARSE_ROWS_PER_INPUT * inputs)


def _movable_inputs(model: Model) -> np.ndarray:
    if model.prior.inputs is None:
        raise ValueError(f"{type(model.prior).__name__} has no inducing inputs to move; use Model.sparse.")
    Z = np.asarray(model.prior.inputs)
    if Z.size > MAX_MOVED_NUMBERS:
        raise ValueError(
            f"{len(Z)} inducing inputs of {Z.shape[1]} columns are {Z.size} numbers, more than the {MAX_MOVED_NUMBERS} "
            "that can be trained; choose fewer, or inputs='kmeans'."
        )
    return Z


class StageEnd(NamedTuple):
    """How a stage ended; the objective is in nats per row of the stage."""

    stage: Stage
    rounds: int
    objective: float
    reason: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.objective:.4f} nats per row after {self.rounds} rounds, {self.reason}"


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
            following = schedule.stages[k + 1]
            inner = trace.coarse()
            compute = functools.partial(
                _coarse, problem, coarse_model, stage, start, seed, inner, ends, not following.coarse
            )
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
    predict: bool,
) -> Start:
    """Search with some of the rows; return where the next stage starts.

    With `predict` inference there starts from the predictions of this stage.  Without convergence within the bounds of
    the problem, the next stage starts where this one did.
    """
    assert stage.rows is not None
    rows = sampled(problem.data, stage.rows, seed)
    here = Problem.of(problem.settings, model_with(stage.inputs), rows).with_sites_tol(stage.sites_tol)
    with same_rows(here.data.X):
        end = _climb(here, Start(start.vector, start.inverse), stage, trace, problem.settings.max_rounds, "")
    ends.append(StageEnd(stage, end.rounds, end.value / here.total, end.reason))
    found = Start(start.vector, start.inverse)
    if end.success and not problem.at_bound(end.vector):
        inverse = end.inverse
        if problem.model.prior.dense and problem.on_host:
            inverse = inverse_per_row(here, end.vector, end.solution.sites)
        found = Start(end.vector, inverse)
        if predict and problem.on_host:
            model = here.model_at(end.vector)
            sites = predicted_sites(problem.pair.inference, model, here.data, end.solution.sites, problem.data)
            found = found._replace(sites=sites)
    return _agreed(found) if is_apart(problem) else found


def is_apart(problem: Problem) -> bool:
    """Whether rows are spread over devices, and every process searches coarse stages by itself."""
    names = problem.trainable.names
    return is_spread(problem.data) and pulls_on_host(problem.model, names) and on_host(problem.model)


def _agreed(start: Start) -> Start:
    """Return the start on which all processes agree: rounding differences would lead them different ways."""
    empty = np.zeros((len(start.vector), len(start.vector)))
    inverse = start.inverse
    some, vector, inverse = agreed((np.array(inverse is not None), start.vector, empty if inverse is None else inverse))
    return Start(vector, inverse if some else None)


def _with_fewer_inputs(problem: Problem, seed: int, count: int | None) -> Model:
    """The model with `count` inducing inputs, centres of clusters (a part of Z would leave gaps); None: unchanged."""
    if count is None:
        return problem.model
    drawn = sampled(problem.data, STAGE_FACTOR**2 * _coarse_rows(count), seed)
    fewer = select(np.asarray(drawn.X), "kmeans", count, kernel=problem.model.prior.kernel, seed=seed)
    return replace(problem.model, prior=problem.model.prior.with_inputs(fewer))


def _moved(problem: Problem, best: Best, stage: Stage, seed: int, trace: Trace) -> tuple[Problem, Best, float]:
    """Train hyperparameters and inducing inputs together on some rows.

    Return the problem with those inputs, the end of the search, and the number of rows of the search.

    Inducing inputs are no parameters of the model that could be overfitted if the evidence is a bound; EP's evidence
    (FITC's) is none, so that the ascent starts from the optimum for the present inputs and is short.
    """
    assert stage.rows is not None
    settings = dataclasses.replace(problem.settings, train=(*problem.settings.train, INPUTS))
    here = Problem.of(settings, problem.model_at(best.vector), sampled(problem.data, stage.rows, seed))
    end = search(here, Start(here.start), trace, max_rounds=stage.max_rounds)
    return Problem.of(problem.settings, here.model_at(end.vector), problem.data), end, here.total


def _continued(problem: Problem, best: Best, stage: Stage, trace: Trace) -> Best:
    """The best point of approximate sites with accurate ones; a search that had not converged goes on."""
    left = problem.settings.max_rounds - best.rounds
    if best.reason in (CONVERGED, NO_GAIN) or left <= 0:
        model = problem.model_at(best.vector)
        return inferred(problem, best, model, problem.pair.inference, problem.data, best.solution.sites)
    start = Start(best.vector, best.inverse, best.solution.sites)
    end = search(problem, start, trace, max_rounds=left, least_gain=stage.least_gain)
    return dataclasses.replace(end, rounds=best.rounds + end.rounds)
