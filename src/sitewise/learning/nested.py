"""L3. Nested learning: maximise θ ↦ evidence(θ, λ*(θ)) by quasi-Newton ascent, inference solved at every θ."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import evidence as ev
from sitewise.data import Data, bucket
from sitewise.evidence import Evidence
from sitewise.inference import VI, Inference, Solution
from sitewise.learning.ascent import maximise
from sitewise.learning.fit import Fit, all_evidences, start_sites
from sitewise.learning.objective import GRADIENTS, profile
from sitewise.model import Model
from sitewise.parameters import Trainable, matches
from sitewise.precision import working_precision
from sitewise.sites import Sites
from sitewise.types import POSITIVE

DEFAULT_BOUNDS = (1e-5, 1e6)
_named = jax.jit(lambda trainable, vector: trainable.constrained(vector), static_argnums=0)
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
    ) -> Fit:
        """Train.  `callback` gets each entry of the trace as it is made, and may raise to stop."""
        model.likelihood.check(data.y)
        with working_precision():
            padded = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), data.pad(bucket(data.rows)))
            trainable = Trainable.of(model, self.fixed, self.train)
            search = _Search(self, model, padded, trainable, start_sites(model, padded, sites), callback)
            start = np.asarray(trainable.to_vector(model))
            best = search.run(start)
            rng = np.random.default_rng(seed)
            for _ in range(self.restarts):
                moved = start + rng.uniform(-2.0, 2.0, start.shape)
                other = search.run(np.clip(moved, *search.limits.T) if len(moved) else moved)
                if other.value > best.value:
                    best = other
            return search.finish(best, data)


@dataclasses.dataclass
class _Best:
    vector: np.ndarray
    value: float
    solution: Solution
    success: bool
    reason: str
    rounds: int


class _Search:
    """One optimisation: remembers the best point seen and carries the sites from one θ to the next."""

    def __init__(self, learner: Nested, model, data, trainable, sites, callback):
        self.learner, self.model, self.data, self.trainable = learner, model, data, trainable
        self.first_sites, self.callback = sites, callback
        self.trace: list[dict] = []
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
        sites = self.first_sites

        def value_and_slope(vector):
            nonlocal best, sites
            result = self.evaluate(vector, sites)
            if not result.solution.outcome.ok:
                # The carried sites may be a bad start here; the likelihood's own start is never far off.
                again = self.evaluate(vector, self.first_sites)
                if again.solution.outcome.ok or not np.isfinite(float(result.value)):
                    result = again
            value, slope = float(result.value), np.asarray(result.gradient)
            self._record(vector, value, result.solution)
            # Evidence read off sites that are far from a fixed point means nothing, however high it is.
            settled = result.solution.outcome.ok or float(result.solution.stats.residual) < _LOOSE
            if np.isfinite(value) and np.all(np.isfinite(slope)) and (settled or best is None):
                if result.solution.outcome.ok:
                    sites = result.solution.sites
                if best is None or value > best.value:
                    best = _Best(np.array(vector), value, result.solution, False, "", 0)
            elif best is None:
                raise FloatingPointError(
                    f"The evidence is not finite at the starting point. {result.solution.outcome.advice}"
                )
            else:
                value = -np.inf  # a failed step, which the ascent backs away from
            return value / self.rows, slope / self.rows

        if len(start) == 0:
            value_and_slope(start)
            assert best is not None
            return dataclasses.replace(best, success=True, reason="nothing to train; inference only")
        end = maximise(value_and_slope, start, self.limits, tol=self.learner.tol, max_rounds=self.learner.max_rounds)
        assert best is not None
        return dataclasses.replace(best, success=end.converged, reason=end.reason, rounds=end.rounds)

    def _record(self, vector, value: float, solution: Solution) -> None:
        entry = {
            **{k: np.asarray(v) for k, v in _named(self.trainable, vector).items()},
            "objective": value,
            "residual": float(solution.stats.residual),
            "steps": int(solution.stats.steps),
            "outcome": solution.outcome.name,
        }
        self.trace.append(entry)
        if self.callback is not None:
            self.callback(entry)

    def finish(self, best: _Best, data: Data) -> Fit:
        model = jax.tree.map(np.asarray, self.trainable.from_vector(self.model, jnp.asarray(best.vector)))
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
