"""Jacobian of the site update T(λ), for Newton steps and for implicit gradients of the evidence.

    J = ∂T/∂λ = T_λ + T_(m,v) · ∂(m,v)/∂λ,     ∂m = Σ(w δ1 − m w δ2),   ∂v = −(Σ∘Σ)(w δ2)

T acts elementwise, so four directional derivatives (`slopes`) give all of T_λ and T_(m,v).  With two latent functions
T couples the sites of a row, and its derivatives are blocks per row.  The remaining factors are products with Σ and
Σ∘Σ.  Vectors are in units of the marginal, (δnat1·√v, δprec·v).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.data import Data
from sitewise.inference.update import Point, SiteUpdate
from sitewise.likelihoods import Likelihood
from sitewise.numerics.dense.gmres import gmres
from sitewise.priors import Covariance, Gram, Marginals
from sitewise.priors.base import Factor
from sitewise.sites import Sites

_NEWTON_TOL = 1e-2  # relative tolerance of the linear system of a Newton step, far from the fixed point
_NEWTON_GMRES_STEPS = 40  # at most, per Newton step
_MAX_STEP_RATIO = 1e6  # a larger ratio of Newton step to gap T(λ) − λ means that the linear system is singular
_ADJOINT_GMRES_STEPS = 150  # at most, per gradient

Slopes = list[tuple[Array, Array] | None]  # derivatives of (nat1, prec) in mean, var, nat1, prec; None if unused


def scaled_gap(target: Sites, sites: Sites, point_var: Array, data: Data) -> Sites:
    """Return T(λ) − λ in units of the marginal."""
    xp = namespace(point_var)
    gap1 = xp.where(data.mask, (target.nat1 - sites.nat1) * xp.sqrt(point_var), 0.0)
    gap2 = xp.where(data.mask, (target.prec - sites.prec) * point_var, 0.0)
    return Sites(gap1, gap2)


def _flat(nat1: Array, prec: Array) -> Array:
    """Join nat1 and prec into one vector.

    In a traced program the two numbers of a row are adjacent, so that they stay on the device of the row.
    """
    if is_host(nat1, prec):
        return np.concatenate((nat1, prec), axis=None)
    return jnp.stack([nat1, prec], axis=-1).ravel()


def _halves(x: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Split a vector of `_flat` into nat1 and prec."""
    if is_host(x):
        return x.reshape((2, *shape))
    both = x.reshape((*shape, 2))
    return both[..., 0], both[..., 1]


class Linearised(NamedTuple):
    """Products with J and Jᵀ at a point, for vectors in units of the marginal, and the map from vectors to sites."""

    times: Callable[[Array], Array]
    transposed_times: Callable[[Array], Array]
    unpack: Callable[[Array], Sites]


def has_slopes(method: SiteUpdate) -> tuple[bool, bool, bool, bool]:
    """Return on which of (mean, var, nat1, prec) the update of this method depends."""
    return True, not method.mean_only, method.uses_sites, method.uses_sites


def slopes(method: SiteUpdate, likelihood: Likelihood, data: Data, q: Marginals, sites: Sites) -> Slopes:
    """Return the derivatives of T in (mean, var, nat1, prec): pairs of arrays, or None for unused arguments."""

    def update(mean: Array, var: Array, nat1: Array, prec: Array) -> tuple[Array, Array]:
        moved = q._replace(mean=mean, var=var)
        target = method.propose(likelihood, data, moved, Sites(nat1, prec))
        return tuple(target.masked(data.mask))

    arguments = (q.mean, q.var, sites.nat1, sites.prec)
    which = [i for i, has in enumerate(has_slopes(method)) if has]
    if likelihood.functions:
        return _block_slopes(update, arguments, which)
    # `update` is elementwise: one directional derivative per argument gives the whole (block-diagonal) Jacobian.
    tangents = tuple(jnp.stack([jnp.full(q.var.shape, float(i == k), q.var.dtype) for k in which]) for i in range(4))
    rows = jax.vmap(lambda *t: jax.jvp(update, arguments, t)[1])(*tangents)
    by: Slopes = [None] * 4
    for row, i in enumerate(which):
        by[i] = rows[0][row], rows[1][row]
    return by


def _block_slopes(update: Callable[..., tuple[Array, Array]], arguments: tuple[Array, ...], which: list[int]) -> Slopes:
    """Return the derivatives of an update that couples the sites of a row: blocks [input, output, row]."""
    count, rows = arguments[0].shape
    each = jnp.broadcast_to(jnp.eye(count, dtype=arguments[0].dtype)[:, :, None], (count, count, rows))
    by: Slopes = [None] * 4
    for i in which:

        def along(t: Array, i: int = i) -> tuple[Array, Array]:
            tangents = tuple(t if k == i else jnp.zeros_like(a) for k, a in enumerate(arguments))
            return jax.jvp(update, arguments, tangents)[1]

        by[i] = jax.vmap(along)(each)
    return by


def _times(slope: Array, x: Array) -> Array:
    """Return a derivative times a change of its argument, elementwise or by blocks [input, output, row]."""
    return slope * x if slope.ndim == x.ndim else namespace(slope, x).einsum("ion,in->on", slope, x)


def _rescaled(slope: Array, unit: Array, unit_of_argument: Array) -> Array:
    """Return a derivative for a result times `unit` and an argument times `unit_of_argument`."""
    return slope * (unit / unit_of_argument if slope.ndim == unit.ndim else unit / unit_of_argument[:, None])


def _transposed_times(slope: Array, x: Array) -> Array:
    """Return the transposed derivative times x."""
    return slope * x if slope.ndim == x.ndim else namespace(slope, x).einsum("ion,on->in", slope, x)


def listed(by: Slopes) -> tuple[Array, ...]:
    """Return all slopes except None as a flat tuple of arrays."""
    return tuple(part for pair in by if pair is not None for part in pair)


def paired(method: SiteUpdate, arrays: tuple[Array, ...]) -> Slopes:
    """Rebuild the slopes from the flat tuple of `listed`."""
    pairs = iter(zip(arrays[::2], arrays[1::2], strict=True))
    return [next(pairs) if has else None for has in has_slopes(method)]


def linearise(method: SiteUpdate, data: Data, point: Point, cov: Covariance, by: Slopes) -> Linearised:
    """Return the Jacobian of T as products, from its `slopes` and the covariance Σ."""
    q, w = point.q, data.weight
    var = method.unit(q)
    sd = namespace(var).sqrt(var)
    by_mean, by_var, by_nat1, by_prec = by
    assert by_mean is not None
    # A method that uses the mean only needs a few products with Σ; other methods need many, also with Σ∘Σ.
    cov_times = cov.times_once if method.mean_only else cov.times

    # T_(m,v) and T_λ from and to vectors in units of the marginal, once for all products.
    nat1_scale, prec_scale = w / sd, w / var
    mean_scale = prec_scale * q.mean
    mean1, mean2 = by_mean[0] * sd, by_mean[1] * var
    if by_var is not None:
        var1, var2 = by_var[0] * sd, by_var[1] * var
    if by_nat1 is not None and by_prec is not None:
        own = (
            (_rescaled(by_nat1[0], sd, sd), _rescaled(by_prec[0], sd, var)),
            (_rescaled(by_nat1[1], var, sd), _rescaled(by_prec[1], var, var)),
        )

    def unpack(x: Array) -> Sites:
        x1, x2 = _halves(x, sd.shape)
        return Sites(x1 / sd, x2 / var)

    def times(x: Array) -> Array:
        x1, x2 = _halves(x, sd.shape)
        dm = cov_times(nat1_scale * x1 - mean_scale * x2)
        nat1, prec = _times(mean1, dm), _times(mean2, dm)
        if by_var is not None:
            minus_dv = method.change_of_var(cov, prec_scale * x2, w)
            nat1, prec = nat1 - _times(var1, minus_dv), prec - _times(var2, minus_dv)
        if by_nat1 is not None:
            nat1 = nat1 + _times(own[0][0], x1) + _times(own[0][1], x2)
            prec = prec + _times(own[1][0], x1) + _times(own[1][1], x2)
        return _flat(nat1, prec)

    def transposed_times(x: Array) -> Array:
        x1, x2 = _halves(x, sd.shape)
        cov_m = cov_times(_transposed_times(mean1, x1) + _transposed_times(mean2, x2))
        nat1, prec = nat1_scale * cov_m, -mean_scale * cov_m
        if by_var is not None:
            by_v = _transposed_times(var1, x1) + _transposed_times(var2, x2)
            prec = prec - prec_scale * method.change_of_var(cov, by_v, w)
        if by_nat1 is not None:
            nat1 = nat1 + _transposed_times(own[0][0], x1) + _transposed_times(own[1][0], x2)
            prec = prec + _transposed_times(own[0][1], x1) + _transposed_times(own[1][1], x2)
        return _flat(nat1, prec)

    return Linearised(times, transposed_times, unpack)


def newton_direction(method: SiteUpdate, gram: Gram, data: Data, point: Point, factor: Factor, by: Slopes) -> Sites:
    """Return δ with (I − J) δ = T(λ) − λ by GMRES, or the plain update T(λ) − λ if this system is singular."""
    xp = namespace(point.q.var)
    cov = gram.covariance(point.sites.scaled(data.weight), factor)
    jac = linearise(method, data, point, cov, by)
    rhs = _flat(*scaled_gap(point.target, point.sites, method.unit(point.q), data))
    # As accurate as the linearisation (inexact Newton, Dembo et al. 1982), but not beyond the final tolerance.
    tol = xp.asarray(_NEWTON_TOL, rhs.dtype)
    if gram.newton_is_cheap:
        tol = xp.clip(0.1 * method.tolerance(rhs.dtype) / point.residual, xp.minimum(point.residual, tol), tol)
    step = gmres(lambda x: x - jac.times(x), rhs, tol, _NEWTON_GMRES_STEPS)
    # A step that is millions of times the gap comes from a singular system and does not lead to a fixed point.  A NaN
    # fails this comparison too.
    regular = xp.max(xp.abs(step)) < _MAX_STEP_RATIO * xp.max(xp.abs(rhs))
    return jac.unpack(xp.where(regular, step, rhs))


def adjoint(
    method: SiteUpdate, data: Data, point: Point, cov: Covariance, by: Slopes, cotangent: Sites, tol: float
) -> Sites:
    """Return (I − Jᵀ)⁻¹ ∂evidence/∂λ, where `cotangent` is ∂evidence/∂λ."""
    jac = linearise(method, data, point, cov, by)
    var = method.unit(point.q)
    sd = namespace(var).sqrt(var)
    rhs = _flat(cotangent.nat1 / sd, cotangent.prec / var)
    x1, x2 = _halves(gmres(lambda x: x - jac.transposed_times(x), rhs, tol, _ADJOINT_GMRES_STEPS), sd.shape)
    return Sites(x1 * sd, x2 * var)
