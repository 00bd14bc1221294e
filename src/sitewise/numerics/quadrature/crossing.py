"""Root of an increasing function of one variable by bracketing, elementwise and without derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

_MAX_REACH = 4096.0  # largest distance from the start at which a bracket is sought
_MAX_STEPS = 120

_Function = Callable[[jax.Array], jax.Array]


class _Bracket(NamedTuple):
    """A bracket f(low) < 0 ≤ f(high), the next point to evaluate, and the step with which the bracket is widened.

    An infinite f_low or f_high means that this end is not found yet.
    """

    low: jax.Array
    f_low: jax.Array
    high: jax.Array
    f_high: jax.Array
    point: jax.Array
    reach: jax.Array


def crossing(
    function: _Function, start: jax.Array, closed: Callable[[jax.Array, jax.Array], jax.Array] | None = None
) -> jax.Array:
    """Return the upper end of a bracket f(low) < 0 ≤ f(high) that is as narrow as rounding allows.

    The search ends earlier where closed(low, high) holds.  It evaluates f at start, start ± 1, ± 3, ± 7, … until both
    signs have occurred.  The bracket is then cut by inverse quadratic interpolation where the last three points allow
    it, and else halved (Chandrupatla 1997); steps and plateaus of f do no harm.  If f is negative up to start + 4096,
    the result is start + 4096.
    """
    spacing = 4 * float(jnp.finfo(start.dtype).eps)

    def done(at: _Bracket) -> jax.Array:
        narrow = (at.high - at.low <= spacing * (1 + jnp.abs(at.high))) | (at.reach > _MAX_REACH)
        return narrow if closed is None else narrow | closed(at.low, at.high)

    def unfinished(state: tuple[jax.Array, _Bracket]) -> jax.Array:
        return (state[0] < _MAX_STEPS) & ~jnp.all(done(state[1]))

    def step(state: tuple[jax.Array, _Bracket]) -> tuple[jax.Array, _Bracket]:
        count, at = state
        f = function(at.point)
        up = f >= 0
        low, f_low = jnp.where(up, at.low, at.point), jnp.where(up, at.f_low, f)
        high, f_high = jnp.where(up, at.point, at.high), jnp.where(up, f, at.f_high)
        replaced, f_replaced = jnp.where(up, at.high, at.low), jnp.where(up, at.f_high, at.f_low)
        point = low + (high - low) * _cut_share(up, low, f_low, high, f_high, replaced, f_replaced, spacing)
        point = jnp.where(jnp.isinf(f_high), low + at.reach, jnp.where(jnp.isinf(f_low), high - at.reach, point))
        widening = jnp.isinf(f_low) | jnp.isinf(f_high)
        new = _Bracket(low, f_low, high, f_high, point, jnp.where(widening, 2 * at.reach, at.reach))
        return count + 1, jax.tree.map(lambda old, new: jnp.where(done(at), old, new), at, new)

    unknown = jnp.full_like(start, jnp.inf)
    first = _Bracket(start - _MAX_REACH, -unknown, start + _MAX_REACH, unknown, start, jnp.ones_like(start))
    return lax.while_loop(unfinished, step, (jnp.zeros((), jnp.int32), first))[1].high


def _cut_share(
    up: jax.Array,
    low: jax.Array,
    f_low: jax.Array,
    high: jax.Array,
    f_high: jax.Array,
    x: jax.Array,
    f_x: jax.Array,
    spacing: float,
) -> jax.Array:
    """Return the share of the bracket below the next point, by inverse quadratic interpolation.

    The interpolation uses both ends and the last replaced end x.  The share is ½ where the parabola is not monotone.
    """
    a, f_a, b, f_b = (jnp.where(up, p, q) for p, q in ((high, low), (f_high, f_low), (low, high), (f_low, f_high)))
    place, height = (a - b) / (x - b), (f_a - f_b) / (f_x - f_b)
    fits = (height**2 < place) & ((1 - height) ** 2 < 1 - place)
    share = f_a / (f_b - f_a) * f_x / (f_b - f_x) + (x - a) / (b - a) * f_a / (f_x - f_a) * f_b / (f_x - f_b)
    share = jnp.where(up, 1 - share, share)
    edge = jnp.minimum(spacing * (1 + jnp.abs(high)) / (high - low), 0.5)
    return jnp.where(fits & jnp.isfinite(share), jnp.clip(share, edge, 1 - edge), 0.5)
