"""L3. Nested learning: maximise θ ↦ evidence(θ, λ*(θ)) by quasi-Newton ascent, inference solved at every θ."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
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
from sitewise.learning.ascent import maximise
from sitewise.learning.checkpoint import Checkpoint
from sitewise.learning.fit import Fit, all_evidences, start_sites
from sitewise.learning.objective import GRADIENTS, log_prior, profile
from sitewise.model import Model
from sitewise.parameters import Trainable, matches
from sitewise.precision import working_precision
from sitewise.sites import Sites
from sitewise.types import POSITIVE

DEFAULT_BOUNDS = (1e-5, 1e6)
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
            memory.require_full(bucket(data.rows))
        with working_precision():
            padded = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), data.pad(bucket(data.rows)))
            trainable = Trainable.of(model, self.fixed, self.train)
            search = _Search(self, model, padded, trainable, start_sites(model, padded, sites), callback)
            start = np.asarray(trainable.to_vector(model))
            if checkpoint is not None:
                search.checkpoint = Checkpoint.of(Path(checkpoint), repr(self), model, padded, search.first_sites, seed)
            found = None if search.checkpoint is None else search.checkpoint.read(len(start))
            best = search.run(start if found is None else found[0])
            rng = np.random.default_rng(seed)
            for _ in range(self.restarts):
                moved = start + rng.uniform(-2.0, 2.0, start.shape)
                other = search.run(np.clip(moved, *search.limits.T) if len(moved) else moved)
                if other.value > best.value:
                    best = other
            fit = search.finish(best, data)
            if search.checkpoint is not None:
                search.checkpoint.remove()
            return fit


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

    def __init__(self, learner: Nested, model, data, trainable, sites, callback):
        self.learner, self.model, self.data, self.trainable = learner, model, data, trainable
        self.first_sites, self.callback = sites, callback
        self.trace: list[dict] = []
        self.checkpoint: Checkpoint | None = None
        self.saved = -np.inf
        self.priors = tuple(sorted(learner.priors.items()))
        for name, _ in self.priors:
            if name not in [p.name for p in trainable.parameters]:
                raise ValueError(f"A prior was given for {name!r}, which is not a trained parameter.")
        self.limits = self._limits()
        self.rows = float(np.sum(np.asarray(data.weight)))
        exact_if_held = "fixed" if model.likelihood.log_concave else "implicit"
        self.gradient = exact_if_held if learner.gradient == "auto" else learner.gradient

    def _limits(self) -> np.ndarray:
        known = [p.name for p in self.trainable.parameters]
        for pattern in self.learner.bounds:
            if not any(matches(name, [pattern]) for name in known):
                raise ValueError(f"A bound was given for {pattern!r}; the trained parameters are {', '.join(known)}.")
        out = []
        for p in self.trainable.parameters:
            low, high = DEFAULT_BOUNDS if p.support == POSITIVE else (-np.inf, np.inf)
            for pattern, given in self.learner.bounds.items():
                if matches(p.name, [pattern]):
                    low, high = given
            if not low < high:
                raise ValueError(f"The bounds of {p.name} must be (low, high) with low < high, got {(low, high)}.")
            pair = (low, high) if p.support != POSITIVE else tuple(np.log([max(low, 1e-300), high]))
            out += [pair] * p.size
        return np.array(out, float).reshape(-1, 2)

    def evaluate(self, vector: np.ndarray, sites: Sites):
        learner = self.learner
        return profile(
            learner.inference, learner.evidence.on(self.model.prior), self.gradient, self.trainable, self.priors,
            self.model, self.data, jnp.asarray(vector), sites,
        )  # fmt: skip

    def run(self, start: np.ndarray) -> _Best:
        best: _Best | None = None
        sites, rescues = self.first_sites, 0

        def value_and_slope(vector):
            nonlocal best, sites, rescues
            result = self.evaluate(vector, sites)
            if not result.solution.outcome.ok and sites is not self.first_sites:
                # The carried sites may be a bad start here; the likelihood's own start is never far off.
                again = self.evaluate(vector, self.first_sites)
                if again.solution.outcome.ok or not np.isfinite(float(result.value)):
                    result = again
            if not result.solution.outcome.ok and rescues < _RESCUES:
                rescues += 1
                found = rescue(self.learner.inference, self._model(vector), self.data, result.solution)
                if found.outcome.ok:
                    result = self.evaluate(vector, found.sites)
            value, slope = float(result.value), np.asarray(result.gradient)
            self._record(vector, value, result.solution)
            # Evidence read off sites that are far from a fixed point means nothing, however high it is: such a start is
            # kept until a settled point is found, and such a step is a failed one, which the ascent backs away from.
            settled = result.solution.outcome.ok or float(result.solution.stats.residual) < _LOOSE
            finite = np.isfinite(value) and bool(np.all(np.isfinite(slope)))
            if not finite and best is None:
                raise ValueError(f"The evidence is not finite at the starting point. {result.solution.outcome.advice}")
            if finite and (best is None or (settled and not (best.settled and value <= best.value))):
                best = _Best(np.array(vector), value, result.solution, settled)
                if self.checkpoint is not None and settled and value > self.saved:
                    self.checkpoint.write(best.vector, value)
                    self.saved = value
            if result.solution.outcome.ok and finite:
                sites = result.solution.sites
            if not (settled and finite):
                value = -np.inf
            return value / self.rows, slope / self.rows

        if len(start) == 0:
            value_and_slope(start)
            assert best is not None
            return dataclasses.replace(best, success=True, reason="nothing to train; inference only")
        end = maximise(value_and_slope, start, self.limits, tol=self.learner.tol, max_rounds=self.learner.max_rounds)
        assert best is not None
        return dataclasses.replace(best, success=end.converged, reason=end.reason, rounds=end.rounds)

    def _model(self, vector: np.ndarray) -> Model:
        return jax.tree.map(np.asarray, self.trainable.from_vector(self.model, jnp.asarray(vector)))

    def _record(self, vector, value: float, solution: Solution) -> None:
        entry = {
            **{k: np.asarray(v) for k, v in self.trainable.constrained(jnp.asarray(vector)).items()},
            "objective": value,
            "residual": float(solution.stats.residual),
            "steps": int(solution.stats.steps),
            "outcome": solution.outcome.name,
        }
        self.trace.append(entry)
        if self.callback is not None:
            self.callback(entry)

    def _settle(self, model: Model, best: _Best) -> _Best:
        """Sites of a milder method where inference did not converge at the best point; the outcome says so."""
        if best.solution.outcome.ok:
            return best
        found = rescue(self.learner.inference, model, self.data, best.solution)
        if found is best.solution:
            return best
        value = self.learner.evidence.on(model.prior)(model, self.data, found.sites)
        value += log_prior(self.trainable, self.priors, jnp.asarray(best.vector))
        return dataclasses.replace(best, solution=found, value=float(value)) if np.isfinite(value) else best

    def finish(self, best: _Best, data: Data) -> Fit:
        model = self._model(best.vector)
        best = self._settle(model, best)
        labels = self.trainable.labels
        near = np.abs(best.vector[:, None] - self.limits) < 1e-6
        sites = jax.tree.map(lambda a: np.asarray(a)[: data.rows], best.solution.sites)
        return Fit(
            model=model,
            data=data,
            sites=sites,
            method=self.learner.name,
            inference=self.learner.inference.name,
            objective=best.value,
            converged=best.success and best.solution.outcome.ok,
            reason=best.reason,
            rounds=best.rounds,
            solution=best.solution,
            evidences=all_evidences(model, self.data, best.solution.sites),
            trace=self.trace,
            at_bound=tuple(label for label, hit in zip(labels, near.any(axis=1), strict=True) if hit),
        )
