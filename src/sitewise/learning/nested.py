"""L3. Nested learning: maximise θ ↦ evidence(θ, λ*(θ)) by quasi-Newton ascent, inference solved at every θ."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import evidence as ev
from sitewise import memory
from sitewise.data import Data, bucket
from sitewise.evidence import Evidence
from sitewise.inference import VI, Inference, Solution
from sitewise.inference.driver import rescue
from sitewise.learning.ascent import climb
from sitewise.learning.checkpoint import Checkpoint
from sitewise.learning.fit import Fit, all_evidences, one_for_each, stack, start_sites
from sitewise.learning.objective import GRADIENTS, Evaluation, log_prior, profile, profiles
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.precision import working_precision
from sitewise.sites import Sites

_named = jax.jit(lambda trainable, vector: trainable.constrained(vector), static_argnums=0)
_RESCUES = 3  # points of one search at which the milder methods are tried; they take many steps
_LOOSE = 1e-3  # residual, in units of the marginal, above which sites are not a solution of anything


@dataclasses.dataclass(frozen=True)
class Nested:
    """Pair any inference with any evidence; the gradient is exact with "implicit" (see `objective`).

    gradient       "implicit", "one_step", "fixed", or "auto": "fixed" for a log-concave likelihood, else "implicit".
                   For (VI, elbo) and (EP, ep) "fixed" is exact, unless a likelihood that is not log-concave has sites
                   held at their lower limit
    fixed, train   names or patterns of parameters to hold, or to train although held by default
    bounds         name or pattern → (low, high); positive parameters default to (1e-5, 1e6)
    priors         name → hyperprior: MAP instead of maximum evidence
    restarts       further starts, drawn log-uniformly around the first; the best evidence wins
    tol            stop when no component of the gradient, per row, exceeds this
    final          inference of the sites that are given back, at the learned hyperparameters; None: the same
    """

    inference: Inference = VI()
    evidence: Evidence = ev.ep
    gradient: str = "implicit"
    fixed: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    bounds: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    priors: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    restarts: int = 0
    max_rounds: int = 200
    tol: float = 1e-6
    name: str = "nested"
    final: Inference | None = None

    def __post_init__(self) -> None:
        if self.gradient not in (*GRADIENTS, "auto"):
            raise ValueError(f"gradient must be one of {', '.join(GRADIENTS)} or auto, got {self.gradient!r}.")

    def fit(
        self,
        model: Model,
        data: Data,
        sites: Sites | None = None,
        *,
        seed: int = 0,
        callback: Callable[[dict], None] | None = None,
        checkpoint: str | os.PathLike | None = None,
    ) -> Fit:
        """Train.  `callback` gets each entry of the trace as it is made, and may raise to stop.

        `checkpoint` is a file for the best hyperparameters so far: if the process ends, however it ends, the same call
        goes on from there.  It is removed when learning ends.
        """
        model.likelihood.check(data.y)
        if model.prior.exact:
            memory.require_full(bucket(data.rows), model.likelihood.latents)
        with working_precision():
            search = _Search(self, model, data, bucket(data.rows), sites, callback)
            starts = search.starts(self.restarts, seed)
            if checkpoint is not None:
                search.checkpoint = Checkpoint.of(
                    Path(checkpoint), repr(self), model, search.data, search.first_sites, seed
                )
                found = search.checkpoint.read(len(starts[0]))
                starts[0] = starts[0] if found is None else found[0]
            best = search.drive(starts[0])
            for start in starts[1:]:
                other = search.drive(start)
                if other.value > best.value:
                    best = other
            fit = search.finish(best)
            if search.checkpoint is not None:
                search.checkpoint.remove()
            return fit

    def fit_many(
        self, models: Model | Sequence[Model], parts: Sequence[Data], done: Callable[[int], None] | None = None
    ) -> list[Fit]:
        """Train on each part (folds, resamples, outputs) in one compiled program, which suits an accelerator.

        One model for all, or one for each part (say with inducing inputs of its own).  Every part has its own
        hyperparameters and takes the same way as by `fit`; a round costs as much as its slowest part.  `done` is told
        how many parts have ended.
        """
        if self.restarts:
            raise ValueError("fit_many starts every part once; set restarts=0.")
        each = one_for_each(models, parts)
        with working_precision():
            size = bucket(max((part.rows for part in parts), default=1))
            searches = []
            for model, part in zip(each, parts, strict=True):
                model.likelihood.check(part.y)
                if model.prior.exact:
                    memory.require_full(size, model.likelihood.latents)
                searches.append(_Search(self, model, part, size, None, None))
            bests = _side_by_side(searches, done)
            return [search.finish(best) for search, best in zip(searches, bests, strict=True)]


def _side_by_side(searches: list[_Search], done: Callable[[int], None] | None) -> list[_Best]:
    """Answer the requests of all searches by one mapped evaluation a round.

    When a quarter of them is left, the batch shrinks to a quarter, once: a second program costs a compilation.
    """
    runs = [search.run(search.starts(0, 0)[0]) for search in searches]
    requests = {i: next(run) for i, run in enumerate(runs)}
    bests: dict[int, _Best] = {}
    size = len(runs)
    stacked: tuple[list[int], Any, Any] = ([], None, None)
    while requests:
        if len(requests) <= len(runs) // 4:
            size = max(len(runs) // 4, 1)
        lanes = [*requests, *[next(iter(requests))] * (size - len(requests))]
        if lanes != stacked[0]:
            stacked = lanes, stack([searches[i].model for i in lanes]), stack([searches[i].data for i in lanes])
        vectors, sites = (stack(part) for part in zip(*(requests[i] for i in lanes), strict=True))
        answers = jax.tree.map(np.asarray, searches[0].evaluate_many(*stacked[1:], vectors, sites))
        for lane, i in enumerate(list(requests)):
            try:
                requests[i] = runs[i].send(jax.tree.map(lambda leaf: leaf[lane], answers))  # noqa: B023
            except StopIteration as end:
                bests[i] = end.value
                del requests[i]
                if done is not None:
                    done(len(bests))
    return [bests[i] for i in range(len(runs))]


@dataclasses.dataclass
class _Best:
    vector: np.ndarray
    value: float
    solution: Solution
    settled: bool
    success: bool = False
    reason: str = ""
    rounds: int = 0


class _Search:
    """One optimisation: remembers the best point seen and carries the sites from one θ to the next."""

    def __init__(self, learner: Nested, model: Model, data: Data, size: int, sites: Sites | None, callback):
        self.learner, self.model, self.given, self.callback = learner, model, data, callback
        self.data = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), data.pad(size))
        self.trainable = trainable = Trainable.of(model, learner.fixed, learner.train)
        self.first_sites = start_sites(model, self.data, sites)
        self.trace: list[dict] = []
        self.checkpoint: Checkpoint | None = None
        self.saved = -np.inf
        self.priors = tuple(sorted(learner.priors.items()))
        trainable.check_priors(learner.priors)
        self.limits = trainable.limits(learner.bounds)
        self.rows = float(np.sum(np.asarray(self.data.weight)))
        exact_if_held = "fixed" if model.likelihood.log_concave else "implicit"
        self.gradient = exact_if_held if learner.gradient == "auto" else learner.gradient

    def starts(self, restarts: int, seed: int) -> list[np.ndarray]:
        first = np.asarray(self.trainable.to_vector(self.model))
        rng = np.random.default_rng(seed)
        moved = [first + rng.uniform(-2.0, 2.0, first.shape) for _ in range(restarts)]
        return [first, *(np.clip(m, *self.limits.T) if len(m) else m for m in moved)]

    @property
    def _settings(self) -> tuple:
        learner = self.learner
        return learner.inference, learner.evidence.on(self.model.prior), self.gradient, self.trainable, self.priors

    def evaluate(self, vector: np.ndarray, sites: Sites) -> Evaluation:
        return profile(*self._settings, self.model, self.data, jnp.asarray(vector), sites)

    def evaluate_many(self, models: Model, data: Data, vectors: jax.Array, sites: Sites) -> Evaluation:
        """The evaluation of many searches like this one; every argument has a leading axis."""
        return profiles(*self._settings, models, data, vectors, sites)

    def drive(self, start: np.ndarray) -> _Best:
        """Answer one search's requests until it ends."""
        run = self.run(start)
        request = next(run)
        while True:
            try:
                request = run.send(self.evaluate(*request))
            except StopIteration as end:
                return end.value

    def run(self, start: np.ndarray) -> Generator[tuple[np.ndarray, Sites], Evaluation, _Best]:
        """One ascent: yields (θ, sites to start from), is sent the evaluation there, returns the best point seen."""
        best: _Best | None = None
        sites, rescues = self.first_sites, 0
        steps = climb(start, self.limits, tol=self.learner.tol, max_rounds=self.learner.max_rounds)
        vector = next(steps) if len(start) else start
        while True:
            result = yield vector, sites
            if not result.solution.outcome.settled and sites is not self.first_sites:
                # The carried sites may be a bad start here; the likelihood's own start is never far off.
                again = yield vector, self.first_sites
                if again.solution.outcome.settled or not np.isfinite(float(result.value)):
                    result = again
            if not result.solution.outcome.settled and rescues < _RESCUES:
                rescues += 1
                found = rescue(self.learner.inference, self._model(vector), self.data, result.solution)
                if found.outcome.settled:
                    result = yield vector, found.sites
            value, slope = float(result.value), np.asarray(result.gradient)
            self._record(vector, value, slope, result.solution)
            # Evidence read off sites that are far from a fixed point means nothing, however high it is: such a start is
            # kept until a settled point is found, and such a step is a failed one, which the ascent backs away from.
            settled = result.solution.outcome.settled or float(result.solution.stats.residual) < _LOOSE
            finite = np.isfinite(value) and bool(np.all(np.isfinite(slope)))
            if not finite and best is None:
                raise ValueError(f"The evidence is not finite at the starting point. {result.solution.outcome.advice}")
            if finite and (best is None or (settled and not (best.settled and value <= best.value))):
                best = _Best(np.array(vector), value, result.solution, settled)
                if self.checkpoint is not None and settled and value > self.saved:
                    self.checkpoint.write(best.vector, value)
                    self.saved = value
            if result.solution.outcome.settled and finite:
                sites = result.solution.sites
            if not (settled and finite):
                value = -np.inf
            assert best is not None
            if len(start) == 0:
                return dataclasses.replace(best, success=True, reason="nothing to train; inference only")
            try:
                vector = steps.send((value / self.rows, slope / self.rows))
            except StopIteration as stop:
                end = stop.value
                return dataclasses.replace(best, success=end.converged, reason=end.reason, rounds=end.rounds)

    def _model(self, vector: np.ndarray) -> Model:
        return jax.tree.map(np.asarray, self.trainable.from_vector(self.model, jnp.asarray(vector)))

    def _record(self, vector, value: float, slope: np.ndarray, solution: Solution) -> None:
        entry = {
            **{k: np.asarray(v) for k, v in _named(self.trainable, vector).items()},
            "objective": value,
            "slope": float(np.max(np.abs(slope), initial=0.0)) / self.rows,
            "residual": float(solution.stats.residual),
            "steps": int(solution.stats.steps),
            "outcome": solution.outcome.name,
        }
        self.trace.append(entry)
        if self.callback is not None:
            self.callback(entry)

    def _settle(self, model: Model, best: _Best) -> _Best:
        """Sites of a milder method where inference did not converge at the best point; the outcome says so."""
        if best.solution.outcome.settled:
            return best
        found = rescue(self.learner.inference, model, self.data, best.solution)
        if found is best.solution:
            return best
        value = self.learner.evidence.on(model.prior)(model, self.data, found.sites)
        value += log_prior(self.trainable, self.priors, jnp.asarray(best.vector))
        return dataclasses.replace(best, solution=found, value=float(value)) if np.isfinite(value) else best

    def finish(self, best: _Best) -> Fit:
        model = self._model(best.vector)
        best = self._settle(model, best)
        final, solution = self.learner.final, best.solution
        reason = best.reason
        if final is not None:
            solution = final.solve(model, self.data)
            reason += f"; learned by {self.learner.inference.name}, sites of {final.name}"
        labels = self.trainable.labels
        near = np.abs(best.vector[:, None] - self.limits) < 1e-6
        sites = jax.tree.map(lambda a: np.asarray(a)[..., : self.given.rows], solution.sites)
        return Fit(
            model=model,
            data=self.given,
            sites=sites,
            method=self.learner.name,
            inference=(final or self.learner.inference).name,
            objective=best.value,
            converged=best.success and best.solution.outcome.ok and solution.outcome.ok,
            reason=reason,
            rounds=best.rounds,
            solution=solution,
            evidences=all_evidences(model, self.data, solution.sites),
            trace=self.trace,
            at_bound=tuple(label for label, hit in zip(labels, near.any(axis=1), strict=True) if hit),
        )
