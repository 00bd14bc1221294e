"""Algorithm 1 (`sitewise.VEM`) with two to four factorisations per round; a round as written needs forty.

A round is 20 natural steps of the sites λ at one θ, then 20 Adam steps of θ at these sites.  Both are walks of small
steps.  Along a walk, q and the slope are smooth; they are extrapolated from their exact values at its start:

    E  q at the sites λ + δ, from q at λ and its covariance Σ:   mean(λ+δ) = mean + Σ (δ₁ − δ₂ ∘ mean(λ+δ)) + s² r
                                                                 var(λ+δ)  = var − (Σ∘Σ) δ₂ + s² r
    M  the slope of the objective at θ + d, from its value g at θ:            g + H d + s² r

H is updated from walk to walk by Broyden's rule, and s is the completed share of the walk.  The correction r is zero
at first; then it is set so that the extrapolated value equals the exact value at the end of the walk, and the walk is
repeated.  If its end moves by more than `MAX_END_SHIFT`, the walk is divided into shorter pieces, down to single steps,
which are the steps of `VEM.step`.  Each walk therefore ends within about 2e-6 of the walk of `VEM` (ℓ differed by up to
3e-5 along the whole paths that were compared), and the fixed points are the same.

Parts are trained together, each at its own pace: one turn of the loop computes exact values once per part, at the end
of the piece that this part is walking.  A part that has ended makes room for the next part.  The prior must be full,
because Σ is needed as a matrix.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise import evidence as ev
from sitewise.arrays import programs
from sitewise.data import Data, bucket
from sitewise.learning.fit import Fit
from sitewise.learning.vem import VEM, Info, Run, State
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.priors import FullPrior, Marginals
from sitewise.process.device import on_accelerator
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.types import replace
from sitewise_icml2023.many_fits import one_model_per_part, stack

# How far r may move the end of a walk, and how far without new exact values there.  Units: unconstrained parameters;
# for sites, a precision times the variance, and a mean in standard deviations.
MAX_END_SHIFT = 2e-6
NEGLIGIBLE_END_SHIFT = 2e-7
_E, _M, _FRESH = range(3)  # phases of a part; a fresh part has no exact values yet
PARTS_AT_ONCE = 64


class Found(NamedTuple):
    """Exact values at (λ, θ): q with its covariance, the slope of the objective in θ, and the evidences."""

    q: Marginals
    cov: jax.Array
    slope: jax.Array
    info: Info


class Corrected(NamedTuple):
    """The way of the sites along a walk, as precisions times variances, and the corrections r of mean and variance."""

    way: jax.Array
    mean: jax.Array
    var: jax.Array


class Walk(NamedTuple):
    """The end of a walk of the sites, and the extrapolated q there."""

    sites: Sites
    mean: jax.Array
    var: jax.Array


class Bent(NamedTuple):
    """The slope extrapolated from `start`: slope + H d + s² bend, where s is the share of `way` that d covers."""

    start: jax.Array
    slope: jax.Array
    H: jax.Array
    way: jax.Array
    bend: jax.Array

    def at(self, vector: jax.Array) -> jax.Array:
        d = vector - self.start
        return self.slope + self.H @ d + _share(d, self.way) ** 2 * self.bend

    def corrected(self, vector: jax.Array, slope: jax.Array) -> Bent:
        """Return a copy whose bend reproduces the exact slope at this vector."""
        way = vector - self.start
        return self._replace(way=way, bend=slope - self.slope - self.H @ way)

    def learned(self) -> jax.Array:
        """Return H updated by Broyden's rule: H + r dᵀ/(dᵀd)."""
        size = self.way @ self.way
        return self.H + jnp.where(size > 1e-20, 1.0, 0.0) * jnp.outer(self.bend, self.way) / jnp.maximum(size, 1e-20)


class Part(NamedTuple):
    """The training of one part: `state`, exact values there, and the piece that is walked from there.

    waiting   whether exact values at `end`, the end of the corrected walk, are still to be computed
    turn      the distance between the ends of the corrected and of the first walk
    left      steps until the phase ends
    piece     steps of a walk in either phase
    before    the state after the previous round
    """

    state: State
    found: Found
    H: jax.Array
    phase: jax.Array
    left: jax.Array
    piece: jax.Array
    waiting: jax.Array
    end: State
    turn: jax.Array
    before: State


class Report(NamedTuple):
    """The result of one turn: whether a round has ended; if so, its evidences, θ by name, whether the variables have
    settled, and the state before the round."""

    ended: jax.Array
    info: Info
    named: dict[str, jax.Array]
    settled: jax.Array
    before: State


def _share(made: jax.Array, way: jax.Array) -> jax.Array:
    """Return the completed share of the way; 0 if its length is zero."""
    size = way @ way
    return jnp.where(size > 0, made @ way / jnp.where(size > 0, size, 1.0), 0.0)


def _where(choice: jax.Array, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(choice, x, y), a, b)


def _exact(learner: VEM, model: Model, data: Data, vector: jax.Array, sites: Sites) -> Found:
    problem = learner.climbs(model)
    at, pull_vector = jax.vjp(lambda v: problem.trainable.from_vector(model, v), vector)
    gram, pull_prior = at.prior.gram_with_pull(data.X)
    scaled = sites.scaled(data.weight)
    q, factors = gram.condition_with_factor(scaled, None)

    def read(likelihood: Likelihood, q: Marginals) -> jax.Array:
        return problem.evidence.read(likelihood, data, q, sites)

    learning, pull = jax.vjp(read, at.likelihood, q)
    by_likelihood, by_q = pull(jnp.ones_like(learning))
    by_prior = pull_prior(gram.pull(scaled, factors, q, by_q))
    (slope,) = pull_vector(replace(at, prior=by_prior, likelihood=by_likelihood))
    both = (e.read(at.likelihood, data, q, sites) for e in (ev.elbo, ev.ep))
    return Found(q, gram.covariance(scaled, factors).matrix, slope, Info(learning, *both))


def _walk_sites(learner: VEM, model: Model, data: Data, part: Part, path: Corrected, steps: jax.Array) -> Walk:
    """Take natural-gradient steps from the sites of the part."""
    problem = learner.climbs(model)
    likelihood = problem.trainable.from_vector(model, part.state.vector).likelihood
    method = problem.inference.stepping(model.likelihood)
    q, cov, first = part.found.q, part.found.cov, part.state.sites
    squares = cov * cov

    def followed(sites: Sites, mean: jax.Array) -> tuple[jax.Array, jax.Array]:
        nat1, prec = ((new - old) * data.weight for new, old in zip(sites, first, strict=True))
        made = _share(q.var * prec, path.way) ** 2
        for _ in range(2):  # from the mean of the step before
            mean = q.mean + cov @ (nat1 - prec * mean) + made * path.mean
        return mean, q.var - squares @ prec + made * path.var

    def step(_: int, now: Walk) -> Walk:
        here = q._replace(mean=now.mean, var=now.var)
        target = method.propose(likelihood, data, here, now.sites)
        mixed = [(1 - learner.rate) * a + learner.rate * b for a, b in zip(now.sites, target, strict=True)]
        moved = Sites(*mixed).masked(data.mask)
        return Walk(moved, *followed(moved, now.mean))

    return lax.fori_loop(0, steps, step, Walk(first, q.mean, q.var))


def _walk_vector(learner: VEM, state: State, bent: Bent, steps: jax.Array) -> tuple[jax.Array, Any]:
    """Take Adam steps from the vector of the state."""
    adam = learner.adam()

    def step(_: int, now: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        vector, optimiser = now
        change, optimiser = adam.update(-bent.at(vector), optimiser)
        return vector + change, optimiser

    return lax.fori_loop(0, steps, step, (state.vector, state.optimiser))


def _turn(learner: VEM, model: Model, data: Data, part: Part) -> tuple[Part, Report]:
    """Walk a piece, compute the exact values at its end, correct the walk, and accept it if its end moved little."""
    state, found, phase, waiting = part.state, part.found, part.phase, part.waiting
    nothing, still = jnp.zeros_like(state.sites.prec), jnp.zeros_like(state.vector)
    caps = jnp.array([learner.e_steps, learner.m_steps, 0])
    steps = jnp.minimum(jnp.append(part.piece, 0)[phase], part.left)
    e_steps, m_steps = (jnp.where((phase == which) & ~waiting, steps, 0) for which in (_E, _M))

    walk = _walk_sites(learner, model, data, part, Corrected(nothing, nothing, nothing), e_steps)
    bent = Bent(state.vector, found.slope, part.H, still, still)
    vector, _ = _walk_vector(learner, state, bent, m_steps)
    sites, vector = _where(waiting, (part.end.sites, part.end.vector), (walk.sites, vector))
    new = _exact(learner, model, data, vector, sites)

    way = found.q.var * (sites.prec - state.sites.prec) * data.weight
    path = Corrected(way, new.q.mean - walk.mean, new.q.var - walk.var)
    again = _walk_sites(learner, model, data, part, path, e_steps)
    off = jnp.abs(again.mean - walk.mean) / jnp.sqrt(new.q.var), jnp.abs(again.sites.prec - sites.prec) * new.q.var
    bent = bent.corrected(vector, new.slope)
    moved, optimiser = _walk_vector(learner, state, bent, m_steps)

    by_sites = jnp.max(jnp.where(data.mask, jnp.maximum(*off), 0.0))
    turn = jnp.where(phase == _E, by_sites, jnp.max(jnp.abs(moved - vector), initial=0.0))
    turn = jnp.where(waiting, part.turn, jnp.where(phase == _FRESH, 0.0, turn))
    end = _where(waiting, part.end, State(again.sites, moved, optimiser))
    too_far = ~waiting & ~(turn <= MAX_END_SHIFT) & (steps > 1)  # also if the walk led to NaN
    waits = ~waiting & ~too_far & (turn > NEGLIGIBLE_END_SHIFT) & (steps > 1)
    goes_on = ~too_far & ~waits

    left = jnp.where(goes_on, part.left - steps, part.left)
    over = goes_on & (left == 0)
    ended = over & (phase == _M)
    longer = goes_on & (turn < MAX_END_SHIFT / 8) & (steps == jnp.append(part.piece, 0)[phase])
    length = jnp.where(too_far, steps // 2, jnp.where(longer, jnp.minimum(2 * steps, caps[phase]), 0))
    piece = jnp.where((jnp.arange(2) == phase) & (length > 0), length, part.piece)
    next_phase = jnp.where(phase == _E, _M, _E)
    after = _where(goes_on, end, state)
    problem, H = learner.climbs(model), bent.learned()
    report = Report(
        ended, new.info, problem.trainable.constrained(after.vector), learner.settled(after, part.before), part.before
    )
    return Part(
        state=after,
        found=_where(goes_on, new, found),
        H=jnp.where((phase == _M) & jnp.all(jnp.isfinite(H)), H, part.H),
        phase=jnp.where(over, next_phase, phase),
        left=jnp.where(over, caps[next_phase], left),
        piece=piece,
        waiting=waits,
        end=end,
        turn=turn,
        before=_where(ended, after, part.before),
    ), report


@functools.partial(programs.jit, static_argnums=0)
def _turns(learner: VEM, models: Model, data: Data, parts: Part, running: jax.Array) -> tuple[Part, Report]:
    """Compute a turn of the parts that are running: in one batch on an accelerator, else one after the other (see
    `many_fits`)."""

    def one(model: Model, data: Data, part: Part, running: jax.Array) -> tuple[Part, Report]:
        def turn() -> tuple[Part, Report]:
            return _turn(learner, model, data, part)

        def wait() -> tuple[Part, Report]:
            return part, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(turn)[1])

        return lax.cond(running, turn, wait)

    if on_accelerator():
        return jax.vmap(one)(models, data, parts, running)
    return lax.map(lambda each: one(*each), (models, data, parts, running))


def _fresh(learner: VEM, run: Run) -> Part:
    """Return a part at its start, without exact values."""
    state = run.state
    shapes = jax.eval_shape(functools.partial(_exact, learner), run.model, run.data, state.vector, state.sites)
    size = len(state.vector)
    return Part(
        state=state,
        found=jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes),
        H=jnp.zeros((size, size)),
        phase=jnp.asarray(_FRESH),
        left=jnp.asarray(0),
        piece=jnp.ones(2, int),
        waiting=jnp.asarray(False),
        end=state,
        turn=jnp.asarray(0.0),
        before=state,
    )


@programs.jit
def _put(tree: Any, index: jax.Array, one: Any) -> Any:
    return jax.tree.map(lambda all_, new: all_.at[index].set(new), tree, one)


def _fits(learner: VEM, each: list[Model], parts: Sequence[Data], at_once: int) -> Iterator[tuple[int, Fit]]:
    """Yield the number and the fit of each part as it ends; `at_once` parts are trained at a time."""
    size = bucket(max((part.rows for part in parts), default=1))
    runs = [Run(learner, model, part, size, None) for model, part in zip(each, parts, strict=True)]
    waiting = iter(range(min(at_once, len(runs)), len(runs)))
    places: list[int | None] = list(range(min(at_once, len(runs))))  # the run of each place in the program
    first = [(runs[i].model, runs[i].data, _fresh(learner, runs[i])) for i in places if i is not None]
    models_, data, state = (stack(column) for column in zip(*first, strict=True)) if first else (None, None, None)
    while any(place is not None for place in places):
        running = np.array([place is not None for place in places])
        state, report = _turns(learner, models_, data, state, running)
        told = jax.tree.map(np.asarray, report[:4])
        for place in np.flatnonzero(told[0]):
            number = places[place]
            assert number is not None  # a place that waits reports nothing
            run = runs[number]
            keeps = run.keeps(*jax.tree.map(lambda a: a[place], told[1:]))  # noqa: B023
            if run.running:
                continue
            run.state = jax.tree.map(lambda a: np.asarray(a[place]), state.state if keeps else report.before)  # noqa: B023
            yield number, learner.finish(run)
            places[place] = following = next(waiting, None)
            if following is not None:
                run = runs[following]
                new = run.model, run.data, _fresh(learner, run)
                models_, data, state = _put((models_, data, state), place, new)


def fit_many(
    learner: VEM, models: Model | Sequence[Model], parts: Sequence[Data], at_once: int = PARTS_AT_ONCE
) -> list[Fit]:
    """Train as `many_fits.fit_many`, with fewer factorisations; `at_once` parts are trained at a time."""
    each = one_model_per_part(models, parts)
    for model in each:
        if not (isinstance(model.prior, FullPrior) and model.likelihood.latents == 1):
            raise ValueError(
                "The fast variant of Algorithm 1 needs a full GP with one latent function; use many_fits.fit_many."
            )
    with working_precision():
        found = dict(_fits(learner, each, parts, at_once))
    return [found[i] for i in range(len(parts))]
