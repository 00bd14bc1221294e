"""Estimate, while a fit runs, which share of its time has passed.

The seconds of one evaluation of the objective are proportional to its work,

    n²(n + N₀) + W₀     a full GP of n rows
    n(M₀ + m²) + m³     a sparse GP with m inducing inputs
    n                   a Markov chain

where N₀, W₀ and M₀ are the parts that grow with a lower power of n.  The work of a stage is the work of one evaluation
times a typical number of evaluations.  The seconds that are left follow from the seconds of the present stage, and from
the work of the later stages at the same speed.  results/time-estimates compares estimates with measured times.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sitewise.model import Model

FULL_OFFSET_ROWS, FULL_OFFSET = 1_000, 1.5e8  # N₀ and W₀
SPARSE_OFFSET = 40_000  # M₀
COMPILING = 2  # evaluations of a stage that may compile programs
MIN_EVALUATIONS = 3  # before the time is estimated, if the first stage is the longest


def evaluation_work(model: Model, rows: int, inputs: int | None = None) -> float:
    """Return the work of one evaluation of the objective, up to a constant factor."""
    latents, n = model.likelihood.latents, float(rows)
    if model.prior.inputs is not None:
        m = float(latents * (inputs or len(model.prior.inputs)))
        return n * (latents * SPARSE_OFFSET + m**2) + m**3
    return latents * (n**2 * (n + FULL_OFFSET_ROWS) + FULL_OFFSET) if model.prior.dense else n


class Expected(NamedTuple):
    """A stage of a fit: its typical number of evaluations, and the work of each."""

    evaluations: float
    work: float


class Clock:
    """The time of a fit of several stages; `begin` is called for every stage, `evaluated` after every evaluation."""

    def __init__(self, stages: Sequence[Expected] = ()) -> None:
        self._stages, self._began = stages, time.perf_counter()
        self._stage, self._marks = 0, [self._began]
        self._share = 0.0

    def begin(self, stage: int) -> None:
        """Begin a stage; the stages before it have ended."""
        self._finish()
        self._stage, self._marks = stage, [time.perf_counter()]

    def evaluated(self) -> None:
        """Count an evaluation."""
        self._marks.append(time.perf_counter())

    @property
    def share(self) -> float:
        """The share of the time that has passed; 0 until it can be estimated."""
        if self._stages and (self._stage > 0 or (self._is_longest() and len(self._marks) > MIN_EVALUATIONS)):
            self._reach(self._seconds_left())
        return self._share

    def _is_longest(self) -> bool:
        """Return whether the present stage takes longer than all later ones; if not, its end is waited for."""
        here = self._stages[self._stage]
        return here.evaluations * here.work >= self._later_work()

    def _later_work(self) -> float:
        return sum(one.evaluations * one.work for one in self._stages[self._stage + 1 :])

    def _finish(self) -> None:
        """Estimate at the end of a stage, from its evaluations and the work of all later stages."""
        if self._stages and len(self._marks) > 1:
            self._reach(self._later_work() * self._speed())

    def _reach(self, left: float) -> None:
        passed = time.perf_counter() - self._began
        self._share = max(self._share, min(passed / max(passed + left, 1e-9), 0.99))

    def _speed(self) -> float:
        """Return the seconds per unit of work in this stage: the median without the longest evaluations.

        The first evaluation and the first Hessian, which is computed between two others, compile programs.
        """
        seconds = np.sort(np.diff(self._marks))
        return float(np.median(seconds[: max(len(seconds) - COMPILING, 1)])) / self._stages[self._stage].work

    def _seconds_left(self) -> float:
        if len(self._marks) < 2:
            passed = time.perf_counter() - self._began
            return passed / self._share - passed if self._share else 0.0
        here = self._stages[self._stage]
        more = max(here.evaluations - (len(self._marks) - 1), 1.0) * here.work
        return (more + self._later_work()) * self._speed()
