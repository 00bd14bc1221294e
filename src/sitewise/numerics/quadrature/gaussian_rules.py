"""Gaussian expectations of a function of one variable, for Gaussians of every width.

A rule gives, for each Gaussian, nodes f_j and *log* weights c_j of the measure df:
∫ F(f) df ≈ Σ_j exp(c_j) F(f_j).  The Gaussian density is multiplied in afterwards, with the nodes
held fixed, so that derivatives in mean and var are quadratures of the exact derivatives
and the likelihood itself is never differentiated in f.

`Landmark` is the default.  An integrand N(f; m, v)·g(f) has two scales, that of the Gaussian
(width √v) and that of the likelihood (centre c, width s: its *landmark*), and either may be a
thousand times the other.  The rule is the trapezoidal one in t, where f = f(t) is fine next to the landmark and never
coarser than a fraction of √v (`node_map`).  E[p] has its own search for where N·p is not negligible, so that no node is
spent elsewhere.  studies/quadrature_table.py measures the error: below 1e-8 for every likelihood of the library,
variances 1e-6 … 1e6 and means up to 50 deviations from the observation.

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

from sitewise.numerics.quadrature.node_map import Places

__all__ = ["GaussHermite", "Landmark", "Rule", "expect", "log_expect_exp", "tilted_moments"]

_LOG_2PI = float(np.log(2 * np.pi))

_SPACING = 1.5  # of nodes on the scale of the Gaussian, in deviations per unit of t
_BENT, _FLAT = 0.7, 0.3  # the β of `node_map` for an expectation of log p, and of p

# The search for the mass of N·p: its spacing far from the landmark, how far beyond the mean and the landmark it goes
# (both in deviations), and how many nats below the top a value is negligible.
_COARSE, _MARGIN, _DEPTH = 16.0, 9.0, 26.0

_Function = Callable[[jax.Array], jax.Array]  # elementwise, of nodes with a leading axis


class Rule(Protocol):
    """Nodes and log weights, each of shape (q, *mean.shape).

    The mass lies within a few `sd` of `middle`; the likelihood varies most at `centre`, on the scale `width`: one such
    landmark per row, or several on a leading axis.
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
    reach: float = 8.5
    flat: float = _FLAT  # the β of `node_map` for E[p]

    def nodes(
        self, middle: jax.Array, sd: jax.Array, centre: jax.Array, width: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        middle, sd = jnp.broadcast_arrays(middle, sd)
        centre, width = _of_each_row(centre, width, sd)
        # A landmark outside the reach of the Gaussian needs no refinement and is moved next to that reach.
        centre = jnp.clip(centre, middle - 1.5 * self.reach * sd, middle + 1.5 * self.reach * sd)
        place = Places.of(centre, width, _SPACING * sd, _BENT)
        return _spread(place, middle - self.reach * sd, middle + self.reach * sd, self.points)


def _of_each_row(centre: jax.Array, width: jax.Array, like: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One landmark has the shape of the rows; several have one axis more."""
    if jnp.ndim(centre) > like.ndim:
        return centre, width
    return jnp.broadcast_to(centre, like.shape), jnp.broadcast_to(width, like.shape)


def _spread(place: Places, low: jax.Array, high: jax.Array, points: int) -> tuple[jax.Array, jax.Array]:
    first, last = place.inverse(jnp.stack([low, high]))
    u = np.linspace(0.0, 1.0, points).reshape((-1,) + (1,) * jnp.ndim(first))
    f, slope = place(first + (last - first) * u)
    return f, jnp.log(slope * ((last - first) / (points - 1)))


def _log_gaussian(f: jax.Array, mean: jax.Array, var: jax.Array) -> jax.Array:
    return -0.5 * ((f - mean) ** 2 / var + jnp.log(var) + _LOG_2PI)


def expect(
    function: _Function, mean: jax.Array, var: jax.Array, *, rule: Rule, centre: jax.Array, width: jax.Array
) -> jax.Array:
    """E_{N(mean, var)}[function(f)], elementwise over mean and var."""
    if isinstance(rule, GaussHermite):
        f, logc = rule.nodes(mean, jnp.sqrt(var), centre, width)
        return jnp.sum(jnp.exp(logc + _log_gaussian(f, mean, var)) * function(f), axis=0)
    f, logc = rule.nodes(*lax.stop_gradient((mean, jnp.sqrt(var), centre, width)))
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
    if not isinstance(rule, Landmark):
        return rule.nodes(mean, jnp.sqrt(var), centre, width)
    # The gradient is stopped before the search and not only after it: the search differentiates `guide` twice, and a
    # likelihood need not be differentiable more often than inference requires.
    mean, var, centre, width, start = lax.stop_gradient((mean, var, centre, width, start))
    return lax.stop_gradient(_tilted_nodes(guide, mean, var, rule, centre, width, start))


def _tilted_nodes(
    function: _Function,
    mean: jax.Array,
    var: jax.Array,
    rule: Landmark,
    centre: jax.Array,
    width: jax.Array,
    start: jax.Array | None,
) -> tuple[jax.Array, jax.Array]:
    mean, var = jnp.broadcast_arrays(mean, var)
    centre, width = _of_each_row(centre, width, var)

    def height(f: jax.Array) -> jax.Array:
        return function(f) - 0.5 * (f - mean) ** 2 / var

    def slope(f: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.jvp(height, (f,), (jnp.ones_like(f),))

    sd = jnp.sqrt(var)
    search = 3 * rule.points // 4
    # N·p lies between the Gaussian and the likelihood, or next to them.
    lowest, highest = (centre, centre) if centre.ndim == sd.ndim else (jnp.min(centre, 0), jnp.max(centre, 0))
    ends = jnp.minimum(mean, lowest) - _MARGIN * sd, jnp.maximum(mean, highest) + _MARGIN * sd
    spacing = jnp.maximum(_COARSE * sd, 0.1 * (ends[1] - ends[0]))
    grid, logc = _spread(Places.of(centre, width, spacing, rule.flat), *ends, search)
    heights = height(grid)
    heights = jnp.where(jnp.isfinite(heights), heights, -jnp.inf)
    best, highest_seen = jnp.argmax(heights, axis=0), jnp.max(heights, axis=0)
    at = jnp.take_along_axis(grid, best[None], axis=0)[0]
    gap = jnp.exp(jnp.take_along_axis(logc, best[None], axis=0)[0])
    if start is not None:
        higher = height(start) > highest_seen
        at, gap = jnp.where(higher, start, at), jnp.where(higher, sd, gap)

    def newton(_: jax.Array, known: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        """A step from `at`; the best point so far, its height and its curvature."""
        at, *found = known
        (value, first), (_, second) = jax.jvp(slope, (at,), (jnp.ones_like(at),))
        curvature = jnp.maximum(-second, 1 / var)
        step = jnp.clip(first / curvature, -gap, gap)
        better = value > found[1]
        kept = (jnp.where(better, new, old) for new, old in zip((at, value, curvature), found, strict=True))
        return at + jnp.where(jnp.isfinite(step), step, 0.0), *kept

    known = (at, at, jnp.full_like(at, -jnp.inf), 1 / var)
    _, mode, top, curvature = lax.fori_loop(0, 6, newton, known)
    tilted_sd = 1 / jnp.sqrt(curvature)

    # The outermost points of the search at which N·p is not negligible, and their neighbours.
    seen = heights > jnp.maximum(top, highest_seen) - _DEPTH
    high_ones, none = seen | (heights == highest_seen), jnp.zeros_like(seen[:1])
    near = high_ones | jnp.concatenate([high_ones[1:], none]) | jnp.concatenate([none, high_ones[:-1]])
    low, lowest = (jnp.minimum(jnp.min(jnp.where(those, grid, jnp.inf), axis=0), mode) for those in (near, seen))
    high, highest = (jnp.maximum(jnp.max(jnp.where(those, grid, -jnp.inf), axis=0), mode) for those in (near, seen))
    reach = 1.3 * rule.reach * sd
    low, high = jnp.maximum(low, lowest - reach), jnp.minimum(high, highest + reach)

    centre = jnp.clip(centre, low - reach, high + reach)
    spacing = jnp.hypot(width, mode - centre)
    spacing = jnp.minimum(spacing if centre.ndim == sd.ndim else jnp.min(spacing, axis=0), _SPACING * sd)
    coarse = spacing > 2.0 * tilted_sd
    place = Places.of(jnp.where(coarse, mode, centre), jnp.where(coarse, tilted_sd, width), _SPACING * sd, rule.flat)
    return _spread(place, low, high, rule.points)
