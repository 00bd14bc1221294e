"""Where an unknown log p(y|f) bends: the landmarks of a likelihood that gives nothing but `log_prob`.

The first is the mode of log p − log(1 + f²/100) on a grid of |f| ≤ 10⁴, with the smaller of two widths: by curvature,
and by the distance at which half a nat is lost (at the edge of a plateau there is no curvature).  The second is,
outside of the first, the highest other mode, or else the steepest cliff of p.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_GRID = 0.1 * np.sinh(np.linspace(-12.2, 12.2, 321))
_WIDEST = 10.0  # width where log p has no curvature
_HALVINGS = 40
_DEPTH = 30.0  # nats below the top at which another mode is ignored


def find(log_prob: Callable[[Array], Array], like: Array) -> tuple[Array, Array]:
    """Centres and widths of two landmarks per row, on a leading axis; a second that is not needed is infinitely wide.

    log_prob is elementwise, of f with a leading axis; `like` has the shape of the rows.
    """
    grid = jnp.asarray(_GRID, like.dtype).reshape((-1,) + (1,) * like.ndim) + jnp.zeros_like(like)
    values = log_prob(grid)
    values = jnp.where(jnp.isfinite(values), values, -jnp.inf)
    heights = values - jnp.log1p((grid / _WIDEST) ** 2)
    top, best = jnp.max(heights, axis=0), jnp.argmax(heights, axis=0)
    centre, width = _refine(log_prob, grid, best)
    lost = jnp.min(jnp.where(values < _take(values, best) - 0.5, jnp.abs(grid - centre), jnp.inf), axis=0)
    width = jnp.minimum(width, lost)

    distance = jnp.abs(grid - centre) / width
    edge = jnp.full_like(heights[:1], -jnp.inf)
    before, after = jnp.concatenate([edge, heights[:-1]]), jnp.concatenate([heights[1:], edge])
    apart = jnp.abs(jnp.arange(len(_GRID)).reshape((-1,) + (1,) * like.ndim) - best) > 1
    modes = jnp.where((distance > 4) & apart & (heights >= before) & (heights >= after), heights, -jnp.inf)
    modes = jnp.where(modes > top - _DEPTH, modes, -jnp.inf)
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


def _take(values: Array, index: Array) -> Array:
    return jnp.take_along_axis(values, index[None], axis=0)[0]


def _refine(log_prob: Callable[[Array], Array], grid: Array, index: Array) -> tuple[Array, Array]:
    """The mode between the neighbours of a point of the grid, by bisection of the slope, and the width there."""

    def slope(f: Array) -> Array:
        return jax.jvp(log_prob, (f,), (jnp.ones_like(f),))[1]

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        rising = slope(middle) > 0
        return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

    ends = _take(grid, jnp.maximum(index - 1, 0)), _take(grid, jnp.minimum(index + 1, len(_GRID) - 1))
    low, high = lax.fori_loop(0, _HALVINGS, halve, ends)
    mode = 0.5 * (low + high)
    curvature = -jax.jvp(slope, (mode,), (jnp.ones_like(mode),))[1]
    return mode, 1 / jnp.sqrt(jnp.clip(jnp.nan_to_num(curvature), _WIDEST**-2, 1e12))
