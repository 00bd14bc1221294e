"""One search for hyperparameters: climb θ ↦ evidence(θ, λ*(θ)), carry the sites from one θ to the next.

A search is a generator that requests evaluations, so that many of them can be answered by one compiled program.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from sitewise import evidence as ev
from sitewise.arrays.engine import namespace, on_host, to_host
from sitewise.arrays.spread import agreed, is_spread
from sitewise.checks import at_least, shown
from sitewise.data import Data
from sitewise.evidence import Evidence
from sitewise.hyperpriors import HyperPrior
from sitewise.inference import VI, Inference, Solution
from sitewise.inference.solve import solve_by_fallbacks
from sitewise.inference.start import start_of
from sitewise.learning.ascent import climb
from sitewise.learning.base import Callback, SiteFit, climbed
from sitewise.learning.checkpoint import Checkpoint, Start, near
from sitewise.learning.objective import GRADIENTS, INPUTS, Evaluation, Objective, profile, pulls_on_host
from sitewise.model import Model
from sitewise.parameters import Groups, Trainable
from sitewise.process.device import on_processor
from sitewise.process.precision import WORKING_DTYPE
from sitewise.sites import Sites
from sitewise.types import Outcome

_FALLBACKS = 3  # points of one search at which the fallbacks of inference are tried; they take many steps


@dataclasses.dataclass(frozen=True)
class Pair:
    """An inference to solve at every θ, an evidence to maximise, how to differentiate it, and, if it differs from the
    first, the inference of the sites that are returned."""

    inference: Inference
    evidence: Evidence
    gradient: str = "implicit"
    final: Inference | None = None


@dataclasses.dataclass(frozen=True)
class NestedSettings:
    """What a search for hyperparameters depends on: the settings of `Nested`, which explains them."""

    inference: Inference = VI()
    evidence: Evidence = ev.ep
    gradient: str = "implicit"
    fixed: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    bounds: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    priors: Mapping[str, HyperPrior] = dataclasses.field(default_factory=dict)
    restarts: int = 0
    max_rounds: int = 200
    tol: float = 1e-6
    least_gain: float = 0.0
    name: str = "nested"
    final: Inference | None = None
    variants: Mapping[str, Pair] = dataclasses.field(default_factory=dict)
    tied: Groups = ()
    jacobian: bool = False

    def __post_init__(self) -> None:
        if self.gradient not in (*GRADIENTS, "auto"):
            raise ValueError(f"gradient must be one of {', '.join(GRADIENTS)} or auto, got {self.gradient!r}.")
        for kind, name, given in ((Inference, "inference", self.inference), (Evidence, "evidence", self.evidence)):
            if not isinstance(given, kind):
                raise ValueError(f"{name} must be an object such as VI() or evidence.ep, got {shown(given)}.")
        at_least("restarts", self.restarts, 0)
        at_least("max_rounds", self.max_rounds, 1)
        if not 0 <= self.tol < np.inf:
            raise ValueError(f"tol must be a finite number of at least 0, got {self.tol!r}.")
        if not 0 <= self.least_gain < np.inf:
            raise ValueError(f"least_gain must be a finite number of at least 0, got {self.least_gain!r}.")

    def pair(self, model: Model) -> Pair:
        """What is solved and maximised for a model of this structure."""
        own = Pair(self.inference, self.evidence, self.gradient, self.final)
        return self.variants.get(model.prior.structure, own)

    def final_inference(self, model: Model) -> Inference:
        pair = self.pair(model)
        return pair.final or pair.inference


@dataclasses.dataclass
class Best:
    """The best point of a search, and how the search ended."""

    vector: np.ndarray
    value: float
    solution: Solution
    settled: bool
    success: bool = False
    reason: str = ""
    rounds: int = 0
    inverse: np.ndarray | None = None  # of the negative Hessian per row, for another search of this objective


class Search:
    """One optimisation: it keeps the best point seen, and starts inference at each θ from the sites of the last one."""

    def __init__(
        self,
        settings: NestedSettings,
        model: Model,
        data: Data,
        size: int,
        sites: Sites | None,
        callback: Callback | None,
    ) -> None:
        self.settings, self.model, self.given, self.callback = settings, to_host(model), data, callback
        self.trainable = trainable = Trainable.of(model, settings.fixed, settings.train, tied=settings.tied)
        self.on_host = pulls_on_host(model, trainable.names) and on_host(model, data, sites)
        self.data = to_host(data) if self.on_host else data.to_bucket(size)
        self.pair = settings.pair(model)
        self.first_sites = start_of(self.pair.inference, self.model, self.data, sites)
        self.trace: list[dict[str, Any]] = []
        self.checkpoint: Checkpoint | None = None
        self.repeats = False  # whether the last answer was found by an earlier run
        self.limits = trainable.limits(settings.bounds, model.prior.least())
        self.rows = float(namespace(self.data.weight).sum(self.data.weight))
        self.units = self._units()
        self.steepest = 2 * settings.tol  # gradient per row, the largest seen so far
        exact_if_held = "fixed" if model.likelihood.log_concave else "implicit"
        self.objective = Objective(
            self.pair.inference,
            self.pair.evidence,
            exact_if_held if self.pair.gradient == "auto" else self.pair.gradient,
            trainable,
            trainable.priors(settings.priors),
            settings.jacobian,
        )

    def _units(self) -> np.ndarray:
        """In what an ascent measures each entry: inducing inputs in spreads of their columns, others as they are."""
        found = [np.ones(p.raw_size) for p in self.trainable.parameters]
        if INPUTS in self.trainable.names:
            Z = np.asarray(self.model.prior.inducing)  # type: ignore[attr-defined]
            spread = np.std(Z, axis=0)
            at = self.trainable.names.index(INPUTS)
            found[at] = np.ravel(np.broadcast_to(np.where(spread > 0, spread, 1.0), Z.shape))
        return np.concatenate(found) if found else np.zeros(0)

    def starts(self, restarts: int, seed: int) -> list[Start]:
        first = np.asarray(self.trainable.to_vector(self.model))
        rng = np.random.default_rng(seed)
        moved = [first + rng.uniform(-2.0, 2.0, first.shape) for _ in range(restarts)]
        return [Start(one) for one in (first, *(np.clip(m, *self.limits.T) if len(m) else m for m in moved))]

    def evaluate(self, vector: np.ndarray, sites: Sites) -> Evaluation:
        if not is_spread(self.data):
            return profile(self.objective, self.model, self.data, vector, sites)
        found = profile(self.objective, self.model, self.data, agreed(vector), sites)
        sites, code, stats = found.solution
        value, slope, code, stats = agreed((found.value, found.gradient, code, stats))
        return Evaluation(value, slope, Solution(sites, code, stats))

    def drive(self, start: Start, max_rounds: int | None = None) -> Best:
        """Answer one search's requests until it ends, after `max_rounds` if that is fewer than the settings allow."""
        run = self.run(start, max_rounds)
        request = next(run)
        if self.checkpoint is not None:
            self.checkpoint.begin()
        while True:
            try:
                request = run.send(self._answer(*request))
            except StopIteration as end:
                return end.value

    def kept(self, name: str, compute: Callable[[], Start]) -> Start:
        """The start of an ascent, or what an earlier run has computed for it."""
        return compute() if self.checkpoint is None else self.checkpoint.start(name, compute)

    def _answer(self, vector: np.ndarray, sites: Sites) -> Evaluation:
        """The evaluation, or what an earlier run has found here."""
        known = None if self.checkpoint is None else self.checkpoint.answer(vector)
        self.repeats = known is not None
        if known is not None:
            return known
        found = self.evaluate(vector, sites)
        if self.checkpoint is not None:
            self.checkpoint.add(vector, found)
        return found

    def run(self, start: Start, max_rounds: int | None = None) -> Generator[tuple[np.ndarray, Sites], Evaluation, Best]:
        """One ascent: it yields (θ, sites to start from), is sent the evaluation there, and returns the best point."""
        best: Best | None = None
        first, inverse, sites = start
        sites, fallbacks = self.first_sites if sites is None else sites, 0
        settings = self.settings
        steps = climb(
            first / self.units,
            self.limits / self.units[:, None],
            tol=settings.tol,
            max_rounds=settings.max_rounds if max_rounds is None else min(max_rounds, settings.max_rounds),
            inverse=inverse,
            least_gain=settings.least_gain * len(first) / self.rows,
        )
        vector = next(steps) * self.units if len(first) else first
        while True:
            result = yield vector, sites
            if not result.solution.outcome.settled and sites is not self.first_sites:
                # The sites of the last θ may be a bad start here; the likelihood's own start is never a very bad one.
                again = yield vector, self.first_sites
                if again.solution.outcome.settled or not np.isfinite(float(result.value)):
                    result = again
            if not result.solution.outcome.settled and fallbacks < _FALLBACKS:
                fallbacks += 1
                found = self._by_fallbacks(self.model_at(vector), result.solution)
                if found.outcome.settled:
                    result = yield vector, found.sites
            value, slope = float(result.value), np.asarray(result.gradient)
            self._record(vector, value, slope, result.solution)
            # Evidence on sites that are far from a fixed point means nothing, however high it is: such a start is kept
            # until a settled point is found, and such a step counts as failed, so that the ascent shortens it.
            settled = near(result.solution)
            finite = np.isfinite(value) and bool(np.all(np.isfinite(slope)))
            if not finite and best is None:
                raise ValueError(self._not_finite(vector, result.solution.outcome))
            if finite and (best is None or (settled and not (best.settled and value <= best.value))):
                best = Best(np.array(vector), value, result.solution, settled)
            if result.solution.outcome.settled and finite and result.solution.sites is not None:  # kept with the best
                sites = result.solution.sites
            if not (settled and finite):
                value = -np.inf
            assert best is not None
            if len(first) == 0:
                return dataclasses.replace(best, success=True, reason="nothing to train; inference only")
            try:
                vector = self.units * steps.send((value / self.rows, self.units * slope / self.rows))
            except StopIteration as stop:
                end = stop.value
                return dataclasses.replace(
                    best, success=end.converged, reason=end.reason, rounds=end.rounds, inverse=end.inverse
                )

    def _not_finite(self, vector: np.ndarray, outcome: Outcome) -> str:
        """What is wrong with the starting point, in words."""
        if self.objective.priors and not np.isfinite(float(self.objective.log_prior_with_slope(vector)[0])):
            names = ", ".join(name for name, _ in self.objective.priors)
            return f"A prior has no density at the starting point: check the priors of {names} against their values."
        advice = "" if outcome.ok else f" {outcome.advice}"
        return f"The evidence is not finite at the starting point.{advice}"

    def model_at(self, vector: np.ndarray) -> Model:
        return jax.tree.map(np.asarray, self.trainable.from_vector(self.model, np.asarray(vector)))

    def _record(self, vector: np.ndarray, value: float, slope: np.ndarray, solution: Solution) -> None:
        steepest = float(np.max(np.abs(slope), initial=0.0)) / self.rows
        entry = {
            **self.trainable.constrained(np.asarray(vector)),
            "objective": value,
            "share": self._share(steepest),
            "slope": steepest,
            "residual": float(solution.stats.residual),
            "steps": int(solution.stats.steps),
            "outcome": solution.outcome.name,
        }
        self.trace.append(entry)
        if self.callback is not None and not self.repeats:
            self.callback(entry)

    def _share(self, steepest: float) -> float:
        """How much of the search is done: a guess, as the gradient falls by about the same factor each evaluation."""
        before = self.trace[-1]["share"] if self.trace else 0.0
        tol = self.settings.tol
        if tol <= 0 or not np.isfinite(steepest):
            return before
        steepest = max(steepest, tol)
        self.steepest = max(self.steepest, steepest)
        climbed = np.log(self.steepest / steepest) / np.log(self.steepest / tol) / (1 + self.settings.restarts)
        return max(before, min(float(climbed), 0.99))

    def _by_fallbacks(self, model: Model, failed: Solution) -> Solution:
        """Other ways to the sites, on the processor where possible: they are rare and need programs of their own."""
        if not model.prior.host or is_spread(self.data):
            return solve_by_fallbacks(self.pair.inference, model, self.data, failed)
        with on_processor():
            return solve_by_fallbacks(self.pair.inference, model, to_host(self.data), failed)

    def _settle(self, model: Model, best: Best) -> Best:
        """The best point with the sites of a fallback, where inference did not converge; the outcome says so."""
        if best.solution.outcome.settled:
            return best
        found = self._by_fallbacks(model, best.solution)
        if found is best.solution:
            return best
        value = self.pair.evidence(model, self.data, found.sites)
        value = float(value) + float(self.objective.log_prior_with_slope(best.vector)[0])
        return dataclasses.replace(best, solution=found, value=float(value)) if np.isfinite(value) else best

    @contextlib.contextmanager
    def with_loose_sites(self, tol: float) -> Iterator[None]:
        """Inference to this tolerance at least, until the end of the `with` block; see `polished`.

        That is for pairs whose evidence is stationary in the sites ("auto"), and changes by the square of their error.
        """
        exact = self.objective
        inference = exact.inference
        if self.pair.gradient == "auto":
            loose = dataclasses.replace(inference, tol=max(tol, inference.tolerance(WORKING_DTYPE)))
            self.objective = dataclasses.replace(exact, inference=loose)
        try:
            yield
        finally:
            self.objective = exact

    def polished(self, best: Best) -> Best:
        """The best point that was found with loose sites, with sites to the tolerance of this search."""
        model = self.model_at(best.vector)
        solution = self.pair.inference.solve(model, self.data, best.solution.sites)
        value = float(self.pair.evidence(model, self.data, solution.sites))
        value += float(self.objective.log_prior_with_slope(best.vector)[0])
        return dataclasses.replace(best, solution=solution, value=value) if np.isfinite(value) else best

    def finish(self, best: Best) -> SiteFit:
        """The fit at the best point, with the sites of the final inference."""
        model = self.model_at(best.vector)
        best = self._settle(model, best)
        final, solution = self.pair.final, best.solution
        reason = best.reason
        if final is not None:
            solution = final.solve(model, self.data)
            reason += f"; learned by {self.pair.inference.name}, sites of {final.name}"
        return SiteFit(
            model=model,
            data=self.given,
            solution=solution.cut(self.given.rows),
            method=self.settings.name,
            inference=(final or self.pair.inference).name,
            objective=best.value,
            converged=best.success and best.solution.outcome.ok and solution.outcome.ok,
            reason=reason,
            rounds=best.rounds,
            trace=self.trace,
            problem=self.objective,
            climbed=climbed(self.objective, model),
            at_bound=self.trainable.at_bound(best.vector, self.limits),
            limits=self.limits,
        )
