"""Checkpoints of a search: a file of all evaluations so far, from which the same call continues.

An ascent is a function of the answers to its requests, and inference at one θ starts from the sites of the θ before.
The file therefore holds every answer, and the sites of each answer that is better than all earlier ones.  A later run
repeats the answers up to the last one with sites and computes from there: it takes the path of an undisturbed run,
exactly on the same machine.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sitewise.arrays.spread import of_all_processes, placed, whole, writes
from sitewise.data import Data
from sitewise.errors import UserError
from sitewise.inference import Solution
from sitewise.inference.update import Stats
from sitewise.learning.objective import Evaluation
from sitewise.process.journal import Journal, digest_of
from sitewise.sites import Sites
from sitewise.types import Outcome

_FORMAT = 3  # of the file
MAX_RESIDUAL = 1e-3  # in units of the marginal: above it sites solve nothing


class Start(NamedTuple):
    """The start of an ascent: θ, a guess of the inverse Hessian, and the sites of the first inference."""

    vector: np.ndarray
    inverse: np.ndarray | None = None
    sites: Sites | None = None


class Checkpoint:
    """The answers of one fit, in the order of its ascents; the fit depends on `parts` and the data.

    Rows of padding are left out, so that a fit that was spread over some devices can continue on other devices.
    """

    def __init__(self, path: Path, parts: tuple[Any, ...], data: Data) -> None:
        rows = whole(data)
        self._data, self._counted = data, np.flatnonzero(rows.weight > 0)
        key = digest_of(_FORMAT, *parts, *(a[self._counted] for a in (rows.X, rows.y, rows.weight)))
        self._journal = Journal(path, key, strict=True)
        self._ascent, self._step, self._known, self._highest = -1, 0, 0, -np.inf
        # Nobody writes before all have read; and all have read the same.
        if np.ptp(of_all_processes([len(self._journal.pieces)])) > 0:
            raise UserError(
                f"The processes of this fit find different checkpoints; give a place for {path} that all share."
            )

    def start(self, name: str, compute: Callable[[], Start]) -> Start:
        """Return the start of an ascent: read from the file under `name`, or computed and stored."""
        if name not in self._journal.pieces:
            found = compute()
            self._add(name, {**found._asdict(), "sites": self._counted_of(found.sites)})
            return found
        kept = self._journal.pieces[name]
        return Start(kept["vector"], kept["inverse"], self._all_of(kept["sites"]))

    def begin(self) -> None:
        """Begin the next ascent."""
        self._ascent, self._step, self._known, self._highest = self._ascent + 1, 0, 0, -np.inf
        pieces, step = self._journal.pieces, 0
        ended = f"{self._ascent + 1}.0" in pieces
        while f"{self._ascent}.{step}" in pieces:
            step += 1
            if ended or pieces[f"{self._ascent}.{step - 1}"]["sites"] is not None:
                self._known = step

    def answer(self, vector: np.ndarray) -> Evaluation | None:
        """Return the evaluation of an earlier run at `vector`; None if there is none."""
        kept = self._journal.pieces[f"{self._ascent}.{self._step}"] if self._step < self._known else None
        if kept is None or not np.array_equal(kept["vector"], vector):
            self._known = 0
            return None
        value, code, *stats = kept["numbers"]
        sites: Any = self._all_of(kept["sites"])
        solution = Solution(sites, Outcome(int(code)), Stats(*stats))
        self._count(value, kept["gradient"], solution)
        return Evaluation(value, kept["gradient"], solution)

    def add(self, vector: np.ndarray, found: Evaluation) -> None:
        """Store an evaluation."""
        value, stats = float(found.value), found.solution.stats
        counts = _counts(value, found.gradient, found.solution)
        # Until a point counts, the first one that has a value may be the best.
        useful = value > self._highest if counts else self._highest == -np.inf and bool(np.isfinite(value))
        sites = self._counted_of(found.solution.sites) if useful else None
        numbers = np.array([value, int(found.solution.code), *map(float, stats)])
        self._add(
            f"{self._ascent}.{self._step}",
            {"vector": vector, "numbers": numbers, "gradient": np.asarray(found.gradient), "sites": sites},
        )
        self._count(value, found.gradient, found.solution)

    def done(self) -> None:
        """Remove the file after the fit has ended."""
        if writes():
            self._journal.done()

    def _count(self, value: float, gradient: Any, solution: Solution) -> None:
        self._step += 1
        if _counts(value, gradient, solution):
            self._highest = max(self._highest, value)

    def _add(self, name: str, piece: dict[str, Any]) -> None:
        if writes():
            self._journal.add(name, piece)

    def _counted_of(self, sites: Sites | None) -> list[np.ndarray] | None:
        return None if sites is None else [a[..., self._counted] for a in whole(sites)]

    def _all_of(self, kept: list[np.ndarray] | None) -> Sites | None:
        return None if kept is None else Sites(*map(self._filled, kept))

    def _filled(self, kept: np.ndarray) -> Any:
        """Return the sites of all rows, zeros for padding, on the devices of the data."""
        rows = np.zeros((*kept.shape[:-1], self._data.rows))
        rows[..., self._counted] = kept
        return placed(rows, self._data.weight)


def near(solution: Solution) -> bool:
    """Return whether these sites are nearly a solution; the evidence of other sites means nothing, however high."""
    outcome = solution.outcome
    return outcome.settled or (outcome is not Outcome.NO_MAXIMUM and float(solution.stats.residual) < MAX_RESIDUAL)


def _counts(value: float, gradient: Any, solution: Solution) -> bool:
    """Return whether a search may take this for its best point."""
    return near(solution) and bool(np.isfinite(value)) and bool(np.all(np.isfinite(gradient)))
