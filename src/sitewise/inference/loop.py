"""The loop that solves λ = T(λ).

Each step conditions the prior on a candidate and accepts it if the method's merit did not fall (or, for a
method without one, if the residual fell).  The direction is Newton's for the fixed-point equation,

    (I − J) δ = T(λ) − λ,   J = ∂T/∂λ                      (see `linearise`)

solved by GMRES with O(n²) products.  Where that fails it is the plain update T(λ) − λ, shortened until the
candidate is accepted (for VI a natural-gradient ascent direction of the ELBO).  On NumPy arrays, where products with
the covariance are expensive, the plain updates are combined first (`accelerate`); Newton's directions follow where
that does not help.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array, barrier, cond, is_host, namespace, put, while_loop
from sitewise.data import Data
from sitewise.inference import accelerate
from sitewise.inference.accelerate import Seen
from sitewise.inference.linearise import Slopes, listed, newton_direction, paired, scaled_gap, slopes
from sitewise.inference.update import Point, SiteUpdate, Solution, Stats
from sitewise.likelihoods import Likelihood
from sitewise.priors import Gram, Marginals
from sitewise.priors.base import Factor
from sitewise.rows import Values, on_rows
from sitewise.sites import Sites
from sitewise.types import Outcome

_SHRINK = 0.4  # factor of the step length after a candidate that was not accepted
_MIN_RATE = 1e-4  # of the step; a shorter one counts as stalled
_MIN_KEPT = 0.05  # a step keeps at least this share of a site precision, unless the update sets it to its limit
_GOOD_CONTRACTION = 0.3  # a plain update that shrinks the residual to this share is good enough
_ACCELERATED_TOL_SHARE = 0.1  # combined updates leave an error of several residuals, Newton's steps of much less
_MAX_NEWTON_START_RESIDUAL = 1.0  # in units of the marginal: below it the first step may be Newton's
_MAX_ROUNDING_ERROR = 1e-3  # the largest rounding error of a converged point, see `Gram.rounding_error`
_MAX_POLISHING_STEPS = 4  # the largest number of undamped updates after the steps, see `SiteUpdate.stepping`
_RESIDUAL_WINDOW = 6  # a method without a merit must bring the residual below the largest of this many last ones


def evaluate(method: SiteUpdate, likelihood: Likelihood, gram: Gram, data: Data, sites: Sites) -> Point:
    return _evaluate(method, likelihood, gram, data, sites, False)[0]


def _evaluate(
    method: SiteUpdate, likelihood: Likelihood, gram: Gram, data: Data, sites: Sites, with_slopes: bool
) -> tuple[Point, Factor, Slopes | None]:
    """The point, the factor that derivatives of q need, and the slopes of the update."""
    weighted = sites.scaled(data.weight)
    if method.mean_only:
        q, factor = gram.condition_mean(weighted)
    else:
        q, factor = gram.condition_with_factor(weighted, data.mask)
    # What follows is elementwise; without the barrier XLA would compute parts of q again in each of these expressions.
    xp = namespace(q.mean)
    q = q if xp is np else barrier(q)
    closed = functools.partial(method.assess, with_slopes=with_slopes)
    rows, sums = on_rows(_assess, (method.update(), with_slopes), likelihood, data, q, sites, closed=closed)
    target = Sites(*rows[:2])
    unit = method.unit(q)
    gap = scaled_gap(target, sites, unit, data)
    # About the marginal's mean, the change of nat1 is Δnat1 − m·Δprec.  Where a site is a million times as precise as
    # the prior (large counts), nat1 about zero is so large that its rounding hides whether the sites have settled.
    gap = Sites(gap.nat1 - q.mean / xp.sqrt(unit) * gap.prec, gap.prec)
    residual = xp.maximum(xp.max(xp.abs(gap.nat1)), xp.max(xp.abs(gap.prec)))
    merit = sums[0] if sums else -xp.sqrt(xp.sum(gap.nat1**2) + xp.sum(gap.prec**2))
    return Point(sites, q, target, merit, residual), factor, paired(method, rows[2:]) if with_slopes else None


def update_at(method: SiteUpdate, likelihood: Likelihood, data: Data, q: Marginals) -> Sites:
    """The sites that the update sets, given marginals to which the rows have not contributed."""
    none = Sites(*2 * (namespace(q.mean).zeros_like(q.mean),))
    closed = functools.partial(method.assess, with_slopes=False)
    return Sites(*on_rows(_assess, (method.update(), False), likelihood, data, q, none, closed=closed)[0][:2])


def _assess(
    settings: tuple[SiteUpdate, bool], likelihood: Likelihood, data: Data, q: Marginals, sites: Sites
) -> tuple[Values, Values]:
    """T(λ), its slopes if they are asked for, and the merit if the method has one."""
    method, with_slopes = settings
    if method.has_merit:
        target, merit = method.propose_with_merit(likelihood, data, q, sites)
        sums: Values = (merit,)
    else:
        target, sums = method.propose(likelihood, data, q, sites), ()
    # Rows of padding have no sites: a precision there, with a variance that has no meaning, would have no cavity.
    rows = tuple(target.masked(data.mask))
    if with_slopes:
        rows += listed(slopes(method, likelihood, data, q, sites))
    return rows, sums


def _slopes_at(method: SiteUpdate, likelihood: Likelihood, data: Data, point: Point) -> Slopes:
    """The derivatives of T at this point."""
    return paired(method, on_rows(_slopes_alone, method.update(), likelihood, data, point.q, point.sites)[0])


def _slopes_alone(
    method: SiteUpdate, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites
) -> tuple[Values, Values]:
    return listed(slopes(method, likelihood, data, q, sites)), ()


class _State(NamedTuple):
    step: Array
    point: Point
    direction: Sites
    rate: Array
    bold: Array  # whether the direction may be wrong: where it is not accepted, the plain one is tried
    recent: Array
    kept: tuple[Factor, Slopes | None] | None  # of the point; on the host only
    seen: tuple[Seen, ...] | None  # the last points, to `accelerate`; None where that is not done, or did not help


def _plain_direction(point: Point) -> Sites:
    return Sites(point.target.nat1 - point.sites.nat1, point.target.prec - point.sites.prec)


def _improves(new: Point, old: Point, reference: Array) -> Array:
    """Whether the merit is not below the reference; or, where it differs by rounding only, the residual is halved."""
    xp = namespace(new.merit, reference)
    eps = xp.finfo(new.merit.dtype).eps
    drop = (reference - new.merit) / (1 + xp.abs(reference))
    halved = new.residual < 0.5 * old.residual
    fine = xp.isfinite(new.merit) & xp.isfinite(new.residual)
    return fine & ((drop <= 1e4 * eps) | (halved & (drop <= 1e8 * eps)) | ~xp.isfinite(reference))


def _pick(flag: Array, a: Any, b: Any) -> Any:
    if is_host(flag):
        return a if flag else b
    return jax.tree.map(lambda x, y: jnp.where(flag, x, y), a, b)


class Reached(NamedTuple):
    """The end of the loop: its point, with the factor and the slopes there that derivatives need."""

    point: Point
    solution: Solution
    factor: Factor
    slopes: Slopes | None  # None where they were not needed yet


def iterate(
    method: SiteUpdate, likelihood: Likelihood, gram: Gram, data: Data, sites: Sites, mean_suffices: bool = False
) -> Reached:
    """Run the loop on a prepared gram.  Traced, it is compiled as part of its caller.

    With `mean_suffices` a method that uses the mean only computes neither variances nor factor at the end.
    """
    sought, stepping = method, method.stepping(likelihood)
    method = stepping
    least_prec = method.least_prec(likelihood)
    xp = namespace(sites.nat1, data.weight)
    tol = method.tolerance(sites.nat1.dtype)
    sites = sites.masked(data.mask)
    # A method without a merit is judged by its residual, which may rise at some steps.
    window = 1 if method.has_merit else _RESIDUAL_WINDOW
    damped = method.damping < 1
    newtons = not method.mean_only and not damped
    # Where a Newton direction is cheap, slopes share the quadrature of the update and cost almost nothing.
    with_slopes = newtons and gram.newton_is_cheap
    # Combined updates of several classes are tested for EP only; VI has Newton's directions.
    combines = likelihood.latents == 1 or bool(likelihood.functions) or not method.has_merit
    accelerates = newtons and not gram.newton_is_cheap and combines and xp is np
    # For several classes, Newton's direction costs as much as ten updates: combining starts anew instead.
    restarts = accelerates and likelihood.latents > 1 and not likelihood.functions

    def unfinished(s: _State) -> Array:
        # Where combining has started anew, rounding may keep the residual above the smaller tolerance.
        anew = s.seen is not None and len(s.seen) <= 1 < s.step
        near = tol if s.seen is None or anew else _ACCELERATED_TOL_SHARE * tol
        return (s.step < method.max_steps) & (s.point.residual > near) & (s.rate > _MIN_RATE)

    def body(s: _State) -> _State:
        old = s.point
        # A precision that the update sets to its limit goes there in one step, if the merit can refuse the step.
        clipped, least = old.target.prec <= least_prec, xp.maximum(_MIN_KEPT * old.sites.prec, least_prec)
        clipped &= method.has_merit
        stepped = old.sites.prec + s.rate * s.direction.prec
        if not likelihood.functions:  # whose precisions are coordinates of a block of any sign
            stepped = xp.maximum(stepped, xp.where(clipped, least_prec, least))
        moved = Sites(old.sites.nat1 + s.rate * s.direction.nat1, xp.where(data.mask, stepped, 0.0))
        new, factor, by = _evaluate(method, likelihood, gram, data, moved, with_slopes)
        # With a precision at its limit the fixed point does not maximise the merit; it only makes the residual zero.
        held = xp.any(data.mask & (new.target.prec <= least_prec))
        if damped:
            better = xp.isfinite(new.residual)
        else:
            better = _improves(new, old, xp.min(s.recent)) | (held & (new.residual < 0.9 * old.residual))
        point = _pick(better, new, old)
        recent = xp.where(better, put(xp.roll(s.recent, 1) if window > 1 else xp.zeros(1), 0, new.merit), s.recent)
        seen = accelerate.with_point(s.seen, new) if s.seen is not None and better else None
        if seen is None and restarts:
            seen = accelerate.with_point((), new) if better else ()
        if seen:
            direction, bold = accelerate.direction(seen, method.unit(new.q)), xp.array(len(seen) > 1)
        elif newtons and not restarts:
            # Where products with Σ∘Σ are expensive, a plain update that converges fast is not worth improving.
            slow = gram.newton_is_cheap | (new.residual > _GOOD_CONTRACTION * old.residual)
            direction, bold = cond(
                better & slow & (new.residual > tol) & ((s.step > 0) | (new.residual < _MAX_NEWTON_START_RESIDUAL)),
                lambda: (
                    newton_direction(method, gram, data, new, factor, by or _slopes_at(method, likelihood, data, new)),
                    xp.array(True),
                ),
                lambda: (_plain_direction(point), xp.array(False)),
            )
        else:
            direction, bold = _plain_direction(point), xp.array(False)
        full = method.damping if damped else 1.0
        rate = xp.where(better | s.bold, full, _SHRINK * s.rate)
        kept = _pick(better, (factor, by), s.kept) if is_host(better) else None
        return _State(s.step + 1, point, direction, rate, bold, recent, kept, seen)

    # The first step of the loop evaluates the starting sites: it is a step of length zero from a point that any other
    # point improves.  (The program then holds one evaluation instead of two, which halves the time to compile it.)
    worst = xp.asarray(-xp.inf, sites.nat1.dtype)
    start = _State(
        xp.asarray(0),
        _nowhere(method, likelihood, gram, data, sites)._replace(sites=sites, merit=worst, residual=-worst),
        Sites(xp.zeros_like(sites.nat1), xp.zeros_like(sites.prec)),
        xp.ones((), sites.nat1.dtype),
        xp.array(False),
        xp.full(window, worst),
        (None, None) if xp is np else None,
        () if accelerates else None,
    )
    end = while_loop(unfinished, body, start)
    point, (factor, by) = end.point, end.kept or (None, None)
    if point.q is None:  # on the host, where not even the start gave finite numbers
        point, factor, by = _evaluate(method, likelihood, gram, data, sites, with_slopes)
    maximum = xp.array(True)
    if sought is not stepping:
        method, gram = sought, gram.signed()
        exact = _newton_to_tolerance(method, likelihood, gram, data, point, tol)
        maximum = exact.residual <= tol
        point, factor = _pick(maximum, exact, point), None
    if factor is None or (method.mean_only and not mean_suffices):
        # In the state of a compiled loop the factor would be copied at every step: it is computed once more, and what a
        # caller does not use of it is not computed.  A method that uses the mean only has none yet.
        q, factor = gram.condition_with_factor(point.sites.scaled(data.weight), data.mask)
        point = point._replace(q=q) if method.mean_only else point
    precise = gram.rounding_error(point.sites.scaled(data.weight), point.q, factor) <= _MAX_ROUNDING_ERROR
    code = xp.where(
        point.residual <= tol,
        xp.where(maximum, xp.where(precise, Outcome.CONVERGED, Outcome.IMPRECISE), Outcome.NO_MAXIMUM),
        xp.where(
            xp.isfinite(point.residual),
            xp.where(end.rate <= _MIN_RATE, Outcome.STALLED, Outcome.STEP_CAP),
            Outcome.NON_FINITE,
        ),
    )
    least = xp.where(maximum, method.least_prec(likelihood), least_prec)
    at_limit = xp.sum(data.mask & (point.target.prec <= least))
    solution = Solution(point.sites, code, Stats(end.step, point.residual, at_limit, point.q.jitter))
    return Reached(point, solution, factor, by)


def _newton_to_tolerance(
    method: SiteUpdate, likelihood: Likelihood, gram: Gram, data: Data, start: Point, tol: float
) -> Point:
    """A few undamped updates from a point with the right mean; NaN where prior × sites is not a Gaussian."""

    def again(state: tuple[Array, Point]) -> tuple[Array, Point]:
        step, point = state
        return step + 1, evaluate(method, likelihood, gram, data, point.target)

    target, _ = on_rows(_assess, (method.update(), False), likelihood, data, start.q, start.sites)
    first = evaluate(method, likelihood, gram, data, Sites(*target))
    unfinished = lambda state: (state[0] < _MAX_POLISHING_STEPS) & (state[1].residual > tol)  # noqa: E731
    return while_loop(unfinished, again, (namespace(first.residual).asarray(1), first))[1]


def _nowhere(method: SiteUpdate, likelihood: Likelihood, gram: Gram, data: Data, sites: Sites) -> Point:
    """A point of zeros."""
    if is_host(sites.nat1, data.weight):
        nothing: Any = None
        return Point(sites, nothing, sites, np.zeros(()), np.zeros(()))
    shapes = jax.eval_shape(lambda s: evaluate(method, likelihood, gram, data, s), sites)
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
