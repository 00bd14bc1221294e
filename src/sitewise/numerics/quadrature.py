"""Gaussian expectations of a function of one variable, for Gaussians of every width.

A rule gives, for each Gaussian, nodes f_j and *log* weights c_j of the measure df:
∫ F(f) df ≈ Σ_j exp(c_j) F(f_j).  The Gaussian density is multiplied in afterwards, with the nodes
held fixed, so that derivatives in mean and var are quadratures of the exact derivatives
and the likelihood itself is never differentiated in f.

`Landmark` is the default.  An integrand N(f; m, v)·g(f) has two scales, that of the Gaussian
(width √v) and that of the likelihood (centre c, width s: its *landmark*), and either may be a
thousand times the other.  The trapezoidal rule in t, where

    f = c + L·asinh((w/L)·sinh t),   L = 2√v,   w = min(s, L),

has a spacing ∝ w next to the landmark, which grows geometrically away from it and is never more than a
fraction of √v.  The map is analytic, so the error falls exponentially with the number of points.

`GaussHermite(20)` is the rule of the published experiments; it is wrong for wide Gaussians and is
kept so that published curves can be reproduced to the digit.  Its nodes move with the Gaussian, as published: the
derivatives are then those of the coarse rule itself, and an iteration that maximises the coarse ELBO converges.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import logsumexp

__all__ = ["GaussHermite", "Landmark", "Rule", "expect", "log_expect_exp", "tilted_moments"]

_LOG_2PI = float(np.log(2 * np.pi))

_Function = Callable[[jax.Array], jax.Array]  # elementwise, of nodes with a leading axis


class Rule(Protocol):
    """Nodes and log weights, each of shape (q, *mean.shape).

    The mass lies within a few `sd` of `middle`; the likelihood varies most at `centre`, on the scale `width`.
    """

    def nodes(
        self, middle: jax.Array, sd: jax.Array, centre: jax.Array, width: jax.Array
    ) -> tuple[jax.Array, jax.Array]: ...


@dataclasses.dataclass(frozen=True)
class GaussHermite:
    """The classical rule: exact for polynomials of degree 2·points − 1 times the Gaussian."""

    points: int = 20

    def nodes(
        self, middle: jax.Array, sd: jax.Array, centre: jax.Array, width: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        x, w = np.polynomial.hermite_e.hermegauss(self.points)
        column = (-1,) + (1,) * jnp.ndim(middle)
        return middle + sd * x.reshape(column), jnp.log(sd) + (np.log(w) + 0.5 * x**2).reshape(column)


@dataclasses.dataclass(frozen=True)
class Landmark:
    """The trapezoidal rule after the substitution above: fine at the landmark, never coarser than √v."""

    points: int = 56
    reach: float = 9.0

    def nodes(
        self, middle: jax.Array, sd: jax.Array, centre: jax.Array, width: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        scale = 2.0 * sd
        # A landmark outside the reach of the Gaussian needs no refinement and is moved next to that reach.
        centre = jnp.clip(centre, middle - 1.5 * self.reach * sd, middle + 1.5 * self.reach * sd)
        ratio = jnp.minimum(width / scale, 1.0)
        low = jnp.arcsinh(jnp.sinh((middle - self.reach * sd - centre) / scale) / ratio)
        high = jnp.arcsinh(jnp.sinh((middle + self.reach * sd - centre) / scale) / ratio)
        u = np.linspace(0.0, 1.0, self.points).reshape((-1,) + (1,) * jnp.ndim(middle))
        t = low + (high - low) * u
        # sinh, cosh and arcsinh are written with exp and log, which is several times as fast; the absolute error is the
        # same, and the position of a node need not be accurate.
        up = jnp.exp(t)
        down = 1 / up
        s = 0.5 * ratio * (up - down)
        root = jnp.sqrt(1 + s * s)
        slope = 0.5 * ratio * (up + down) / root
        inverse = jnp.sign(s) * jnp.log(jnp.abs(s) + root)
        return centre + scale * inverse, jnp.log(scale * slope * (high - low) / (self.points - 1))


def _log_gaussian(f: jax.Array, mean: jax.Array, var: jax.Array) -> jax.Array:
    return -0.5 * ((f - mean) ** 2 / var + jnp.log(var) + _LOG_2PI)


def expect(
    function: _Function, mean: jax.Array, var: jax.Array, *, rule: Rule, centre: jax.Array, width: jax.Array
) -> jax.Array:
    """E_{N(mean, var)}[function(f)], elementwise over mean and var."""
    f, logc = rule.nodes(mean, jnp.sqrt(var), centre, width)
    if isinstance(rule, GaussHermite):
        return jnp.sum(jnp.exp(logc + _log_gaussian(f, mean, var)) * function(f), axis=0)
    f, logc = lax.stop_gradient((f, logc))
    # Without the barrier XLA computes the likelihood again in each of the derivatives that use it.
    return _moment(0, *lax.optimization_barrier((f, logc, function(f))), mean, var)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _moment(order: int, f: jax.Array, logc: jax.Array, values: jax.Array, mean: jax.Array, var: jax.Array) -> jax.Array:
    """h_k = E_{N(mean, var)}[He_k(z) g(f)] / sd^k, z = (f − mean)/sd, with He_k the Hermite polynomials.

    ∂h_k/∂mean = h_{k+1} and ∂h_k/∂var = ½ h_{k+2}: the derivatives of an expectation are sums over the same values.
    """
    sd = jnp.sqrt(var)
    z = (f - mean) / sd
    polynomial, before = jnp.ones_like(z), jnp.zeros_like(z)
    for k in range(order):
        polynomial, before = z * polynomial - k * before, polynomial
    return jnp.sum(jnp.exp(logc + _log_gaussian(f, mean, var)) * polynomial * values, axis=0) / sd**order


def _moment_jvp(
    order: int, primals: tuple[jax.Array, ...], tangents: tuple[jax.Array | SymbolicZero, ...]
) -> tuple[jax.Array, jax.Array]:
    nodes = primals[:2]
    *_, values_dot, mean_dot, var_dot = tangents
    parts = []
    if not isinstance(values_dot, SymbolicZero):
        parts.append(_moment(order, *nodes, values_dot, *primals[3:]))
    if not isinstance(mean_dot, SymbolicZero):
        parts.append(_moment(order + 1, *primals) * mean_dot)
    if not isinstance(var_dot, SymbolicZero):
        parts.append(0.5 * _moment(order + 2, *primals) * var_dot)
    out = _moment(order, *primals)
    return out, sum(parts, jnp.zeros_like(out))


_moment.defjvp(_moment_jvp, symbolic_zeros=True)


def log_expect_exp(
    function: _Function,
    mean: jax.Array,
    var: jax.Array,
    *,
    rule: Rule,
    centre: jax.Array,
    width: jax.Array,
    guide: _Function | None = None,
    start: jax.Array | None = None,
) -> jax.Array:
    """log E_{N(mean, var)}[exp function(f)], elementwise, without under- or overflow.

    The mode of the tilted density and its width there are found first.  If the landmark's grid would be too coarse at
    the mode, the mode replaces the landmark.  `guide` is a cheaper approximation of `function` with which the mode is
    found; `start` is a point near the mass, for the case that the mass is not within reach of the Gaussian.
    """
    f, logc = _nodes_of_mass(guide or function, mean, var, rule, centre, width, start)
    return logsumexp(logc + _log_gaussian(f, mean, var) + function(f), axis=0)


def tilted_moments(
    function: _Function, mean: jax.Array, var: jax.Array, *, rule: Rule, centre: jax.Array, width: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Of the normalised density ∝ N(mean, var)·exp function(f): its mean minus `mean`, and its variance over `var`.

    With constant nodes these are v·ℓ' and 1 + v·ℓ'' of ℓ = `log_expect_exp`, without the differences in which ℓ'' loses
    its digits where the tilted density is much narrower than the Gaussian (large counts).
    """
    f, logc = _nodes_of_mass(function, mean, var, rule, centre, width, None)
    mass = jax.nn.softmax(logc + _log_gaussian(f, mean, var) + function(f), axis=0)
    shift = jnp.sum(mass * (f - mean), axis=0)
    return shift, jnp.sum(mass * (f - mean - shift) ** 2, axis=0) / var


def _nodes_of_mass(
    guide: _Function,
    mean: jax.Array,
    var: jax.Array,
    rule: Rule,
    centre: jax.Array,
    width: jax.Array,
    start: jax.Array | None,
) -> tuple[jax.Array, jax.Array]:
    if isinstance(rule, GaussHermite):
        return rule.nodes(mean, jnp.sqrt(var), centre, width)
    # The gradient is stopped before the search and not only after it: the search differentiates `guide` twice, and a
    # likelihood need not be differentiable more often than inference requires.
    mean, var, centre, width, start = lax.stop_gradient((mean, var, centre, width, start))
    return lax.stop_gradient(_tilted_nodes(guide, mean, var, rule, centre, width, start))


def _tilted_nodes(
    function: _Function,
    mean: jax.Array,
    var: jax.Array,
    rule: Rule,
    centre: jax.Array,
    width: jax.Array,
    start: jax.Array | None,
) -> tuple[jax.Array, jax.Array]:
    def height(f: jax.Array) -> jax.Array:
        return function(f) - 0.5 * (f - mean) ** 2 / var

    def slope(f: jax.Array) -> jax.Array:
        return jax.jvp(height, (f,), (jnp.ones_like(f),))[1]

    def curvature(f: jax.Array) -> jax.Array:
        return jnp.maximum(-jax.jvp(slope, (f,), (jnp.ones_like(f),))[1], 1 / var)

    sd = jnp.sqrt(var)
    grid, logc = Landmark(points=65, reach=40.0).nodes(mean, sd, centre, width)
    heights = height(grid)
    best = jnp.argmax(jnp.where(jnp.isfinite(heights), heights, -jnp.inf), axis=0)
    mode = jnp.take_along_axis(grid, best[None], axis=0)[0]
    gap = jnp.exp(jnp.take_along_axis(logc, best[None], axis=0)[0])

    if start is not None:
        higher = height(start) > height(mode)
        mode, gap = jnp.where(higher, start, mode), jnp.where(higher, sd, gap)

    def newton(_: jax.Array, f: jax.Array) -> jax.Array:
        step = jnp.clip(slope(f) / curvature(f), -gap, gap)
        return f + jnp.where(jnp.isfinite(step), step, 0.0)

    mode = lax.fori_loop(0, 4, newton, mode)
    tilted_sd = 1 / jnp.sqrt(curvature(mode))
    spacing = jnp.minimum(jnp.sqrt(width**2 + (mode - centre) ** 2), 2 * sd)
    coarse = spacing > 2.5 * tilted_sd
    return rule.nodes(mode, sd, jnp.where(coarse, mode, centre), jnp.where(coarse, tilted_sd, width))
