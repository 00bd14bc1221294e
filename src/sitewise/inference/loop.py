"""The loop that solves λ = T(λ).

Each step conditions the prior on a candidate and accepts it if the method's merit did not fall (or, for a
method without one, if the residual fell).  The direction is Newton's for the fixed-point equation,

    (I − J) δ = T(λ) − λ,   J = ∂T/∂λ                      (see `linearise`)

solved by GMRES with O(n²) products.  Where that fails it is the plain update T(λ) − λ, shortened until the
candidate is accepted (for VI a natural-gradient ascent direction of the ELBO).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.data import Data
from sitewise.inference.linearise import newton_direction, scaled_gap, slopes
from sitewise.inference.start import first_sites
from sitewise.inference.update import Point, SiteUpdate, Solution, Stats
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.priors import Gram
from sitewise.priors.base import Factor
from sitewise.sites import Sites
from sitewise.types import Outcome

_SHRINK = 0.4  # of the step after a candidate that was not accepted
_MIN_RATE = 1e-4  # of the step; a shorter one counts as stalled
_MIN_KEPT = 0.05  # a step keeps at least this share of each site precision
_CONTRACTS = 0.3  # a plain update that shrinks the residual to this share is good enough
_NEAR = 1.0  # residual of a start, in units of the marginal, below which the first step may be Newton's
_ROUNDING = 1e-3  # the largest rounding error of a converged point, see `Gram.rounding_error`
_WINDOW = 6  # a method without a merit must bring the residual below the largest of this many last ones


def evaluate(method: SiteUpdate, likelihood: Likelihood, gram: Gram, data: Data, sites: Sites) -> Point:
    return _evaluate(method, likelihood, gram, data, sites)[0]


def _evaluate(method: SiteUpdate, likelihood: Likelihood, gram: Gram, data: Data, sites: Sites) -> tuple[Point, Factor]:
    """The point, and the factor that derivatives of q need."""
    weighted = sites.scaled(data.weight)
    if method.mean_only:
        q, factor = gram.condition_mean(weighted), None
    else:
        q, factor = gram.condition_with_factor(weighted, data.mask)
    # What follows is elementwise; without the barrier XLA would compute parts of q again in each of these expressions.
    q = lax.optimization_barrier(q)
    if method.has_merit:
        target, merit = method.propose_with_merit(likelihood, data, q, sites)
    else:
        target, merit = method.propose(likelihood, data, q, sites), None
    # Rows of padding have no sites: a precision there, with a variance that has no meaning, would have no cavity.
    target = target.masked(data.mask)
    gap = scaled_gap(target, sites, q.var, data)
    # About the marginal's mean, the change of nat1 is Δnat1 − m·Δprec.  Where a site is a million times as precise as
    # the prior (large counts), nat1 about zero is so large that its rounding hides whether the sites have settled.
    gap = Sites(gap.nat1 - q.mean / jnp.sqrt(q.var) * gap.prec, gap.prec)
    residual = jnp.maximum(jnp.max(jnp.abs(gap.nat1)), jnp.max(jnp.abs(gap.prec)))
    if merit is None:
        merit = -jnp.sqrt(jnp.sum(gap.nat1**2) + jnp.sum(gap.prec**2))
    rounding = jnp.zeros_like(residual) if factor is None else gram.rounding_error(weighted, q, factor)
    return Point(sites, q, target, merit, residual, rounding), factor


class _State(NamedTuple):
    step: jax.Array
    point: Point
    direction: Sites
    rate: jax.Array
    newton: jax.Array
    recent: jax.Array


def _plain_direction(point: Point) -> Sites:
    return Sites(point.target.nat1 - point.sites.nat1, point.target.prec - point.sites.prec)


def _improves(new: Point, old: Point, reference: jax.Array) -> jax.Array:
    """Whether the merit is not below the reference; or, where it differs by rounding only, the residual is halved."""
    eps = jnp.finfo(new.merit.dtype).eps
    drop = (reference - new.merit) / (1 + jnp.abs(reference))
    halved = new.residual < 0.5 * old.residual
    fine = jnp.isfinite(new.merit) & jnp.isfinite(new.residual)
    return fine & ((drop <= 1e4 * eps) | (halved & (drop <= 1e8 * eps)) | ~jnp.isfinite(reference))


def _pick(flag: jax.Array, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(flag, x, y), a, b)


def iterate(
    method: SiteUpdate, likelihood: Likelihood, gram: Gram, data: Data, sites: Sites
) -> tuple[Point, Solution, Factor]:
    """Run the loop on a prepared gram.  It is compiled as part of its caller.

    The factor of the last point, which derivatives need, is computed once more: in the loop's state it would be copied
    at every step.  It is not computed for a caller that does not use it.
    """
    tol = method.tolerance(sites.nat1.dtype)
    sites = sites.masked(data.mask)
    # A method without a merit is judged by its residual, which may rise at some steps.
    window = 1 if method.has_merit else _WINDOW
    damped = method.damping < 1

    def unfinished(s: _State) -> jax.Array:
        return (s.step < method.max_steps) & (s.point.residual > tol) & (s.rate > _MIN_RATE)

    def body(s: _State) -> _State:
        old = s.point
        moved = Sites(
            old.sites.nat1 + s.rate * s.direction.nat1,
            jnp.where(
                data.mask,
                jnp.maximum(
                    old.sites.prec + s.rate * s.direction.prec,
                    jnp.maximum(_MIN_KEPT * old.sites.prec, method.min_prec),
                ),
                0.0,
            ),
        )
        new, factor = _evaluate(method, likelihood, gram, data, moved)
        # With a precision at its limit the fixed point does not maximise the merit; it only makes the residual zero.
        held = jnp.any(data.mask & (new.target.prec <= method.min_prec))
        if damped:
            better = jnp.isfinite(new.residual)
        else:
            better = _improves(new, old, jnp.min(s.recent)) | (held & (new.residual < 0.9 * old.residual))
        point = _pick(better, new, old)
        recent = jnp.where(better, jnp.roll(s.recent, 1).at[0].set(new.merit), s.recent)
        if not method.mean_only and not damped:
            # Where products with Σ∘Σ are expensive, a plain update that converges fast is not worth improving.
            slow = gram.newton_is_cheap | (new.residual > _CONTRACTS * old.residual)
            # Here they share the quadrature of `new` and cost almost nothing; inside the branch they would not.
            by = slopes(method, likelihood, data, new) if gram.newton_is_cheap else None
            direction, newton = lax.cond(
                better & slow & (new.residual > tol) & ((s.step > 0) | (new.residual < _NEAR)),
                lambda: (
                    newton_direction(method, gram, data, new, factor, by or slopes(method, likelihood, data, new)),
                    jnp.array(True),
                ),
                lambda: (_plain_direction(point), jnp.array(False)),
            )
        else:
            direction, newton = _plain_direction(point), jnp.array(False)
        full = method.damping if damped else 1.0
        rate = jnp.where(better | s.newton, full, _SHRINK * s.rate)
        return _State(s.step + 1, point, direction, rate, newton, recent)

    # The first step of the loop evaluates the starting sites: it is a step of length zero from a point that any other
    # point improves.  (The program then holds one evaluation instead of two, which halves the time to compile it.)
    nowhere = jax.tree.map(
        lambda a: jnp.zeros(a.shape, a.dtype),
        jax.eval_shape(lambda s: evaluate(method, likelihood, gram, data, s), sites),
    )
    worst = jnp.asarray(-jnp.inf, sites.nat1.dtype)
    start = _State(
        jnp.asarray(0),
        nowhere._replace(sites=sites, merit=worst, residual=-worst),
        Sites(jnp.zeros_like(sites.nat1), jnp.zeros_like(sites.prec)),
        jnp.ones((), sites.nat1.dtype),
        jnp.array(False),
        jnp.full(window, worst),
    )
    end = lax.while_loop(unfinished, body, start)
    point = end.point
    weighted = point.sites.scaled(data.weight)
    q, factor = gram.condition_with_factor(weighted, data.mask)
    if method.mean_only:
        point = point._replace(q=q, rounding=gram.rounding_error(weighted, q, factor))
    code = jnp.where(
        point.residual <= tol,
        jnp.where(point.rounding <= _ROUNDING, Outcome.CONVERGED, Outcome.IMPRECISE),
        jnp.where(
            jnp.isfinite(point.residual),
            jnp.where(end.rate <= _MIN_RATE, Outcome.STALLED, Outcome.STEP_CAP),
            Outcome.NON_FINITE,
        ),
    )
    clipped = jnp.sum(data.mask & (point.target.prec <= method.min_prec))
    return point, Solution(point.sites, code, Stats(end.step, point.residual, clipped, point.q.jitter)), factor


@functools.partial(jax.jit, static_argnums=0)
def _solve(method: SiteUpdate, model: Model, data: Data, sites: Sites) -> Solution:
    return iterate(method, model.likelihood, model.prior.gram(data.X), data, sites)[1]


def solve(method: SiteUpdate, model: Model, data: Data, sites: Sites | None = None) -> Solution:
    """From `sites`, from the likelihood's own start, then by the method's fallbacks: the first that converges."""
    data = jax.tree.map(jnp.asarray, data)
    first = first_sites(model.likelihood, data)
    solution = _solve(method, model, data, first if sites is None else sites)
    if isinstance(solution.code, jax.core.Tracer) or solution.outcome.settled:
        return solution
    if sites is not None:
        # The given sites may be a bad start; the likelihood's own start is never far from the solution.
        again = _solve(method, model, data, first)
        if again.outcome.settled:
            return again
    return solve_by_fallbacks(method, model, data, solution)


def solve_by_fallbacks(method: SiteUpdate, model: Model, data: Data, failed: Solution) -> Solution:
    """The solution of the first fallback that converges, or `failed`; the outcome says whose sites they are."""
    first = first_sites(model.likelihood, data)
    for other in method.fallbacks():
        found = _solve(other, model, data, first)
        if found.outcome.settled:
            if other == dataclasses.replace(method, damping=other.damping, max_steps=other.max_steps):
                return found  # damped steps to the same fixed point
            again = _solve(method, model, data, found.sites)
            return again if again.outcome.settled else found._replace(code=jnp.asarray(Outcome.FRACTIONAL))
    return failed
