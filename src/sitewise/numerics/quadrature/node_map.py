"""Change of variables t ↦ f for quadrature, under which an integrand with several scales varies on the scale of 1.

The trapezoidal rule in t has the spacing h·df/dt in f.  Around a landmark (centre c, width w) of an integrand whose
largest scale is L ≥ w, with 0 < β ≤ 1, G = L − (1−β)w and T = log(2G/(βw)),

    f  = c + (1−β)·w·t + G·log((1 + e^(t−T)) / (1 + e^(−t−T))),
    f' = (1−β)·w + G·(σ(t−T) + σ(−t−T)).

Next to c the spacing is w(1 − β + β cosh t): the smaller β is, the longer the spacing is almost constant.  Farther out
it is proportional to the distance, until it reaches L.  Poles at c ± iw, as of log p(y|f), need β near 1.  A cliff such
as exp(−eᶠ), which is several of its own widths long, needs a small β (with β = 1 it falls between the nodes: this was
the error of version 0.1.0).  The map is analytic for |Im t| < π, so the error falls exponentially with the number of
points.

A second landmark adds a second map of the same form, from its t to the t of the first map, with L = 1 and the width in
units of the first map's spacing there (`NodeMaps`).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

_NEWTON_STEPS = 3  # from outside: the ends of a rule may lie a little too far out


class NodeMap(NamedTuple):
    """The map t ↦ f around one landmark."""

    centre: jax.Array
    growth: jax.Array  # G
    knee: jax.Array  # T
    steady: jax.Array  # (1−β)·w

    @staticmethod
    def of(centre: jax.Array, width: jax.Array, scale: jax.Array, beta: float) -> NodeMap:
        width = jnp.minimum(width, scale)
        steady = (1 - beta) * width
        growth = scale - steady
        return NodeMap(centre, growth, jnp.log(growth / (0.5 * beta * width)), steady)

    def __call__(self, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return f and f'."""
        up, down = jnp.exp(t - self.knee), jnp.exp(-t - self.knee)
        f = self.centre + self.steady * t + self.growth * jnp.log((1 + up) / (1 + down))
        return f, self.steady + self.growth * (up / (1 + up) + down / (1 + down))

    def inverse(self, f: jax.Array) -> jax.Array:
        """Return t, or a value a little farther from 0: f is convex on either side, and Newton's method starts outside.

        Each of the two terms of f alone bounds |t|, which gives the start.
        """
        distance = jnp.abs(f - self.centre)
        share = distance / self.growth + jnp.log1p(jnp.exp(-self.knee))
        first = self.knee + share + jnp.log(-jnp.expm1(-share))
        t = jnp.minimum(distance / self.steady, jnp.maximum(first, 0.0))

        def newton(_: jax.Array, t: jax.Array) -> jax.Array:
            there, slope = self(t)
            return jnp.maximum(t - (there - self.centre - distance) / slope, 0.0)

        return jnp.copysign(lax.fori_loop(0, _NEWTON_STEPS, newton, t), f - self.centre)


class NodeMaps(NamedTuple):
    """The composition of one `NodeMap` per landmark, the outermost first."""

    maps: tuple[NodeMap, ...]

    @staticmethod
    def of(centre: jax.Array, width: jax.Array, scale: jax.Array, beta: float) -> NodeMaps:
        """Build the maps of one landmark per row, or of several on a leading axis."""
        if jnp.ndim(centre) == jnp.ndim(scale):
            return NodeMaps((NodeMap.of(centre, width, scale, beta),))
        places = NodeMaps((NodeMap.of(centre[0], width[0], scale, beta),))
        for c, w in zip(centre[1:], width[1:], strict=True):
            t = places.inverse(c)
            places = NodeMaps((*places.maps, NodeMap.of(t, w / places(t)[1], jnp.ones_like(t), beta)))
        return places

    def __call__(self, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return f and f'."""
        slope = jnp.ones_like(t)
        for place in reversed(self.maps):
            t, factor = place(t)
            slope = slope * factor
        return t, slope

    def inverse(self, f: jax.Array) -> jax.Array:
        """Return t, as `NodeMap.inverse`."""
        for place in self.maps:
            f = place.inverse(f)
        return f
