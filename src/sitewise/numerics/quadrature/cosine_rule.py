"""Quadrature rule for a Gaussian times exp(κ cos(f − c)), the density of a von Mises distribution, for all κ.

In x = f − m, with d = c − m between −π and π (for d < 0 everything is mirrored), the integrand is exp h(x),

    h(x) = −2κ sin²((x − d)/2) − x²/(2v).

h has a single maximum x₁ between d − π and d + π, in [0, d].  The turn below has a second maximum x₂ between d − 2π and
d − 2π + arccos(−1/(κv)) if κv > 1 and h falls at the upper of these two points.  The second maximum matters for d near
π, where the Gaussian reaches c and c − 2π equally well.  All other maxima are negligible for v ≤ ½.  If exp h is
negligible at d − π, the two maxima get nodes of their own.  Otherwise one set of nodes covers both.  The nodes are
dense around a maximum on the scale 1/√(κ + 1/v), the smallest width that a maximum of h can have, and they end where
exp h is negligible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.numerics.quadrature.gaussian_rules import trapezoid
from sitewise.numerics.quadrature.node_map import NodeMaps

MAX_VARIANCE = 0.5  # of the Gaussian: above, further turns matter
_POINTS = 80  # per maximum
_SPACING = 1.5  # of nodes far from the maxima, in standard deviations of the Gaussian per unit of t
_BETA = 0.3  # β of `node_map`
_MIN_WIDTH_SHARE = 0.015  # of the range of the nodes: the maximum is flat for d = π and κv = 1
_NEGLIGIBLE_DEPTH = 40.0  # values this many nats below the largest value are negligible
_REACH = 9.0  # standard deviations of the Gaussian: exp(−9²/2) is negligible
_BISECTIONS = 40


class CosineRule(NamedTuple):
    """Nodes and log weights for N(f; m, v) exp(κ cos(f − c)) with v ≤ `MAX_VARIANCE`; see `gaussian_rules.Rule`.

    `centre` of `nodes` is c, in any turn; `width` is not used.  The nodes are held constant in derivatives.
    """

    kappa: jax.Array

    def nodes(
        self, middle: jax.Array, sd: jax.Array, centre: jax.Array, width: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        kappa, middle, sd, centre = lax.stop_gradient((self.kappa, middle, sd, centre))
        d = centre - middle
        d = d - 2 * np.pi * jnp.round(d / (2 * np.pi))
        side, d, var = jnp.where(d < 0, -1.0, 1.0), jnp.abs(d), sd**2

        def height(x: jax.Array) -> jax.Array:
            return -2 * kappa * jnp.sin(0.5 * (x - d)) ** 2 - 0.5 * x**2 / var

        def rising(x: jax.Array) -> jax.Array:
            return kappa * jnp.sin(d - x) - x / var > 0

        first = _last(rising, jnp.zeros_like(d), d)
        bottom = height(first) - _NEGLIGIBLE_DEPTH

        def seen(x: jax.Array) -> jax.Array:
            return height(x) > bottom

        valley, lowest = d - np.pi, d - 2 * np.pi - _REACH * sd
        steepest = d - 2 * np.pi + jnp.arccos(-1 / jnp.maximum(kappa * var, 1.0))
        second = _last(rising, d - 2 * np.pi, steepest)
        has_second = (kappa * var > 1) & ~rising(steepest) & seen(second)
        apart = has_second & ~seen(valley)
        low = _last(seen, jnp.where(has_second & ~apart, second, first), jnp.where(apart, valley, lowest))
        high = _last(seen, first, jnp.maximum(d + np.pi, first + _REACH * sd))
        least = 1 / jnp.sqrt(kappa + 1 / var)

        def nodes(mode: jax.Array, low: jax.Array, high: jax.Array) -> tuple[jax.Array, jax.Array]:
            width = jnp.maximum(least, _MIN_WIDTH_SHARE * (high - low))
            place = NodeMaps.of(mode, width, jnp.maximum(_SPACING * sd, 5 * width), _BETA)
            return trapezoid(place, low, high, _POINTS)

        near, log_near = nodes(first, low, high)
        far, log_far = nodes(second, _last(seen, second, lowest), _last(seen, second, valley))
        log_far = jnp.where(apart, log_far, -jnp.inf)
        return middle + side * jnp.concatenate([near, far]), jnp.concatenate([log_near, log_far])


def _last(holds: Callable[[jax.Array], jax.Array], start: jax.Array, end: jax.Array) -> jax.Array:
    """Return the point between start and end up to which a condition holds, by bisection."""

    def halve(_: jax.Array, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        inside, outside = ends
        between = 0.5 * (inside + outside)
        here = holds(between)
        return jnp.where(here, between, inside), jnp.where(here, outside, between)

    inside, outside = lax.fori_loop(0, _BISECTIONS, halve, (start, end))
    return 0.5 * (inside + outside)
