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

import jax.numpy as jnp

from sitewise.arrays.engine import Array, namespace, repeat

_NEWTON_STEPS = 3  # from outside: the ends of a rule may lie a little too far out


class NodeMap(NamedTuple):
    """The map t ↦ f around one landmark."""

    centre: Array
    growth: Array  # G
    knee: Array  # T
    steady: Array  # (1−β)·w

    @staticmethod
    def of(centre: Array, width: Array, scale: Array, beta: float) -> NodeMap:
        xp = namespace(centre, width, scale)
        width = xp.minimum(width, scale)
        steady = (1 - beta) * width
        growth = scale - steady
        return NodeMap(centre, growth, xp.log(growth / (0.5 * beta * width)), steady)

    def __call__(self, t: Array) -> tuple[Array, Array]:
        """Return f and f'."""
        xp = namespace(t, self.knee)
        up, down = xp.exp(t - self.knee), xp.exp(-t - self.knee)
        f = self.centre + self.steady * t + self.growth * xp.log((1 + up) / (1 + down))
        return f, self.steady + self.growth * (up / (1 + up) + down / (1 + down))

    def inverse(self, f: Array) -> Array:
        """Return t, or a value a little farther from 0: f is convex on either side, and Newton's method starts outside.

        Each of the two terms of f alone bounds |t|, which gives the start.
        """
        xp = namespace(f, self.knee)
        distance = xp.abs(f - self.centre)
        share = distance / self.growth + xp.log1p(xp.exp(-self.knee))
        first = self.knee + share + xp.log(-xp.expm1(-share))
        t = xp.minimum(distance / self.steady, xp.maximum(first, 0.0))

        def newton(t: Array) -> Array:
            there, slope = self(t)
            return xp.maximum(t - (there - self.centre - distance) / slope, 0.0)

        return xp.copysign(repeat(_NEWTON_STEPS, newton, t), f - self.centre)


class NodeMaps(NamedTuple):
    """The composition of one `NodeMap` per landmark, the outermost first."""

    maps: tuple[NodeMap, ...]

    @staticmethod
    def of(centre: Array, width: Array, scale: Array, beta: float) -> NodeMaps:
        """Build the maps of one landmark per row, or of several on a leading axis."""
        if jnp.ndim(centre) == jnp.ndim(scale):
            return NodeMaps((NodeMap.of(centre, width, scale, beta),))
        places = NodeMaps((NodeMap.of(centre[0], width[0], scale, beta),))
        for c, w in zip(centre[1:], width[1:], strict=True):
            t = places.inverse(c)
            places = NodeMaps((*places.maps, NodeMap.of(t, w / places(t)[1], jnp.ones_like(t), beta)))
        return places

    def __call__(self, t: Array) -> tuple[Array, Array]:
        """Return f and f'."""
        slope = namespace(t).ones_like(t)
        for place in reversed(self.maps):
            t, factor = place(t)
            slope = slope * factor
        return t, slope

    def inverse(self, f: Array) -> Array:
        """Return t, as `NodeMap.inverse`."""
        for place in self.maps:
            f = place.inverse(f)
        return f
