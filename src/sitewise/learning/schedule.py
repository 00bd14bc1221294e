"""The stages of a fit: which rows, how many inducing inputs, how accurate sites, when to stop.

Most steps of a search are far from the optimum.  A full GP costs O(n³) per step, so that a coarse stage with a third of
the rows costs a 27th per step, and it ends near the optimum for all rows.  A sparse GP costs O(nm²): a third of the
rows costs a third, and with a third of the inducing inputs a ninth of that.  The Hessian per row hardly differs between
the stages.  The search on all rows then needs few evaluations and has the same optimum.

`schedule_of` decides the stages from the prior, the number of rows and the settings; `learning.stages` runs them.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np

from sitewise.learning.clock import Expected, evaluation_work
from sitewise.learning.hessian import can_guess
from sitewise.learning.objective import INPUTS, is_stationary_pair
from sitewise.learning.problem import Problem
from sitewise.learning.subset import counted_rows
from sitewise.model import Model

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
# Nats per hyperparameter of a search without a coarse stage before it: of at least 100 rows, and per row of fewer.  The
# evidence of a dozen rows is flat along some hyperparameters, and predictions still change there.
SINGLE_STAGE_LEAST_GAIN, LEAST_GAIN_PER_ROW = 1e-3, 1e-5
COARSE_TOL = 1e-4  # gradient per row; the optimum for all rows is farther away than this resolves
STAGE_SITES_TOL = 1e-3  # residual of approximate sites, in units of the marginal
# The same for two latent functions on sites at which the evidence is stationary: combined updates end at a tenth of it.
STATIONARY_SITES_TOL = 1e-2
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


class StageEnd(NamedTuple):
    """How a stage ended; the objective is in nats per row of the stage."""

    stage: Stage
    rounds: int
    objective: float
    reason: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.objective:.4f} nats per row after {self.rounds} rounds, {self.reason}"


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
    staged = staged and (model.prior.dense or model.prior.staged or not model.prior.exact)
    subset = learned if learned < rows else None
    stages = _coarse_stages(problem, learned) if staged else []
    least = min(SINGLE_STAGE_LEAST_GAIN, LEAST_GAIN_PER_ROW * problem.total)
    limit = least if model.prior.exact and not stages else np.inf
    main = Stage(rows=subset, least_gain=min(settings.least_gain, limit), tol=problem.reachable_tol)
    coupled = bool(stages and model.likelihood.functions and problem.on_host)  # many steps of inference per evaluation
    if (coupled or _approximates(problem, staged)) and settings.least_gain:
        stages.append(dataclasses.replace(main, sites_tol=_stage_sites_tol(problem), hessian=not model.prior.dense))
        main = dataclasses.replace(main, continues=True)
    stages.append(main)
    if settings.move_inputs:
        Z = _movable_inputs(model)
        moved = min(STAGE_FACTOR**2 * coarse_rows(len(Z)), learned)
        rounds = min(INPUT_STAGE_ROUNDS, settings.max_rounds)
        stages = [*stages, Stage(rows=moved, move_inputs=True, max_rounds=rounds), *stages]
    stages += [Stage(rows=subset, restart=k + 1) for k in range(settings.restarts)]
    if subset is not None:
        stages.append(Stage(max_rounds=0, sites_tol=ALL_ROWS_SITES_TOL))
    return Schedule(tuple(stages))


def _approximates(problem: Problem, staged: bool) -> bool:
    """Return whether the search uses approximate sites, and a last stage solves for accurate ones.

    On one matrix a step of inference costs as much as the gradient; Laplace's steps, for the mean only, cost less.
    """
    model = problem.model
    if not (problem.on_host and problem.trainable.names) or model.likelihood.latents > 1:
        return False
    if model.prior.one_matrix:
        return not (model.likelihood.conjugate or problem.pair.inference.mean_only)
    return staged and not model.prior.dense


def _stage_sites_tol(problem: Problem) -> float:
    """Return the residual of approximate sites."""
    pair, likelihood = problem.pair, problem.model.likelihood
    stationary = bool(likelihood.functions) and is_stationary_pair(pair.inference, pair.evidence, likelihood)
    return STATIONARY_SITES_TOL if stationary else STAGE_SITES_TOL


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
        inputs=inputs, sites_tol=_stage_sites_tol(problem), tol=max(COARSE_TOL, problem.settings.tol),
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
    size, found = coarse_rows(count), []
    if MIN_COARSE_ROWS <= rows < STAGE_FACTOR * MIN_COARSE_ROWS:
        size = max(rows // STAGE_FACTOR, COARSE_ROWS_PER_INPUT * count)
    while rows >= STAGE_FACTOR * size:
        found.append(dataclasses.replace(stage, rows=size))
        size *= STAGE_FACTOR
    return found


def coarse_rows(inputs: int) -> int:
    """Return the number of rows of the first coarse stage of a sparse GP with this many inducing inputs."""
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
