"""Estimate the time of a fit before it begins, and announce a fit that takes more than a minute.

A fit to a few hundred or thousand rows of the same table is timed first.  It measures this machine, this likelihood and
kernel, and the number of evaluations that these data need.  With w(·) the work of a fit, up to a constant factor,

    seconds = seconds of the timed fit · w(fit) / w(timed fit).

The first evaluation of the timed fit compiles programs, which the fit needs no more, and is left out.  An evaluation of
the objective takes n²(n + N₀) + W₀ for a full GP of n rows, n(M₀ + m²) + m³ for m inducing inputs, and n for a Markov
chain; N₀, W₀ and M₀ are the parts of the time that grow with a lower power.  A fit is the sum of its stages
(`learning.schedule`).  results/time-estimates compares estimates with measured times.  MCMC is timed by its own first
draws.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sitewise.data import Data
from sitewise.estimators.training import Approximate, FitWarning
from sitewise.learning.nested import Nested
from sitewise.learning.problem import Problem
from sitewise.learning.schedule import MIN_COARSE_INPUTS, STAGE_FACTOR, Stage, schedule_of
from sitewise.learning.subset import counted_rows, sampled
from sitewise.model import Model
from sitewise.priors.inducing import select
from sitewise.process.device import on_accelerator
from sitewise.process.precision import working_precision
from sitewise.process.progress import Report
from sitewise.types import replace

ANNOUNCED_SECONDS = 60.0  # an estimate above this is announced
# A fit of less work is not timed on a subset: it took less than 20 CPU seconds on one core.
MIN_TIMED_WORK = {"full": 2e9, "sparse": 5e8, "markov": 1e5}
PILOT_ROWS = {"full": 600, "sparse": 2_000, "markov": 5_000}  # at most
MIN_PILOT_ROWS, PILOT_SHARE = 300, 3  # a pilot has a third of the rows, or this number if it is larger
FULL_OFFSET_ROWS, FULL_OFFSET = 1_000, 1.5e8  # N₀ and W₀
SPARSE_OFFSET = 40_000  # M₀
SEARCH_GROWTH = 0.2  # the number of evaluations of a full GP grows with this power of the number of rows
# Evaluations of a stage, as a share of those of the first search: a later search starts near the optimum.
LATER_SEARCH, INFERENCE_ONLY = 0.10, 0.08
# With two coarse stages the first search has few of the rows, so that later searches take longer, and programs of more
# shapes are compiled: measured time divided by the work of the stages.
TWO_COARSE_STAGES = 3.0
FIRST_DRAWS_SECONDS = 5.0  # after which the time of MCMC is estimated
AVERAGE_FACTOR = 12.0  # time of kernel="average" divided by the time of the default kernel

SHOW_PROGRESS = "verbose=True shows the progress."


class LongFitWarning(FitWarning):
    """A fit that is expected to take more than a minute; `seconds` is the estimate."""

    def __init__(self, seconds: float, advice: str = "") -> None:
        super().__init__(f"This fit takes about {in_words(seconds)}.", advice)
        self.seconds = seconds


def in_words(seconds: float) -> str:
    """Return a duration for a sentence, with one or two significant digits."""
    for unit, size in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * size:
            return f"{_round(seconds / size)} {unit}"
    return f"{_round(seconds)} s"


def _round(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{float(f'{number:.2g}'):g}"


class Fits(NamedTuple):
    """The fits of an estimator, of which one is timed: `model` on `data`; all take `factor` times as long."""

    method: Approximate
    model: Model
    data: Data
    factor: float


def fits_of(method: Approximate, models: Sequence[Model], data: Data, targets: int) -> Fits:
    """Return the fits of `targets` latent functions, each with all kernels of `models`, which are averaged."""
    averaged = len(models) > 1
    return Fits(method, models[1 if averaged else 0], data, targets * (AVERAGE_FACTOR if averaged else 1.0))


def expected_seconds(fits: Fits, seed: int = 0) -> float | None:
    """Return the expected seconds of all fits; None for a small fit.

    Also None for a learner without a schedule, on an accelerator, where every number of rows needs its own programs,
    and if the subset cannot be fitted.
    """
    method, model, data, factor = fits
    if not isinstance(method.learner, Nested) or on_accelerator():
        return None
    kind = _kind(model)
    rows = min(PILOT_ROWS[kind], max(counted_rows(data) // PILOT_SHARE, MIN_PILOT_ROWS))
    if factor * _evaluation(Stage(), model, data.rows, data.rows) < MIN_TIMED_WORK[kind] or data.rows <= rows:
        return None
    learner = method.learner_of(model)
    assert isinstance(learner, Nested)
    work = _work(learner, model, data)
    some = sampled(data, rows, seed)
    smaller = _with_fewer_inputs(model, some, seed)
    marks = [time.perf_counter()]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method.learn(smaller, some, seed, lambda doing, share: marks.append(time.perf_counter()))
    except ValueError:
        return None
    end = time.perf_counter()
    evaluations = len(marks) - 1
    if evaluations < 2:
        return factor * (end - marks[0]) * work / _work(learner, smaller, some)
    search = (end - marks[1]) * evaluations / (evaluations - 1)
    growth = (data.rows / some.rows) ** SEARCH_GROWTH if kind == "full" else 1.0
    return factor * search * growth * work / _work(learner, smaller, some)


def announce(fits: Fits, *, stacklevel: int) -> float | None:
    """Warn of fits that take more than a minute, and return the expected seconds."""
    seconds = expected_seconds(fits)
    if seconds is not None and seconds > ANNOUNCED_SECONDS:
        advice = f"structure=Sparse() is faster; {SHOW_PROGRESS}" if fits.model.prior.dense else SHOW_PROGRESS
        warnings.warn(LongFitWarning(seconds, advice), stacklevel=stacklevel + 1)
    return seconds


def timed(progress: Report, seconds: float) -> Report:
    """Return a progress function whose share follows the expected time at first, and the search near its end.

    A search reports the share g by which its gradient has fallen, which hardly depends on the time at first.  The share
    is (1 − g) t + g² with t the elapsed part of the expected seconds; it never falls.
    """
    began, last = time.perf_counter(), 0.0

    def report(doing: str, share: float) -> None:
        nonlocal last
        elapsed = min((time.perf_counter() - began) / seconds, 0.99)
        last = max(last, (1 - share) * elapsed + share**2)
        progress(doing, last)

    return report


def announced_by_draws(progress: Report | None, stacklevel: int) -> Report:
    """Return a progress function that warns once of a sampling that takes more than a minute."""
    began, waiting = time.perf_counter(), True

    def report(doing: str, share: float) -> None:
        nonlocal waiting
        elapsed = time.perf_counter() - began
        if waiting and share > 0 and elapsed > FIRST_DRAWS_SECONDS:
            waiting = False
            if elapsed / share > ANNOUNCED_SECONDS:
                warnings.warn(LongFitWarning(elapsed / share, SHOW_PROGRESS), stacklevel=stacklevel + 1)
        if progress is not None:
            progress(doing, share)

    return report


def _kind(model: Model) -> str:
    if model.prior.inputs is not None:
        return "sparse"
    return "full" if model.prior.dense else "markov"


def _with_fewer_inputs(model: Model, data: Data, seed: int) -> Model:
    """Return the model with the inducing inputs of the first coarse stage of its fit."""
    if model.prior.inputs is None:
        return model
    count = max(MIN_COARSE_INPUTS, len(model.prior.inputs) // STAGE_FACTOR)
    Z = select(np.asarray(data.X), "kmeans", count, kernel=model.prior.kernel, seed=seed)
    return replace(model, prior=model.prior.with_inputs(Z))


def _work(learner: Nested, model: Model, data: Data) -> float:
    """Return w(fit): the work of all stages, in units of the first search."""
    with working_precision():
        problem = Problem.of(learner, model, learner.rows_for_learning(model, data))
    stages = schedule_of(problem, counted_rows(data), staged=problem.on_host).stages
    sizes = problem.data.rows, data.rows
    work = sum(_share(stage, k) * _evaluation(stage, model, *sizes) for k, stage in enumerate(stages))
    return work * (TWO_COARSE_STAGES if sum(stage.coarse for stage in stages) > 1 else 1.0)


def _share(stage: Stage, number: int) -> float:
    if stage.continues or stage.max_rounds == 0:
        return INFERENCE_ONLY
    return 1.0 if number == 0 or stage.restart is not None or stage.move_inputs else LATER_SEARCH


def _evaluation(stage: Stage, model: Model, learned: int, total: int) -> float:
    """Return the work of one evaluation of the objective, with `learned` rows used for learning of `total`."""
    everything = total if stage.max_rounds == 0 else learned
    rows = float(everything if stage.rows is None else min(stage.rows, everything))
    latents = model.likelihood.latents
    if model.prior.inputs is not None:
        inputs = float(latents * (stage.inputs or len(model.prior.inputs)))
        return rows * (latents * SPARSE_OFFSET + inputs**2) + inputs**3
    return latents * (rows**2 * (rows + FULL_OFFSET_ROWS) + FULL_OFFSET) if model.prior.dense else rows
