"""L2. The one loop: solve λ = T(λ).

Each step conditions the prior on a candidate and keeps it if the method's merit did not fall (or, for a
method without one, if the residual fell).  The direction is Newton's for the fixed-point equation,

    (I − J) δ = T(λ) − λ,   J = ∂T/∂λ = T_λ + T_(m,v) · ∂(m,v)/∂λ
    ∂m = Σ(w δ1 − m w δ2),  ∂v = −(Σ∘Σ)(w δ2)

solved by GMRES with O(n²) products; where that fails it is the plain update T(λ) − λ, halved until it
helps (for VI a natural-gradient ascent direction of the ELBO).  `adjoint` solves the transposed
system, for the implicit gradient of the learners.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.data import Data
from sitewise.gmres import gmres
from sitewise.inference.base import Inference, Solution, Stats
from sitewise.priors import Marginals
from sitewise.sites import Sites
from sitewise.types import Outcome

_SHRINK = 0.4
_MIN_RATE = 1e-4
_MIN_KEPT = 0.05  # a step keeps at least this share of each site precision
_CONTRACTS = 0.3  # a plain update that shrinks the residual to this share is good enough
_NEAR = 1.0  # residual of a start, in units of the marginal, below which the first step may be Newton's
_NEWTON_TOL = 1e-2  # of the linear system, far from the solution
_NEWTON_STEPS = 40
_SINGULAR = 1e6
_ADJOINT_STEPS = 150
_LOST = 1e-3  # what rounding may take, see `lost` of the grams


class _Point(NamedTuple):
    """Sites and what follows from them."""

    sites: Sites
    q: Marginals
    target: Sites
    merit: jax.Array
    residual: jax.Array
    lost: jax.Array


def _scaled_gap(target: Sites, sites: Sites, q: Marginals, data: Data) -> Sites:
    """T(λ) − λ in units of the marginal: (Δnat1·√v, Δprec·v)."""
    gap1 = jnp.where(data.mask, (target.nat1 - sites.nat1) * jnp.sqrt(q.var), 0.0)
    gap2 = jnp.where(data.mask, (target.prec - sites.prec) * q.var, 0.0)
    return Sites(gap1, gap2)


def evaluate(method: Inference, likelihood, gram, data: Data, sites: Sites) -> _Point:
    return _evaluate(method, likelihood, gram, data, sites)[0]


def _evaluate(method: Inference, likelihood, gram, data: Data, sites: Sites) -> tuple[_Point, Any]:
    """The point, and the factor that derivatives of q need."""
    weighted = sites.scaled(data.weight)
    if method.mean_only:
        q, factor = gram.condition_mean(weighted), None
    else:
        q, factor = gram.condition_with_factor(weighted, data.mask)
    # What follows is elementwise; without the barrier XLA would compute parts of q again in each expression of it.
    q = lax.optimization_barrier(q)
    if method.has_merit:
        target, merit = method.propose_with_merit(likelihood, data, q, sites)
    else:
        target, merit = method.propose(likelihood, data, q, sites), None
    # Padding has no sites: a precision there, next to a variance that means nothing, would have no cavity.
    target = Sites(*(jnp.where(data.mask, a, 0.0) for a in target))
    gap = _scaled_gap(target, sites, q, data)
    # Seen from the marginal's mean: nat1 there is Δnat1 − m·Δprec.  Where a site is a million times as precise as the
    # prior (large counts), nat1 at zero is a number so large that its rounding hides whether the sites have settled.
    gap = Sites(gap.nat1 - q.mean / jnp.sqrt(q.var) * gap.prec, gap.prec)
    residual = jnp.maximum(jnp.max(jnp.abs(gap.nat1)), jnp.max(jnp.abs(gap.prec)))
    if merit is None:
        merit = -jnp.sqrt(jnp.sum(gap.nat1**2) + jnp.sum(gap.prec**2))
    lost = jnp.zeros_like(residual) if factor is None else gram.lost(weighted, q, factor)
    return _Point(sites, q, target, merit, residual, lost), factor


def _flat(nat1: jax.Array, prec: jax.Array) -> jax.Array:
    return jnp.concatenate([nat1.ravel(), prec.ravel()])


def _halves(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    half = x.shape[0] // 2
    return x[:half].reshape(shape), x[half:].reshape(shape)


class Linearised(NamedTuple):
    """J and Jᵀ at a point, acting on vectors in units of the marginal."""

    times: Any
    transposed_times: Any
    pack: Any
    unpack: Any


def slopes(method: Inference, likelihood, data: Data, point: _Point) -> list:
    """The derivatives of T in (mean, var, nat1, prec): pairs of arrays, None for what the method does not look at."""
    q, sites = point.q, point.sites

    def update(mean, var, nat1, prec):
        moved = q._replace(mean=mean, var=var)
        target = method.propose(likelihood, data, moved, Sites(nat1, prec))
        return jnp.where(data.mask, target.nat1, 0.0), jnp.where(data.mask, target.prec, 0.0)

    # `update` is elementwise: a directional derivative per argument gives the whole (block-diagonal) Jacobian.
    arguments = (q.mean, q.var, sites.nat1, sites.prec)
    needed = [True, not method.mean_only, method.sees_sites, method.sees_sites]
    which = [i for i in range(4) if needed[i]]
    tangents = tuple(jnp.stack([jnp.full(q.var.shape, float(i == k), q.var.dtype) for k in which]) for i in range(4))
    rows = jax.vmap(lambda *t: jax.jvp(update, arguments, t)[1])(*tangents)
    by: list = [None] * 4
    for row, i in enumerate(which):
        by[i] = rows[0][row], rows[1][row]
    return by


def linearise(method: Inference, data: Data, point: _Point, cov, by: list) -> Linearised:
    """The derivative of T, from its `slopes` and the covariance Σ."""
    q, w = point.q, data.weight
    sd = jnp.sqrt(q.var)
    by_mean, by_var, by_nat1, by_prec = by

    def pack(s: Sites) -> jax.Array:
        return _flat(s.nat1 * sd, s.prec * q.var)

    def unpack(x: jax.Array) -> Sites:
        x1, x2 = _halves(x, sd.shape)
        return Sites(x1 / sd, x2 / q.var)

    # A method that looks at the mean only needs a few products with Σ; others many, and with Σ∘Σ.
    cov_times = cov.times_once if method.mean_only else cov.times

    def times(x):
        d = unpack(x)
        dm = cov_times(w * (d.nat1 - q.mean * d.prec))
        moved = [by_mean[k] * dm for k in range(2)]
        if not method.mean_only:
            dv = -cov.squared_times(w * d.prec)
            moved = [moved[k] + by_var[k] * dv for k in range(2)]
        if method.sees_sites:
            moved = [moved[k] + by_nat1[k] * d.nat1 + by_prec[k] * d.prec for k in range(2)]
        return pack(Sites(*moved))

    def transposed_times(x):
        x1, x2 = _halves(x, sd.shape)
        d1, d2 = x1 * sd, x2 * q.var
        cov_m = cov_times(by_mean[0] * d1 + by_mean[1] * d2)
        nat1, prec = w * cov_m, -w * q.mean * cov_m
        if not method.mean_only:
            prec = prec - w * cov.squared_times(by_var[0] * d1 + by_var[1] * d2)
        if method.sees_sites:
            nat1 = nat1 + by_nat1[0] * d1 + by_nat1[1] * d2
            prec = prec + by_prec[0] * d1 + by_prec[1] * d2
        return _flat(nat1 / sd, prec / q.var)

    return Linearised(times, transposed_times, pack, unpack)


def _newton_direction(method, gram, data, point: _Point, factor, by: list) -> Sites:
    cov = gram.covariance(point.sites.scaled(data.weight), factor)
    jac = linearise(method, data, point, cov, by)
    gap = _scaled_gap(point.target, point.sites, point.q, data)
    rhs = _flat(gap.nat1, gap.prec)
    # As accurate as the linearisation is (inexact Newton, Dembo et al. 1982), and no more than the end needs.
    tol = jnp.asarray(_NEWTON_TOL, rhs.dtype)
    if gram.newton_pays:
        tol = jnp.clip(0.1 * tolerance(method, rhs.dtype) / point.residual, jnp.minimum(point.residual, tol), tol)
    step = gmres(lambda x: x - jac.times(x), rhs, tol, _NEWTON_STEPS)
    # A step that is millions of times the gap solves a singular system: no fixed point lies there.
    sound = jnp.max(jnp.abs(step)) < _SINGULAR * jnp.max(jnp.abs(rhs))
    return jac.unpack(jnp.where(sound, step, rhs))  # a step that is not finite is not sound


def pull_to_sites(data: Data, point: _Point, cov, by_q: Marginals, by_sites: Sites) -> Sites:
    """The derivative in λ of a function of (q, λ), given its derivatives in q and in λ directly."""
    q, w = point.q, data.weight
    cov_m = cov.times_once(by_q.mean)
    # Laplace's evidence does not look at the variances, and a product with Σ∘Σ is dear.
    by_var = lax.cond(jnp.any(by_q.var != 0), cov.squared_times, jnp.zeros_like, by_q.var)
    nat1 = by_sites.nat1 + w * (cov_m + by_q.log_z * q.mean)
    prec = by_sites.prec - w * (q.mean * cov_m + by_var + 0.5 * by_q.log_z * (q.var + q.mean**2))
    if by_q.cross is not None:
        prec = prec - w * cov.cross_times(by_q.cross)
    return Sites(nat1, prec)


def adjoint(method, likelihood, data, point: _Point, cov, cotangent: Sites, tol: float) -> Sites:
    """(I − Jᵀ)⁻¹ applied to ∂evidence/∂λ."""
    jac = linearise(method, data, point, cov, slopes(method, likelihood, data, point))
    sd, var = jnp.sqrt(point.q.var), point.q.var
    rhs = _flat(cotangent.nat1 / sd, cotangent.prec / var)
    x1, x2 = _halves(gmres(lambda x: x - jac.transposed_times(x), rhs, tol, _ADJOINT_STEPS), sd.shape)
    return Sites(x1 * sd, x2 * var)


def tolerance(method: Inference, dtype) -> float:
    if method.tol is not None:
        return method.tol
    return 1e-8 if dtype == jnp.float64 else 1e-3


class _State(NamedTuple):
    step: jax.Array
    point: _Point
    direction: Sites
    rate: jax.Array
    newton: jax.Array
    recent: jax.Array


def _plain_direction(point: _Point) -> Sites:
    return Sites(point.target.nat1 - point.sites.nat1, point.target.prec - point.sites.prec)


def _improves(new: _Point, old: _Point, reference: jax.Array) -> jax.Array:
    """The merit is not below the reference; or, where only its rounding can be seen, the residual halved."""
    eps = jnp.finfo(new.merit.dtype).eps
    drop = (reference - new.merit) / (1 + jnp.abs(reference))
    halved = new.residual < 0.5 * old.residual
    fine = jnp.isfinite(new.merit) & jnp.isfinite(new.residual)
    return fine & ((drop <= 1e4 * eps) | (halved & (drop <= 1e8 * eps)) | ~jnp.isfinite(reference))


def _pick(flag, a, b):
    return jax.tree.map(lambda x, y: jnp.where(flag, x, y), a, b)


def iterate(method: Inference, likelihood, gram, data: Data, sites: Sites) -> tuple[_Point, Solution, Any]:
    """Run the loop on a prepared gram.  Compiled as part of its caller.

    The factor of the last point, which derivatives need, is computed once more: kept in the loop's state it would be
    copied at every turn.  A caller that does not use it does not pay for it.
    """
    tol = tolerance(method, sites.nat1.dtype)
    sites = Sites(*(jnp.where(data.mask, a, 0.0) for a in sites))
    # A method without a merit is judged by its residual, which may rise on the way: it has to
    # be below the worst of the last few.
    window = 1 if method.has_merit else 6
    damped = method.damping < 1

    def go_on(s: _State):
        return (s.step < method.max_steps) & (s.point.residual > tol) & (s.rate > _MIN_RATE)

    def body(s: _State):
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
        # With a precision held at its limit the fixed point is not a maximum of the merit, only of the residual.
        held = jnp.any(data.mask & (new.target.prec <= method.min_prec))
        if damped:
            better = jnp.isfinite(new.residual)
        else:
            better = _improves(new, old, jnp.min(s.recent)) | (held & (new.residual < 0.9 * old.residual))
        point = _pick(better, new, old)
        recent = jnp.where(better, jnp.roll(s.recent, 1).at[0].set(new.merit), s.recent)
        if method.use_newton and not damped:
            # Where products with Σ∘Σ are dear, a plain update that contracts well is not worth improving.
            slow = gram.newton_pays | (new.residual > _CONTRACTS * old.residual)
            # Beside `new` they share its quadrature and cost next to nothing; inside the branch they would not.
            by = slopes(method, likelihood, data, new) if gram.newton_pays else None
            direction, newton = lax.cond(
                better & slow & (new.residual > tol) & ((s.step > 0) | (new.residual < _NEAR)),
                lambda: (
                    _newton_direction(method, gram, data, new, factor, by or slopes(method, likelihood, data, new)),
                    jnp.array(True),
                ),
                lambda: (_plain_direction(point), jnp.array(False)),
            )
        else:
            direction, newton = _plain_direction(point), jnp.array(False)
        full = method.damping if damped else 1.0
        rate = jnp.where(better | s.newton, full, _SHRINK * s.rate)
        return _State(s.step + 1, point, direction, rate, newton, recent)

    # The first turn of the loop evaluates the starting sites: a step of zero from a point that anything
    # improves on.  (One evaluation in the program instead of two: half the compile time.)
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
    end = lax.while_loop(go_on, body, start)
    point = end.point
    weighted = point.sites.scaled(data.weight)
    q, factor = gram.condition_with_factor(weighted, data.mask)
    if method.mean_only:
        point = point._replace(q=q, lost=gram.lost(weighted, q, factor))
    code = jnp.where(
        point.residual <= tol,
        jnp.where(point.lost <= _LOST, Outcome.CONVERGED, Outcome.IMPRECISE),
        jnp.where(
            jnp.isfinite(point.residual),
            jnp.where(end.rate <= _MIN_RATE, Outcome.STALLED, Outcome.STEP_CAP),
            Outcome.NON_FINITE,
        ),
    )
    clipped = jnp.sum(data.mask & (point.target.prec <= method.min_prec))
    return point, Solution(point.sites, code, Stats(end.step, point.residual, clipped, point.q.jitter)), factor


def initial_sites(likelihood, data: Data) -> Sites:
    """Sites as confident as the likelihood's landmark: precision 1/width², slope that of log p there.

    Starting confident matters for VI under a wide prior: q starts narrow, where E_q[log p] is tame,
    and widens; started from the prior, the means overshoot and every step must be damped.
    """
    centre, width = likelihood.landmark(data.y)
    slope = jax.jvp(lambda f: likelihood.log_prob(data.y, f), (centre,), (jnp.ones_like(centre),))[1]
    prec = 1 / width**2
    return Sites(jnp.where(data.mask, slope + prec * centre, 0.0), jnp.where(data.mask, prec, 0.0))


first_sites = jax.jit(initial_sites)  # for callers outside a compiled program


@functools.partial(jax.jit, static_argnums=0)
def _solve(method, model, data, sites):
    return iterate(method, model.likelihood, model.prior.gram(data.X), data, sites)[1]


def solve(method: Inference, model, data: Data, sites: Sites | None = None) -> Solution:
    """From `sites`, from the likelihood's own start, then by the milder methods: the first that converges."""
    data = jax.tree.map(jnp.asarray, data)
    first = first_sites(model.likelihood, data)
    solution = _solve(method, model, data, first if sites is None else sites)
    if isinstance(solution.code, jax.core.Tracer) or solution.outcome.settled:
        return solution
    if sites is not None:
        # The given sites may be a bad start; the likelihood's own is never far off.
        again = _solve(method, model, data, first)
        if again.outcome.settled:
            return again
    return rescue(method, model, data, solution)


def rescue(method: Inference, model, data: Data, failed: Solution) -> Solution:
    """Degradation before failure: what the milder methods find, or `failed` if they find nothing."""
    first = first_sites(model.likelihood, data)
    for milder in method.milder():
        found = _solve(milder, model, data, first)
        if found.outcome.settled:
            if milder == dataclasses.replace(method, damping=milder.damping, max_steps=milder.max_steps):
                return found  # damped steps to the same fixed point
            again = _solve(method, model, data, found.sites)
            return again if again.outcome.settled else found._replace(code=jnp.asarray(Outcome.FRACTIONAL))
    return failed
