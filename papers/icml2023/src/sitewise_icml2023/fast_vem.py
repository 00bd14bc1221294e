"""Algorithm 1 (`sitewise.VEM`) with two to four factorisations per round; a round as written needs forty.

A round is 20 natural steps of the sites λ at one θ, then 20 Adam steps of θ at these sites.  Both are walks of small
steps.  Along a walk, q and the slope are smooth; they are extrapolated from their exact values at its start:

    E  q at the sites λ + δ, from q at λ and its covariance Σ:   mean(λ+δ) = mean + Σ (δ₁ − δ₂ ∘ mean(λ+δ)) + s² r
                                                                 var(λ+δ)  = var − (Σ∘Σ) δ₂ + s² r
    M  the slope of the objective at θ + d, from its value g at θ:            g + H d + s² r

H is updated from walk to walk by Broyden's rule, and s is the completed share of the walk.  The correction r is zero
at first; then it is set so that the extrapolated value equals the exact value at the end of the walk, and the walk is
repeated.  If its end moves by more than `MAX_END_SHIFT`, the walk is divided into shorter pieces, down to single steps,
which are the steps of `VEM.step`.  The error of a walk is that of its correction, about a tenth of the shift: ℓ
differed by 1e-5 to 1e-4 of itself along whole paths.  The fixed points are the same.

With one lengthscale per feature the pieces of the M-step would be one or two steps long: Adam divides the slope of each
lengthscale by its own size, so that extrapolated slopes are too inaccurate.  Rounds are computed as written there
(`whole_round`).

Parts are trained together, each at its own pace (`vem_batches`): one turn of the loop computes exact values once per
part, at the end of the piece that this part is walking, and decides whether the part has ended.  The prior must be
full, because Σ is needed as a matrix.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from sitewise import evidence as ev
from sitewise.arrays import programs
from sitewise.data import Data
from sitewise.learning.vem import CAP, FELL, NOT_FINITE, SETTLED, VEM, Adam, Info, State
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.priors import Marginals
from sitewise.sites import Sites
from sitewise.types import replace
from sitewise_icml2023 import batch_algebra

# How far r may move the end of a walk, and how far without new exact values there, in learning rates of Adam.  Units:
# unconstrained parameters; for sites, a precision times the variance, and a mean in standard deviations.
MAX_END_SHIFT = 1e-3
NEGLIGIBLE_END_SHIFT = 1e-4
_E, _M, FRESH = range(3)  # phases of a part; a fresh part has no exact values yet
RUNNING, EMPTY = 0, 5  # of `Part.stop`; the numbers between are positions in STOPS
STOPS = (None, SETTLED, FELL, NOT_FINITE, CAP)
T = TypeVar("T")


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
        return self.slope + jnp.sum(self.H * d, axis=1) + _share(d, self.way) ** 2 * self.bend

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
    best      the learning objective there
    rounds    their number
    stop      RUNNING, a position in STOPS, or EMPTY for a place without a part
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
    best: jax.Array
    rounds: jax.Array
    stop: jax.Array


class Report(NamedTuple):
    """The result of one turn: whether a round has ended; if so, its evidences and θ by name."""

    ended: jax.Array
    info: Info
    named: dict[str, jax.Array]


def _share(made: jax.Array, way: jax.Array) -> jax.Array:
    """Return the completed share of the way; 0 if its length is zero."""
    size = jnp.sum(way * way)
    return jnp.where(size > 0, jnp.sum(made * way) / jnp.where(size > 0, size, 1.0), 0.0)


def _where(choice: jax.Array, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(choice, x, y), a, b)


def exact(learner: VEM, model: Model, data: Data, d2: jax.Array | None, vector: jax.Array, sites: Sites) -> Found:
    """Compute the exact values; given the distances at ℓ = 1 by `batch_algebra`."""
    problem = learner.climbs(model)
    at, pull_vector = jax.vjp(lambda v: problem.trainable.from_vector(model, v), vector)
    scaled = sites.scaled(data.weight)
    if d2 is None:
        gram, pull_prior = at.prior.gram_with_pull(data.X)
        q, factors = gram.condition_with_factor(scaled, None)
    else:
        gram, pull_prior = batch_algebra.gram_with_pull(at.prior, data.X, d2)
        q, factors = batch_algebra.condition(gram, scaled)

    def read(likelihood: Likelihood, q: Marginals) -> jax.Array:
        return problem.evidence.read(likelihood, data, q, sites)

    learning, pull = jax.vjp(read, at.likelihood, q)
    by_likelihood, by_q = pull(jnp.ones_like(learning))
    by_prior = pull_prior(gram.pull(scaled, factors, q, by_q))
    (slope,) = pull_vector(replace(at, prior=by_prior, likelihood=by_likelihood))
    both = (e.read(at.likelihood, data, q, sites) for e in (ev.elbo, ev.ep))
    return Found(q, gram.covariance(scaled, factors).matrix, slope, Info(learning, *both))


def _walk_sites(
    learner: VEM, model: Model, data: Data, part: Part, path: Corrected, steps: jax.Array, batched: bool
) -> Walk:
    """Take natural-gradient steps from the sites of the part."""
    problem = learner.climbs(model)
    likelihood = problem.trainable.from_vector(model, part.state.vector).likelihood
    method = problem.inference.stepping(model.likelihood)
    q, cov, first = part.found.q, part.found.cov, part.state.sites
    squares = None if batched else cov * cov

    def times(x: jax.Array) -> jax.Array:
        return jnp.sum(cov * x, axis=1) if batched else cov @ x

    def squares_times(x: jax.Array) -> jax.Array:
        # Written as a sum: an accelerator reads the covariance once for a mean and for the variances.
        return jnp.sum(cov * cov * x, axis=1) if squares is None else squares @ x

    def followed(sites: Sites, mean: jax.Array) -> tuple[jax.Array, jax.Array]:
        nat1, prec = ((new - old) * data.weight for new, old in zip(sites, first, strict=True))
        made = _share(q.var * prec, path.way) ** 2
        for _ in range(2):  # from the mean of the step before
            mean = q.mean + times(nat1 - prec * mean) + made * path.mean
        return mean, q.var - squares_times(prec) + made * path.var

    def step(now: Walk) -> Walk:
        here = q._replace(mean=now.mean, var=now.var)
        target = method.propose(likelihood, data, here, now.sites)
        mixed = [(1 - learner.rate) * a + learner.rate * b for a, b in zip(now.sites, target, strict=True)]
        moved = Sites(*mixed).masked(data.mask)
        return Walk(moved, *followed(moved, now.mean))

    return _walked(step, Walk(first, q.mean, q.var), steps, learner.e_steps, batched)


def _walk_vector(learner: VEM, state: State, bent: Bent, steps: jax.Array, batched: bool) -> tuple[jax.Array, Adam]:
    """Take Adam steps from the vector of the state."""

    def step(now: tuple[jax.Array, Adam]) -> tuple[jax.Array, Adam]:
        vector, adam = now
        adam = adam.after(bent.at(vector))
        return vector + learner.learning_rate * adam.direction(), adam

    return _walked(step, (state.vector, state.adam), steps, learner.m_steps, batched)


def _walked(step: Callable[[T], T], start: T, steps: jax.Array, most: int, batched: bool) -> T:
    """Take `steps` steps.  In a batch all `most` steps are computed: a loop whose end depends on its results is started
    step by step by the host, which takes an accelerator longer than the steps themselves."""
    if not batched:
        return lax.fori_loop(0, steps, lambda _, now: step(now), start)
    return lax.scan(lambda now, i: (_where(i < steps, step(now), now), None), start, jnp.arange(most))[0]


def turn(learner: VEM, model: Model, data: Data, d2: jax.Array | None, part: Part) -> tuple[Part, Report]:
    """Walk a piece, compute the exact values at its end, correct the walk, and accept it if its end moved little."""
    state, found, phase, waiting = part.state, part.found, part.phase, part.waiting
    nothing, still = jnp.zeros_like(state.sites.prec), jnp.zeros_like(state.vector)
    caps = jnp.array([learner.e_steps, learner.m_steps, 0])
    steps = jnp.minimum(jnp.append(part.piece, 0)[phase], part.left)
    e_steps, m_steps = (jnp.where((phase == which) & ~waiting, steps, 0) for which in (_E, _M))

    batched = d2 is not None
    walk = _walk_sites(learner, model, data, part, Corrected(nothing, nothing, nothing), e_steps, batched)
    bent = Bent(state.vector, found.slope, part.H, still, still)
    vector, _ = _walk_vector(learner, state, bent, m_steps, batched)
    sites, vector = _where(waiting, (part.end.sites, part.end.vector), (walk.sites, vector))
    new = exact(learner, model, data, d2, vector, sites)

    way = found.q.var * (sites.prec - state.sites.prec) * data.weight
    path = Corrected(way, new.q.mean - walk.mean, new.q.var - walk.var)
    again = _walk_sites(learner, model, data, part, path, e_steps, batched)
    off = jnp.abs(again.mean - walk.mean) / jnp.sqrt(new.q.var), jnp.abs(again.sites.prec - sites.prec) * new.q.var
    bent = bent.corrected(vector, new.slope)
    moved, adam = _walk_vector(learner, state, bent, m_steps, batched)

    by_sites = jnp.max(jnp.where(data.mask, jnp.maximum(*off), 0.0))
    shift = jnp.where(phase == _E, by_sites, jnp.max(jnp.abs(moved - vector), initial=0.0))
    shift = jnp.where(waiting, part.turn, jnp.where(phase == FRESH, 0.0, shift))
    end = _where(waiting, part.end, State(again.sites, moved, adam))
    most, negligible = (limit * learner.learning_rate for limit in (MAX_END_SHIFT, NEGLIGIBLE_END_SHIFT))
    too_far = ~waiting & ~(shift <= most) & (steps > 1)  # also if the walk led to NaN
    waits = ~waiting & ~too_far & (shift > negligible) & (steps > 1)
    goes_on = ~too_far & ~waits

    left = jnp.where(goes_on, part.left - steps, part.left)
    over = goes_on & (left == 0)
    ended = over & (phase == _M)
    longer = goes_on & (shift < most / 8) & (steps == jnp.append(part.piece, 0)[phase])
    length = jnp.where(too_far, steps // 2, jnp.where(longer, jnp.minimum(2 * steps, caps[phase]), 0))
    piece = jnp.where((jnp.arange(2) == phase) & (length > 0), length, part.piece)
    next_phase = jnp.where(phase == _E, _M, _E)
    after = _where(goes_on, end, state)
    H, rounds, learning = bent.learned(), part.rounds + ended, new.info.learning
    stop = jnp.where(ended, _stop(learner, learning, part.best, learner.settled(after, part.before), rounds), RUNNING)
    unwanted = _unwanted(stop, rounds)
    named = learner.climbs(model).trainable.constrained(after.vector)
    following = Part(
        state=_where(unwanted, part.before, after),
        found=_where(goes_on, new, found),
        H=jnp.where((phase == _M) & jnp.all(jnp.isfinite(H)), H, part.H),
        phase=jnp.where(over, next_phase, phase),
        left=jnp.where(over, caps[next_phase], left),
        piece=piece,
        waiting=waits,
        end=end,
        turn=shift,
        before=_where(ended, after, part.before),
        best=jnp.where(ended, learning, part.best),
        rounds=rounds,
        stop=stop,
    )
    return jax.tree.map(lambda a, b: a.astype(b.dtype), following, part), Report(ended, new.info, named)


def whole_round(learner: VEM, model: Model, data: Data, d2: jax.Array, part: Part) -> tuple[Part, Report]:
    """Compute a round as written (`VEM.step`) by the algebra of a batch, with an exact q for every step."""
    state, problem = part.state, learner.climbs(model)
    method = problem.inference.stepping(model.likelihood)
    at = problem.trainable.from_vector(model, state.vector)
    gram = batch_algebra.gram_with_pull(at.prior, data.X, d2)[0]

    def natural_step(sites: Sites, _: None) -> tuple[Sites, None]:
        q = batch_algebra.condition(gram, sites.scaled(data.weight))[0]
        target = method.propose(at.likelihood, data, q, sites)
        mixed = [(1 - learner.rate) * a + learner.rate * b for a, b in zip(sites, target, strict=True)]
        return Sites(*mixed).masked(data.mask), None

    sites, _ = lax.scan(natural_step, state.sites, None, length=learner.e_steps)

    def adam_step(now: tuple[jax.Array, Adam], _: None) -> tuple[tuple[jax.Array, Adam], None]:
        vector, adam = now
        adam = adam.after(exact(learner, model, data, d2, vector, sites).slope)
        return (vector + learner.learning_rate * adam.direction(), adam), None

    (vector, adam), _ = lax.scan(adam_step, (state.vector, state.adam), None, length=learner.m_steps)
    info = exact(learner, model, data, d2, vector, sites).info
    after, rounds = State(sites, vector, adam), part.rounds + 1
    stop = _stop(learner, info.learning, part.best, learner.settled(after, part.before), rounds)
    kept = _where(_unwanted(stop, rounds), part.before, after)
    following = part._replace(state=kept, before=after, best=info.learning, rounds=rounds, stop=stop)
    named = problem.trainable.constrained(vector)
    return jax.tree.map(lambda a, b: a.astype(b.dtype), following, part), Report(jnp.asarray(True), info, named)


def _unwanted(stop: jax.Array, rounds: jax.Array) -> jax.Array:
    """Return whether the state before the last round is kept, as `sitewise.learning.vem.Run.keeps` decides."""
    return (stop != RUNNING) & (stop != STOPS.index(CAP)) & ((rounds > 1) | (stop == STOPS.index(NOT_FINITE)))


def _stop(learner: VEM, learning: jax.Array, best: jax.Array, settled: jax.Array, rounds: jax.Array) -> jax.Array:
    """Return whether and why a part ends after a round, as `sitewise.learning.vem.Run.keeps` decides."""
    fell = learner.stop_on_fall & (learning < best)
    reasons = {NOT_FINITE: ~jnp.isfinite(learning), FELL: fell, SETTLED: settled, CAP: rounds >= learner.max_rounds}
    return jnp.select(list(reasons.values()), [STOPS.index(why) for why in reasons], RUNNING)


@functools.partial(programs.jit, static_argnums=(0, 1, 2, 3))
def turns(
    learner: VEM, number: int, whole: bool, batched: bool, models: Model, data: Data, parts: Part
) -> tuple[Part, Report]:
    """Compute this number of turns, or on an accelerator of whole rounds, of the parts that are running, in one
    program: in a batch on an accelerator, else one part after the other (see `many_fits`).  The results are stacked."""
    assert batched or not whole  # on a CPU `vem_batches.OneByOne` trains these parts
    compute = whole_round if whole else turn

    def one(model: Model, data: Data, d2: Any, part: Part) -> tuple[Part, Report]:
        def go() -> tuple[Part, Report]:
            return compute(learner, model, data, d2, part)

        def wait() -> tuple[Part, Report]:
            return part, jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(go)[1])

        return lax.cond(part.stop == RUNNING, go, wait)

    d2 = jax.vmap(batch_algebra.unit_distances)(data.X) if batched else None

    def every(parts: Part, _: None) -> tuple[Part, Report]:
        if batched:
            return jax.vmap(one)(models, data, d2, parts)
        return lax.map(lambda each: one(each[0], each[1], None, each[2]), (models, data, parts))

    return lax.scan(every, parts, None, length=number)
