"""The paper's Algorithm 1: variational EM with separate objectives for the E- and the M-step.

    E  λ ← (1−ρ)λ + ρ T(λ, θ), a few natural-gradient steps
    M  θ ← Adam steps on evidence(λ, θ) with λ held fixed
    stop when nothing moves, or when the learning objective fell (then return the previous iterate)

The M-step holds λ fixed, so it does not maximise θ ↦ evidence(λ*(θ), θ): the objective can fall from one round to the
next (the E/M conflict of the paper's section 5.5).  `Nested` has no such conflict.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise import evidence as ev
from sitewise.arrays import programs
from sitewise.arrays.engine import Array, is_host, namespace, on_host, repeat, to_host
from sitewise.data import Data, bucket
from sitewise.evidence import Evidence
from sitewise.inference import VI, Inference, Point, Solution, Stats
from sitewise.inference.loop import evaluate
from sitewise.learning.fit import Fit, climbed
from sitewise.learning.objective import Objective, pulls_on_host, slope_at_sites
from sitewise.learning.search import Callback
from sitewise.model import Model, check
from sitewise.parameters import Groups, Trainable
from sitewise.process import memory
from sitewise.process.precision import WORKING_DTYPE, working_precision
from sitewise.sites import Sites
from sitewise.types import Outcome

_DECAYS = 0.9, 0.999  # of Adam's moments
_ADAM_EPS = 1e-7


class Adam(NamedTuple):
    """The moments of Adam (Kingma & Ba 2015, Algorithm 1) after `steps` slopes g of the objective."""

    steps: Array
    mean: Array
    square: Array

    @staticmethod
    def start(vector: Array) -> Adam:
        xp = namespace(vector)
        return Adam(xp.asarray(0), xp.zeros_like(vector), xp.zeros_like(vector))

    def after(self, slope: Array) -> Adam:
        """Return the moments after one more slope: m ← β₁ m + (1−β₁) g,  s ← β₂ s + (1−β₂) g²."""
        first, second = _DECAYS
        mean, square = first * self.mean + (1 - first) * slope, second * self.square + (1 - second) * slope**2
        return Adam(self.steps + 1, mean, square)

    def direction(self) -> Array:
        """Return m̂/(√ŝ + ε), where m̂ = m/(1 − β₁ᵗ) and ŝ = s/(1 − β₂ᵗ): an ascent step per learning rate."""
        mean, square = (
            moment / (1 - decay**self.steps) for moment, decay in zip((self.mean, self.square), _DECAYS, strict=True)
        )
        return mean / (namespace(square).sqrt(square) + _ADAM_EPS)


class State(NamedTuple):
    """λ, unconstrained θ, and Adam's moments, which are kept through all M-steps."""

    sites: Sites
    vector: Array
    adam: Adam


class Info(NamedTuple):
    """The evidences after the round's M-step, at (λ, θ) of the new state."""

    learning: Array
    elbo: Array
    ep: Array


SETTLED = "converged: all variables settled"
FELL = "the learning objective fell (E/M conflict); the previous iterate was kept"
CAP = "stopped early: the cap on rounds was reached"
NOT_FINITE = "stopped early: the round gave a number that is not finite; the previous iterate was kept"


@dataclasses.dataclass(frozen=True)
class VEM:
    """Variational EM, the paper's Algorithm 1: separate objectives for the E- and the M-step.

    The defaults are the published settings for classification; see `published_student_t` for the other set.

    Parameters
    ----------
    inference : Inference, default=VI()
        The site update of the E-step.
    evidence : Evidence, default=evidence.ep
        The objective of the M-step.
    rate : float, default=0.1
        ρ, the share of the update in every step of the sites.
    e_steps : int, default=20
        Steps of the sites per round.
    m_steps : int, default=20
        Steps of Adam on the hyperparameters per round.
    learning_rate : float, default=0.01
        The learning rate of Adam.
    max_rounds : int, default=10000
        The largest number of rounds.
    stop_on_fall : bool, default=True
        Whether to stop at the first round in which the objective falls.
    initial_prec : float, default=1e-06
        The precision of the first sites.
    transform : str, default="softplus"
        The transform of positive parameters, "softplus" or "log".
    fixed : tuple of str, default=()
        Names or patterns of parameters to hold fixed.
    train : tuple of str, default=()
        Names or patterns of parameters to train although they are held fixed by default.
    name : str, default="vem"
        The name in reports.
    tied : sequence, default=()
        Groups of parameters that share one value.
    variants : tuple, default=()
        Pairs of a structure of prior ("sparse") and the evidence that is maximised there instead.
    """

    inference: Inference = VI()
    evidence: Evidence = ev.ep
    rate: float = 0.1
    e_steps: int = 20
    m_steps: int = 20
    learning_rate: float = 0.01
    max_rounds: int = 10_000
    stop_on_fall: bool = True
    initial_prec: float = 1e-6
    transform: str = "softplus"
    fixed: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    name: str = "vem"
    tied: Groups = ()
    variants: tuple[tuple[str, Evidence], ...] = ()

    @staticmethod
    def published_student_t(rounds: int = 2000, **changes: Any) -> VEM:
        """The paper's settings for robust regression: 2 000 rounds (neal), 5 000 (boston, stock)."""
        settings: dict[str, Any] = {
            "inference": VI(min_prec=2e-8),  # ∂v-gradients cropped to ≤ −1e-8, and prec = −2 ∂v
            "rate": 0.001,
            "learning_rate": 0.001,
            "max_rounds": rounds,
            "stop_on_fall": False,
        }
        return VEM(**{**settings, **changes})

    def trainable(self, model: Model) -> Trainable:
        """Return the hyperparameters that are learned, as a vector."""
        return Trainable.of(model, self.fixed, self.train, self.transform, self.tied)

    def climbs(self, model: Model) -> Objective:
        """Return the objective of the M-steps for this model."""
        read = dict(self.variants).get(model.prior.structure, self.evidence)
        return Objective(self.inference, read, "fixed", self.trainable(model))

    def of_a_round(self) -> VEM:
        """Return the learner with defaults for settings that no round uses, so that programs are shared."""
        unused = ("max_rounds", "stop_on_fall", "initial_prec", "name")
        return dataclasses.replace(self, **{name: getattr(VEM, name) for name in unused})

    def init(self, model: Model, data: Data) -> State:
        """Return the published start: nat1 = 0, and prec = `initial_prec` on the rows that are not padding."""
        vector = self.trainable(model).to_vector(model)
        xp = namespace(data.X)
        sites = Sites(xp.zeros(data.rows, data.X.dtype), xp.where(data.mask, self.initial_prec, 0.0))
        return State(sites, vector, Adam.start(vector))

    def step(self, model: Model, data: Data, state: State) -> tuple[State, Info]:
        """Return the state after one round, of either kind of arrays; JAX may jit it, and vmap it over folds."""
        problem = self.climbs(model)
        method = problem.inference.stepping(model.likelihood)
        at = problem.trainable.from_vector(model, state.vector)
        gram = at.prior.gram(data.X)

        def natural_step(sites: Sites) -> Sites:
            target = evaluate(method, at.likelihood, gram, data, sites).target
            mixed = [(1 - self.rate) * old + self.rate * new for old, new in zip(sites, target, strict=True)]
            return Sites(*mixed).masked(data.mask)

        sites = repeat(self.e_steps, natural_step, state.sites)

        def adam_step(now: tuple[Array, Adam]) -> tuple[Array, Adam]:
            vector, adam = now
            adam = adam.after(slope_at_sites(problem, model, data, vector, sites))
            return vector + self.learning_rate * adam.direction(), adam

        vector, adam = repeat(self.m_steps, adam_step, (state.vector, state.adam))
        at = problem.trainable.from_vector(model, vector)
        q = at.prior.gram(data.X).condition(sites.scaled(data.weight))
        found = (e.on_marginals(at.likelihood, data, q, sites) for e in (problem.evidence, ev.elbo, ev.ep))
        return State(sites, vector, adam), Info(*found)

    def settled(self, new: State, old: State) -> Array:
        """Return whether all variables are close to the variables of the previous round (np.allclose)."""
        pairs = zip(jax.tree.leaves((new.sites, new.vector)), jax.tree.leaves((old.sites, old.vector)), strict=True)
        xp = namespace(new.vector)
        return xp.all(xp.stack([xp.allclose(a, b) for a, b in pairs]))

    def final_inference(self, model: Model) -> Inference:
        """Return the method that finds the sites of the result."""
        return self.inference

    def fit(self, model: Model, data: Data, *, seed: int = 0, callback: Callback | None = None) -> Fit:
        """Train; `Learner` describes the callback.  Nothing is random: the seed has no effect."""
        check(model, data)
        if model.likelihood.latents > 1:
            raise ValueError(
                f"Algorithm 1 is for one latent function per row, {type(model.likelihood).__name__} has "
                f"{model.likelihood.latents}; use Nested, or resolve('hybrid')."
            )
        with working_precision():
            run = Run(self, model, data, callback=callback)
            while run.running:
                run.step()
            return self.finish(run)

    def finish(self, run: Run) -> Fit:
        """Return the fit at the end of a run."""
        padded, state, trace, reason = run.data, run.state, run.trace, run.reason
        problem = self.climbs(run.model)
        trained = jax.tree.map(np.asarray, problem.trainable.from_vector(run.model, state.vector))
        compute = _evaluate if is_host(padded.X) else _compiled_evaluate
        point = compute(self.inference, trained, padded, state.sites)
        ok = float(point.residual) <= max(_RESIDUAL, self.inference.tolerance(WORKING_DTYPE))
        stats = Stats(
            jnp.asarray(len(trace) * self.e_steps),
            point.residual,
            jnp.sum(padded.mask & (point.target.prec <= self.inference.min_prec)),
            point.q.jitter,
        )
        if len(trace) == 1 and reason == NOT_FINITE:  # nothing was learned: the start was kept
            objective = float(problem.evidence(trained, padded, state.sites))
        else:
            objective = trace[-2]["learning"] if len(trace) > 1 and reason != CAP else trace[-1]["learning"]
        if not np.isfinite(objective):
            raise ValueError(f"The evidence is not finite at the starting point. {Outcome.NON_FINITE.advice}")
        solution = Solution(state.sites, jnp.asarray(Outcome.CONVERGED if ok else Outcome.STEP_CAP), stats)
        return Fit(
            model=trained,
            data=run.given,
            solution=solution.cut(run.given.rows),
            method=self.name,
            inference=self.inference.name,
            objective=objective,
            converged=ok and reason in (SETTLED, FELL),
            reason=reason,
            rounds=len(trace),
            trace=trace,
            climbed=climbed(problem, trained),
        )


# In units of the marginal.  Where all variables have settled, to 1e-5 of themselves, it is about 1e-6; where the
# objective fell, the sites may be far from the fixed point at the last θ: then nothing has converged.
_RESIDUAL = 1e-3
_MATRICES = 16  # of size n × n in memory at the same time: a round compiles to 14.7


class Run:
    """One training: the iterate that would be returned, the trace, and why it ended (CAP while it continues).

    With `size` the data are padded to this number of rows, for a program that the caller compiles.  Without it, rounds
    are computed by the host engine where the prior has one, and else in a compiled program.
    """

    def __init__(
        self, learner: VEM, model: Model, data: Data, size: int | None = None, callback: Callback | None = None
    ) -> None:
        if model.prior.dense:
            memory.require_full(size or bucket(data.rows), model.likelihood.latents, _MATRICES)
        self.learner, self.given, self.callback = learner, data, callback
        host = size is None and on_host(model, data) and pulls_on_host(model, learner.trainable(model).names)
        self.model, self.data = to_host((model, data)) if host else (model, data.to_bucket(size))
        self.state = learner.init(self.model, self.data)
        self.trace: list[dict[str, Any]] = []
        self.reason, self.best = CAP, -np.inf

    @property
    def running(self) -> bool:
        return self.reason == CAP and len(self.trace) < self.learner.max_rounds

    def step(self) -> None:
        """Compute a round, and keep its state unless it ends the run."""
        compute = one_round if is_host(self.data.X) else _compiled_round
        new, *found = compute(self.learner.of_a_round(), self.model, self.data, self.state)
        if self.keeps(*found):
            self.state = new

    def keeps(self, info: Info, named: dict[str, Array], settled: Array) -> bool:
        """Record a round; return whether the state after it replaces the previous one."""
        numbers = {k: float(v) for k, v in info._asdict().items()}
        learning = numbers["learning"]
        # It is not known which share of the rounds is done: the search ends long before max_rounds.
        entry = {**{k: np.asarray(v) for k, v in named.items()}, **numbers, "objective": learning, "share": 0.0}
        self.trace.append(entry)
        if self.callback is not None:
            self.callback(entry)
        if not np.isfinite(learning):
            self.reason = NOT_FINITE
        elif self.learner.stop_on_fall and learning < self.best:
            self.reason = FELL
        elif settled:
            self.reason = SETTLED
        self.best = learning
        return self.reason == CAP or (len(self.trace) == 1 and self.reason != NOT_FINITE)


Round = tuple[State, Info, dict[str, Array], Array]  # the new state, evidences, θ by name, whether it settled


def one_round(learner: VEM, model: Model, data: Data, state: State) -> Round:
    """Compute a round of Algorithm 1 and what `Run.keeps` needs to know of it."""
    new, info = learner.step(model, data, state)
    return new, info, learner.trainable(model).constrained(new.vector), learner.settled(new, state)


_compiled_round = programs.jit(one_round, static_argnums=0)


def _evaluate(method: Inference, model: Model, data: Data, sites: Sites) -> Point:
    method = method.stepping(model.likelihood)
    return evaluate(method, model.likelihood, model.prior.gram(data.X), data, sites)


_compiled_evaluate = programs.jit(_evaluate, static_argnums=0)
