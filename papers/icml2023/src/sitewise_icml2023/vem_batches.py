"""Train many parts by the fast Algorithm 1 (`fast_vem`), in few launches, without waiting for the slowest part.

On a CPU, parts with one lengthscale per feature are trained one after the other by `VEM` itself (`OneByOne`), whose
host engine computes a round as written in less time than a compiled program.  Else a `Batch` trains them.

A program has a number of places.  A launch computes `TURNS` turns, or with one lengthscale per feature `ROUNDS` whole
rounds, of every place that has a running part; parts decide themselves when they have ended.  After each launch, parts
that have ended leave as fits, and waiting parts take their places.  The state of a running part after its last whole
round is small (`Saved`): a run that was killed continues from there.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import programs
from sitewise.data import Data, bucket
from sitewise.learning.fit import Fit
from sitewise.learning.vem import VEM, Run, State
from sitewise.model import Model
from sitewise.priors import FullPrior
from sitewise.process.device import on_accelerator, on_cpu
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise_icml2023.fast_vem import EMPTY, FRESH, RUNNING, STOPS, Part, Report, exact, turns
from sitewise_icml2023.many_fits import one_model_per_part, stack

TURNS, ROUNDS = 16, 2  # per launch of a program
HOST_ROUNDS = 10  # per launch of `OneByOne`
PARTS_AT_ONCE = 256
SHRINK_TO = 4  # a batch shrinks when a quarter of its places is running; every further size costs a compilation
_batches: list[Batch] = []  # that are trained now, by several threads; they share the device


class Saved(NamedTuple):
    """A part after a round: its state, the learned Hessian, the lengths of the walks, its objective and rounds."""

    state: State
    H: Any
    piece: Any
    best: Any
    rounds: Any


Resumed = Mapping[int, Saved]


def start_of(learner: VEM, model: Model, data: Data) -> Saved:
    """Return the state in which Algorithm 1 starts."""
    with on_cpu(), working_precision():  # many small operations
        state = jax.tree.map(np.asarray, learner.init(model, data))
    size = len(state.vector)
    return Saved(state, np.zeros((size, size)), np.ones(2, int), np.float64(-np.inf), np.asarray(0))


def _fresh(found: Any, saved: Saved) -> Part:
    """Return a part that continues from there, without exact values."""
    fresh: dict[str, Any] = {
        "phase": np.asarray(FRESH), "left": np.asarray(0), "waiting": np.asarray(False), "turn": np.asarray(0.0),
        "stop": np.asarray(RUNNING),
    }  # fmt: skip
    return Part(
        state=saved.state, before=saved.state, end=saved.state, found=found, H=saved.H, piece=saved.piece,
        best=saved.best, rounds=saved.rounds, **fresh,
    )  # fmt: skip


def _per_feature(model: Model) -> bool:
    """Return whether the kernel has one lengthscale per feature."""
    kernel: Any = model.prior.kernel
    return np.ndim(getattr(kernel, "lengthscale", 0.0)) > 0


class OneByOne:
    """Parts that are trained one after the other by the host engine, with the interface of `Batch`."""

    def __init__(self, learner: VEM, models: Sequence[Model], parts: Sequence[Data], resumed: Resumed | None) -> None:
        self.learner = learner
        self.runs = [Run(learner, model, part) for model, part in zip(models, parts, strict=True)]
        self.seconds = dict.fromkeys(range(len(parts)), 0.0)
        for number, saved in (resumed or {}).items():
            run = self.runs[number]
            sites = Sites(*(leaf[: run.given.rows] for leaf in saved.state.sites))
            run.state, run.best = saved.state._replace(sites=sites), float(saved.best)
            run.trace = _unknown_rounds(saved)

    @property
    def running(self) -> bool:
        return any(run.running for run in self.runs)

    def launch(self) -> list[int]:
        """Compute some rounds of the first part that has not ended; return its number if it has ended."""
        number = next(number for number, run in enumerate(self.runs) if run.running)
        began, run = time.perf_counter(), self.runs[number]
        for _ in range(HOST_ROUNDS):
            if run.running:
                run.step()
        self.seconds[number] += time.perf_counter() - began
        return [] if run.running else [number]

    def fit(self, number: int) -> Fit:
        """Return the fit of a part that has ended."""
        with working_precision():
            return self.learner.finish(self.runs[number])

    def saved(self) -> dict[int, Saved]:
        """Return the parts that were begun and have not ended, as they were after their last round."""
        out = {}
        for number, run in enumerate(self.runs):
            if run.running and run.trace:
                start = start_of(self.learner, run.model, run.data)
                out[number] = start._replace(
                    state=run.state, best=np.float64(run.best), rounds=np.asarray(len(run.trace))
                )
        return out


def _unknown_rounds(saved: Saved | None) -> list[dict[str, Any]]:
    """Return the trace of the rounds before a part was resumed, of which only the last objective is known."""
    return [] if saved is None else [{"learning": float(saved.best)}] * int(saved.rounds)


@programs.jit
def _put(tree: Any, index: jax.Array, one: Any) -> Any:
    return jax.tree.map(lambda all_, new: all_.at[index].set(new), tree, one)


class Batch:
    """The places of one program, and the parts that wait for one."""

    def __init__(
        self, learner: VEM, models: Sequence[Model], parts: Sequence[Data], at_once: int, resumed: Resumed | None
    ) -> None:
        size = bucket(max(part.rows for part in parts))
        self.learner, self.batched = learner, on_accelerator()
        self.whole = _per_feature(models[0])
        with on_cpu():
            self.runs = [Run(learner, model, part, size, None) for model, part in zip(models, parts, strict=True)]
        self.resumed = dict(resumed or {})
        # Parts that were begun before come first: they are likely to be the longest.
        order = sorted(range(len(parts)), key=lambda i: i not in self.resumed)
        self.places: list[int | None] = list(order[:at_once])
        self.waiting = iter(order[at_once:])
        self.entries: dict[int, list[Any]] = {}  # evidences and θ of the rounds of each running part
        self.seconds = dict.fromkeys(range(len(parts)), 0.0)  # the share of each part in the time of the launches
        first = [self._begun(i) for i in order[:at_once]]
        model, data, saved = first[0]
        shapes = jax.eval_shape(
            functools.partial(exact, learner), model, data, self._distances(size), saved.state.vector, saved.state.sites
        )
        self.nothing = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
        zeros = jax.tree.map(lambda a: jnp.zeros((len(first), *a.shape), a.dtype), shapes)
        self.models, self.data, starts = (stack(column) for column in zip(*first, strict=True))
        one = _fresh(zeros, starts)
        flags = ("phase", "left", "waiting", "turn", "stop")
        every: dict[str, Any] = {name: jnp.full(len(first), getattr(one, name)) for name in flags}
        self.state = one._replace(**every)

    def _distances(self, size: int) -> Any:
        return jax.ShapeDtypeStruct((size, size), jnp.float64) if self.batched else None

    def _begun(self, number: int) -> tuple[Model, Data, Saved]:
        run = self.runs[number]
        self.entries[number] = []
        saved = self.resumed.get(number)
        return run.model, run.data, start_of(self.learner, run.model, run.data) if saved is None else saved

    @property
    def running(self) -> bool:
        return any(place is not None for place in self.places)

    def launch(self) -> list[int]:
        """Compute some turns; return the numbers of the parts that have ended, whose places others have taken."""
        began, busy = time.perf_counter(), [number for number in self.places if number is not None]
        count = ROUNDS if self.whole else TURNS
        self.state, reports = turns(self.learner, count, self.whole, self.batched, self.models, self.data, self.state)
        told: Report = jax.tree.map(np.asarray, reports)
        stops = np.asarray(self.state.stop)
        for each in busy:
            self.seconds[each] += (time.perf_counter() - began) / (len(busy) * len(_batches))
        out: list[int] = []
        # Copied as a whole: an operation on the device would wait for the launches of other batches.
        states = jax.tree.map(np.asarray, self.state.state) if stops.any() else None
        for place, number in enumerate(self.places):
            if number is None:
                continue
            ended = told.ended[:, place]
            if ended.any():
                self.entries[number].append(jax.tree.map(lambda a: a[ended, place], told[1:]))  # noqa: B023
            if stops[place] != RUNNING:
                self.runs[number].state = jax.tree.map(lambda a: np.array(a[place]), states)  # noqa: B023
                self._take_out(place, number, int(stops[place]))
                out.append(number)
        self._shrink()
        return out

    def _shrink(self) -> None:
        """Keep the places of the running parts alone once they are a quarter of all: empty places cost as much."""
        busy = [place for place, number in enumerate(self.places) if number is not None]
        if busy and len(busy) <= len(self.places) // SHRINK_TO:
            self.places = [self.places[place] for place in busy]
            kept = jnp.asarray(busy)
            self.models, self.data, self.state = jax.tree.map(lambda a: a[kept], (self.models, self.data, self.state))

    def _take_out(self, place: int, number: int, stop: int) -> None:
        run = self.runs[number]
        run.reason = STOPS[stop] or run.reason
        run.trace = _unknown_rounds(self.resumed.get(number))
        for info, named in self.entries.pop(number):
            for i in range(len(info.learning)):
                numbers = {k: float(v[i]) for k, v in info._asdict().items()}
                run.trace.append({**{k: v[i] for k, v in named.items()}, **numbers, "objective": numbers["learning"]})
        self.places[place] = following = next(self.waiting, None)
        if following is None:
            self.state = self.state._replace(stop=self.state.stop.at[place].set(EMPTY))
        else:
            model, data, saved = self._begun(following)
            new = model, data, _fresh(self.nothing, saved)
            self.models, self.data, self.state = _put((self.models, self.data, self.state), place, new)

    def fit(self, number: int) -> Fit:
        """Return the fit of a part that has ended, made on the CPU."""
        with on_cpu(), working_precision():
            return self.learner.finish(self.runs[number])

    def saved(self) -> dict[int, Saved]:
        """Return the parts that are running, as they were after their last round."""
        kept = self.state
        whole = jax.tree.map(np.asarray, Saved(kept.before, kept.H, kept.piece, kept.best, kept.rounds))
        return {
            number: jax.tree.map(lambda a: a[place], whole)  # noqa: B023
            for place, number in enumerate(self.places)
            if number is not None
        }


def train(
    learner: VEM,
    models: Model | Sequence[Model],
    parts: Sequence[Data],
    at_once: int = PARTS_AT_ONCE,
    resumed: Resumed | None = None,
) -> Iterator[tuple[Batch | OneByOne, list[int]]]:
    """Yield, after each launch, the batch and the numbers of the parts that have ended; its `fit` makes their fits.

    Parameters
    ----------
    learner : VEM
        Algorithm 1.
    models : Model or sequence of Model
        One model for all parts, or one per part; each a full GP with one latent function.
    parts : sequence of Data
        The training sets.
    at_once : int, default=256
        Number of parts that are trained at a time.
    resumed : mapping of int to Saved, optional
        States of earlier runs from which parts continue.
    """
    each = one_model_per_part(models, parts)
    for model in each:
        if not (isinstance(model.prior, FullPrior) and model.likelihood.latents == 1):
            raise ValueError(
                "The fast variant of Algorithm 1 needs a full GP with one latent function; use many_fits.fit_many."
            )
    if not each:
        return
    with working_precision():
        if _per_feature(each[0]) and not on_accelerator():
            single = OneByOne(learner, each, parts, resumed)
            while single.running:
                yield single, single.launch()
            return
        batch = Batch(learner, each, parts, at_once, resumed)
        _batches.append(batch)
        try:
            while batch.running:
                yield batch, batch.launch()
        finally:
            _batches.remove(batch)


def fit_many(
    learner: VEM, models: Model | Sequence[Model], parts: Sequence[Data], at_once: int = PARTS_AT_ONCE
) -> list[Fit]:
    """Train as `many_fits.fit_many`, with fewer factorisations; `at_once` parts are trained at a time."""
    found = {i: batch.fit(i) for batch, ended in train(learner, models, parts, at_once) for i in ended}
    return [found[i] for i in range(len(parts))]
