"""Quadrature rules for Gaussian expectations of a function of one variable, for Gaussians of every width.

A rule gives, for each Gaussian, nodes f_j and *log* weights c_j of the measure df:
∫ F(f) df ≈ Σ_j exp(c_j) F(f_j).  The Gaussian density is multiplied in afterwards, with the nodes
held fixed, so that derivatives in mean and var are quadratures of the exact derivatives
and the likelihood itself is never differentiated in f.

`Landmark` is the default.  An integrand N(f; m, v)·g(f) has two scales: the scale of the Gaussian
(width √v) and the scale of the likelihood (centre c, width s: its *landmark*).  Either may be a thousand times the
other.  The rule is the trapezoidal rule in t, where the map f(t) places nodes finely next to the landmark and never
coarser than a fraction of √v (`node_map`).  For E[p] the region where N·p is not negligible is found first, and all
nodes are placed there.  studies/quadrature_table.py measures the error: below 1e-8 for every likelihood of the library,
variances 1e-6 … 1e6 and means up to 50 standard deviations from the observation.

`GaussHermite(20)` is the rule of the published experiments.  It is inaccurate for wide Gaussians and is kept to
reproduce the published curves to the digit.  Its nodes move with the Gaussian, as published: the derivatives are then
the exact derivatives of the coarse rule, and an iteration that maximises the coarse ELBO converges.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import logsumexp

from sitewise.arrays.engine import Array, namespace
from sitewise.numerics.quadrature.node_map import NodeMaps

__all__ = ["GaussHermite", "Landmark", "Rule", "expect", "expect_with_slopes", "log_expect_exp", "tilted_moments"]

_LOG_2PI = float(np.log(2 * np.pi))

_SPACING = 1.5  # of nodes on the scale of the Gaussian, in standard deviations per unit of t
_BETA_LOG_P, _BETA_P = 0.7, 0.3  # the β of `node_map` for an expectation of log p, and of p

# The grid on which the mass of N·p is searched.
_SEARCH_SPACING = 16.0  # far from the landmark, in standard deviations per unit of t
_SEARCH_MARGIN = 9.0  # beyond the mean and the landmark, in standard deviations
_NEGLIGIBLE_DEPTH = 26.0  # values this many nats below the largest value are negligible

_Function = Callable[[jax.Array], jax.Array]  # elementwise, of nodes with a leading axis


class Rule(Protocol):
    """A quadrature rule: nodes and log weights, each of shape (q, *mean.shape).

    The mass lies within a few `sd` of `middle`.  The likelihood varies most at its landmark, at `centre` on the scale
    `width`: one landmark per row, or several on a leading axis.
    """

    def nodes(
        self, middle: jax.Array, sd: jax.Array, centre: jax.Array, width: jax.Array
    ) -> tuple[jax.Array, jax.Array]: ...


@dataclasses.dataclass(frozen=True)
class GaussHermite:
    """Gauss–Hermite quadrature, exact for polynomials of degree up to 2·points − 1 times the Gaussian."""

    points: int = 20

    def nodes(
        self, middle: jax.Array, sd: jax.Array, centre: jax.Array, width: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        x, w = np.polynomial.hermite_e.hermegauss(self.points)
        column = (-1,) + (1,) * jnp.ndim(middle)
        return middle + sd * x.reshape(column), jnp.log(sd) + (np.log(w) + 0.5 * x**2).reshape(column)


@dataclasses.dataclass(frozen=True)
class Landmark:
    """Trapezoidal rule after the substitution f = f(t): fine at the landmark, never coarser than √v."""

    points: int = 56
    reach: float = 8.5
    flat: float = _BETA_P  # the β of `node_map` for E[p]

    def nodes(self, middle: Array, sd: Array, centre: Array, width: Array) -> tuple[Array, Array]:
        xp = namespace(middle, sd)
        middle, sd = xp.broadcast_arrays(middle, sd)
        centre, width = _landmarks_per_row(centre, width, sd)
        # A landmark outside the reach of the Gaussian needs no refinement and is moved next to that reach.
        centre = xp.clip(centre, middle - 1.5 * self.reach * sd, middle + 1.5 * self.reach * sd)
        place = NodeMaps.of(centre, width, _SPACING * sd, _BETA_LOG_P)
        return trapezoid(place, middle - self.reach * sd, middle + self.reach * sd, self.points)


def _landmarks_per_row(centre: Array, width: Array, like: Array) -> tuple[Array, Array]:
    """Broadcast a single landmark to the shape of the rows; several landmarks already have one axis more."""
    if jnp.ndim(centre) > like.ndim:
        return centre, width
    xp = namespace(like)
    return xp.broadcast_to(centre, like.shape), xp.broadcast_to(width, like.shape)


def trapezoid(place: NodeMaps, low: Array, high: Array, points: int) -> tuple[Array, Array]:
    """Return nodes and log weights of the trapezoidal rule in t from f = low to f = high."""
    xp = namespace(low, high)
    first, last = place.inverse(xp.stack([low, high]))
    u = np.linspace(0.0, 1.0, points).reshape((-1,) + (1,) * jnp.ndim(first))
    f, slope = place(first + (last - first) * u)
    return f, xp.log(slope * ((last - first) / (points - 1)))


def _log_gaussian(f: Array, mean: Array, var: Array) -> Array:
    return -0.5 * ((f - mean) ** 2 / var + namespace(var).log(var) + _LOG_2PI)


def expect(
    function: _Function, mean: jax.Array, var: jax.Array, *, rule: Rule, centre: jax.Array, width: jax.Array
) -> jax.Array:
    """Return E_{N(mean, var)}[function(f)], elementwise over mean and var."""
    if isinstance(rule, GaussHermite):
        f, logc = rule.nodes(mean, jnp.sqrt(var), centre, width)
        return jnp.sum(jnp.exp(logc + _log_gaussian(f, mean, var)) * function(f), axis=0)
    f, logc = rule.nodes(*lax.stop_gradient((mean, jnp.sqrt(var), centre, width)))
    # Without the barrier XLA evaluates the likelihood again for every derivative.
    return _moment(0, *lax.optimization_barrier((f, logc, function(f))), mean, var)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _moment(order: int, f: jax.Array, logc: jax.Array, values: jax.Array, mean: jax.Array, var: jax.Array) -> jax.Array:
    """Return h_k = E_{N(mean, var)}[He_k(z) g(f)] / sd^k, z = (f − mean)/sd, He_k the Hermite polynomials.

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


# Equally spaced nodes, in standard deviations: the error is below 1e-10 for an integrand that is analytic up to a
# distance of 2.8 from the real line, such as log Φ.
_EQUAL_REACH, _MIN_EQUAL_NODES, _EQUAL_NODES_PER_SD = 8.5, 32, 25.0
_MAX_EQUAL_SD = 5.0  # for wider Gaussians the nodes of `Landmark` are cheaper


@functools.lru_cache(maxsize=64)
def _equal_rule(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes z, and the weights of Σ_j W_kj g(z_j) ≈ E_{N(0, 1)}[He_k(z) g(z)] for k = 0 … 4."""
    z, step = np.linspace(-_EQUAL_REACH, _EQUAL_REACH, points, retstep=True)
    density = np.exp(-0.5 * z**2 - 0.5 * _LOG_2PI) * step
    return z[:, None], np.polynomial.hermite_e.hermevander(z, 4).T * density


def expect_with_slopes(function: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return h_k of `_moment` for k = 0 … 4, on NumPy arrays: an expectation and its derivatives in the mean.

    The function has its landmark at 0 with the width 1, as log Φ does.  Where no Gaussian is much wider, the nodes are
    equally spaced, so that all five are one matrix product.
    """
    sd = np.sqrt(var)
    widest = sd.max(initial=0.0)
    if widest > _MAX_EQUAL_SD:
        wide = sd > _MAX_EQUAL_SD
        found = np.empty((5, len(sd)))
        found[:, wide] = _wide_expectations(function, mean[wide], var[wide])
        if not wide.all():
            found[:, ~wide] = expect_with_slopes(function, mean[~wide], var[~wide])
        return found
    points = 8 * math.ceil(max(_MIN_EQUAL_NODES, _EQUAL_NODES_PER_SD * widest) / 8)
    z, weights = _equal_rule(points)
    moments = weights @ function(mean + sd * z)
    moments[1] /= sd
    moments[2] /= var
    moments[3] /= sd * var
    moments[4] /= var * var
    return moments


def _wide_expectations(function: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return `expect_with_slopes` at the nodes of `Landmark`, for Gaussians much wider than the function's landmark."""
    sd = np.sqrt(var)
    f, logc = Landmark().nodes(mean, sd, np.float64(0.0), np.float64(1.0))
    z = (f - mean) / sd
    terms = np.exp(logc + _log_gaussian(f, mean, var)) * function(f)
    sums = [terms.sum(axis=0)]  # Σ terms zᵏ, from which He_0 … He_4 follow
    for _ in range(4):
        terms *= z
        sums.append(terms.sum(axis=0))
    s0, s1, s2, s3, s4 = sums
    return np.stack([s0, s1 / sd, (s2 - s0) / var, (s3 - 3 * s1) / (sd * var), (s4 - 6 * s2 + 3 * s0) / var**2])


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
    """Return log E_{N(mean, var)}[exp function(f)], elementwise, without under- or overflow.

    The mode and the width of the tilted density are found first.  If the landmark's grid would be too coarse at the
    mode, the mode replaces the landmark.

    guide    a cheaper approximation of `function` for the search of the mode
    start    a point near the mass, for the case that the mass is not within reach of the Gaussian
    """
    f, logc = _nodes_of_mass(guide or function, mean, var, rule, centre, width, start)
    return logsumexp(logc + _log_gaussian(f, mean, var) + function(f), axis=0)


def tilted_moments(
    function: _Function, mean: jax.Array, var: jax.Array, *, rule: Rule, centre: jax.Array, width: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the shift of the mean and the ratio of the variances of the tilted density ∝ N(mean, var)·exp function(f).

    The shift is the tilted mean minus `mean`; the ratio is the tilted variance over `var`.  With constant nodes they
    are v·ℓ' and 1 + v·ℓ'' of ℓ = `log_expect_exp`.  Differentiating ℓ twice would lose digits where the tilted density
    is much narrower than the Gaussian (large counts).
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
    """Return nodes and log weights for the tilted density, held constant in derivatives if the rule is `Landmark`."""
    if not isinstance(rule, Landmark):
        return rule.nodes(mean, jnp.sqrt(var), centre, width)
    # The gradient is stopped before the search, not only after it: the search differentiates `guide` twice, and a
    # likelihood need not have more derivatives than inference requires.
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
    """Search the mode and the extent of N·exp function, and return nodes and log weights there."""
    mean, var = jnp.broadcast_arrays(mean, var)
    centre, width = _landmarks_per_row(centre, width, var)

    def height(f: jax.Array) -> jax.Array:
        return function(f) - 0.5 * (f - mean) ** 2 / var

    def slope(f: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.jvp(height, (f,), (jnp.ones_like(f),))

    sd = jnp.sqrt(var)
    search_points = 3 * rule.points // 4
    # The mass of N·p lies between the Gaussian and the likelihood, or next to one of them.
    lowest, highest = (centre, centre) if centre.ndim == sd.ndim else (jnp.min(centre, 0), jnp.max(centre, 0))
    ends = jnp.minimum(mean, lowest) - _SEARCH_MARGIN * sd, jnp.maximum(mean, highest) + _SEARCH_MARGIN * sd
    spacing = jnp.maximum(_SEARCH_SPACING * sd, 0.1 * (ends[1] - ends[0]))
    grid, logc = trapezoid(NodeMaps.of(centre, width, spacing, rule.flat), *ends, search_points)
    heights = height(grid)
    heights = jnp.where(jnp.isfinite(heights), heights, -jnp.inf)
    best, highest_seen = jnp.argmax(heights, axis=0), jnp.max(heights, axis=0)
    at = jnp.take_along_axis(grid, best[None], axis=0)[0]
    gap = jnp.exp(jnp.take_along_axis(logc, best[None], axis=0)[0])
    if start is not None:
        higher = height(start) > highest_seen
        at, gap = jnp.where(higher, start, at), jnp.where(higher, sd, gap)

    def newton(_: jax.Array, known: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        """Take a step from `at`; keep the best point so far, its height and its curvature."""
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

    # Range of the nodes: from the first to the last grid point at which N·p is not negligible, and their neighbours.
    seen = heights > jnp.maximum(top, highest_seen) - _NEGLIGIBLE_DEPTH
    kept_points, none = seen | (heights == highest_seen), jnp.zeros_like(seen[:1])
    near = kept_points | jnp.concatenate([kept_points[1:], none]) | jnp.concatenate([none, kept_points[:-1]])
    low, lowest = (jnp.minimum(jnp.min(jnp.where(points, grid, jnp.inf), axis=0), mode) for points in (near, seen))
    high, highest = (jnp.maximum(jnp.max(jnp.where(points, grid, -jnp.inf), axis=0), mode) for points in (near, seen))
    reach = 1.3 * rule.reach * sd
    low, high = jnp.maximum(low, lowest - reach), jnp.minimum(high, highest + reach)

    centre = jnp.clip(centre, low - reach, high + reach)
    spacing = jnp.hypot(width, mode - centre)
    spacing = jnp.minimum(spacing if centre.ndim == sd.ndim else jnp.min(spacing, axis=0), _SPACING * sd)
    coarse = spacing > 2.0 * tilted_sd
    place = NodeMaps.of(jnp.where(coarse, mode, centre), jnp.where(coarse, tilted_sd, width), _SPACING * sd, rule.flat)
    return trapezoid(place, low, high, rule.points)
