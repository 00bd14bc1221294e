"""Elliptical slice sampling (Murray, Adams & MacKay 2010).

A step leaves N(f; mean, root rootᵀ) · exp(τ·r(f)) invariant.  ν ~ N(0, root rootᵀ) and the current point span an
ellipse.  The new point lies on the ellipse, at an angle found by shrinking a bracket around the current point.  There
is no step size to set.

All chains (columns) move at once: the bracket loop runs until the slowest chain has accepted, or `max_shrinks` times.
A chain that has not accepted by then stays at its point; the move remains reversible and leaves the target invariant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Residual = Callable[[jax.Array], jax.Array]  # r of every column: (n, chains) to (chains,)


class State(NamedTuple):
    """State of all chains: `position` is (n, chains), `residual` is r per chain."""

    position: jax.Array
    residual: jax.Array


class Info(NamedTuple):
    """Per chain: the accepted angle (0 if the chain stayed) and the number of shrinks of the bracket."""

    angle: jax.Array
    shrinks: jax.Array


def init(position: jax.Array, residual: Residual) -> State:
    return State(position, residual(position))


def step(
    key: jax.Array,
    state: State,
    residual: Residual,
    mean: jax.Array,
    root: jax.Array,
    *,
    tau: float | jax.Array = 1.0,
    max_shrinks: int = 40,
) -> tuple[State, Info]:
    """Make one transition of every chain."""
    n, chains = state.position.shape
    dtype = state.position.dtype
    key_nu, key_height, key_angle, key_shrink = jax.random.split(key, 4)
    centre = mean[:, None]
    nu = root @ jax.random.normal(key_nu, (n, chains), dtype)
    present = state.position - centre
    height = tau * state.residual + jnp.log(jax.random.uniform(key_height, (chains,), dtype, minval=1e-300))
    angle = 2 * np.pi * jax.random.uniform(key_angle, (chains,), dtype)

    def point(angle: jax.Array) -> jax.Array:
        return centre + present * jnp.cos(angle) + nu * jnp.sin(angle)

    class Loop(NamedTuple):
        angle: jax.Array
        low: jax.Array
        high: jax.Array
        residual: jax.Array
        moving: jax.Array
        shrinks: jax.Array
        turn: jax.Array

    def any_moving(s: Loop) -> jax.Array:
        return jnp.any(s.moving) & (s.turn <= max_shrinks)

    def body(s: Loop) -> Loop:
        value = residual(point(s.angle))
        accept = s.moving & (tau * value > height)
        moving = s.moving & ~accept
        low = jnp.where(moving & (s.angle < 0), s.angle, s.low)
        high = jnp.where(moving & (s.angle >= 0), s.angle, s.high)
        u = jax.random.uniform(jax.random.fold_in(key_shrink, s.turn), (chains,), dtype)
        return Loop(
            jnp.where(moving, low + u * (high - low), s.angle),
            low,
            high,
            jnp.where(accept, value, s.residual),
            moving,
            s.shrinks + moving,
            s.turn + 1,
        )

    start = Loop(
        angle,
        angle - 2 * np.pi,
        angle,
        state.residual,
        jnp.ones(chains, bool),
        jnp.zeros(chains, jnp.int32),
        jnp.zeros((), jnp.int32),
    )
    end = lax.while_loop(any_moving, body, start)
    angle = jnp.where(end.moving, 0.0, end.angle)
    return State(point(angle), end.residual), Info(angle, end.shrinks)
