"""Landmarks of a likelihood, the points of the f axis where log p bends: by a search, or for values between limits.

`find_landmarks` searches for likelihoods that define only `log_prob`.  The first landmark is the mode of log p − log(1
+ f²/100) on a grid of |f| ≤ 10⁴.  Its width is the smaller of two widths: from the curvature, and the distance at which
log p has fallen by half a nat (the edge of a plateau has no curvature).  The second landmark is the highest other mode
outside the first landmark, or else the steepest edge of p.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_GRID = 0.1 * np.sinh(np.linspace(-12.2, 12.2, 321))
_MAX_WIDTH = 10.0  # width of a landmark where log p has no curvature
_BISECTIONS = 40
_IGNORED_DEPTH = 30.0  # nats below the highest mode beyond which another mode is ignored


def find_landmarks(log_prob: Callable[[Array], Array], like: Array) -> tuple[Array, Array]:
    """Return the centres and widths of two landmarks per row, on a leading axis.

    An unnecessary second landmark has infinite width.  log_prob is elementwise, for f with a leading axis; `like` has
    the shape of the rows.
    """
    grid = jnp.asarray(_GRID, like.dtype).reshape((-1,) + (1,) * like.ndim) + jnp.zeros_like(like)
    values = log_prob(grid)
    values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
    heights = values - jnp.log1p((grid / _MAX_WIDTH) ** 2)
    top, best = jnp.max(heights, axis=0), jnp.argmax(heights, axis=0)
    centre, width = _refine(log_prob, grid, best)
    lost = jnp.min(jnp.where(values < _take(values, best) - 0.5, jnp.abs(grid - centre), jnp.inf), axis=0)
    width = jnp.minimum(width, lost)

    distance = jnp.abs(grid - centre) / width
    edge = jnp.full_like(heights[:1], -jnp.inf)
    before, after = jnp.concatenate([edge, heights[:-1]]), jnp.concatenate([heights[1:], edge])
    apart = jnp.abs(jnp.arange(len(_GRID)).reshape((-1,) + (1,) * like.ndim) - best) > 1
    modes = jnp.where((distance > 4) & apart & (heights >= before) & (heights >= after), heights, -jnp.inf)
    modes = jnp.where(modes > top - _IGNORED_DEPTH, modes, -jnp.inf)
    other, other_width = _refine(log_prob, grid, jnp.argmax(modes, axis=0))

    level = jnp.exp(values - jnp.max(values, axis=0))
    drop = jnp.where(distance[1:] > 1, jnp.abs(level[1:] - level[:-1]), 0.0)
    steepest = jnp.argmax(drop, axis=0)
    left, right = _take(grid, steepest), _take(grid, steepest + 1)
    loss = jnp.abs(_take(values, steepest) - _take(values, steepest + 1))
    cliff = jnp.where(jnp.max(drop, axis=0) > 1e-3, (right - left) / jnp.maximum(loss, 1e-3), jnp.inf)

    bimodal = jnp.any(jnp.isfinite(modes), axis=0)
    second = jnp.where(bimodal, other, 0.5 * (left + right))
    second_width = jnp.where(bimodal, other_width, cliff)
    return lax.stop_gradient((jnp.stack([centre, second]), jnp.stack([width, second_width])))


def middle_landmark(low: Array, high: Array, scale: Array | float) -> tuple[Array, Array]:
    """Return the landmark of log p for a value between two limits with noise of this scale; a limit may be infinite."""
    low, high = jnp.where(jnp.isinf(low), high, low), jnp.where(jnp.isinf(high), low, high)
    return 0.5 * (low + high), scale + 0.25 * (high - low)


def limit_landmarks(low: Array, high: Array, scale: Array | float) -> tuple[Array, Array]:
    """Return both finite limits, where p falls on the scale of the noise; an infinite limit gets an infinite width."""
    below, above = jnp.isinf(low), jnp.isinf(high)
    centre = jnp.stack([jnp.where(below, high, low), jnp.where(above, low, high)])
    width = jnp.broadcast_to(jnp.asarray(scale, centre.dtype), low.shape)
    return centre, jnp.stack([width, jnp.where(below | above, jnp.inf, width)])


def _take(values: Array, index: Array) -> Array:
    return jnp.take_along_axis(values, index[None], axis=0)[0]


def _refine(log_prob: Callable[[Array], Array], grid: Array, index: Array) -> tuple[Array, Array]:
    """Return the mode between the two neighbours of a grid point, by bisection of the slope, and its width."""

    def slope(f: Array) -> Array:
        return jax.jvp(log_prob, (f,), (jnp.ones_like(f),))[1]

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        rising = slope(middle) > 0
        return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

    ends = _take(grid, jnp.maximum(index - 1, 0)), _take(grid, jnp.minimum(index + 1, len(_GRID) - 1))
    low, high = lax.fori_loop(0, _BISECTIONS, halve, ends)
    mode = 0.5 * (low + high)
    curvature = -jax.jvp(slope, (mode,), (jnp.ones_like(mode),))[1]
    return mode, 1 / jnp.sqrt(jnp.clip(jnp.nan_to_num(curvature), _MAX_WIDTH**-2, 1e12))
