"""Anderson acceleration of the fixed-point iteration λ ← T(λ) (Anderson 1965; Walker & Ni 2011), on NumPy arrays.

With the gap g = T(λ) − λ in units of the marginal, the next point is the combination of the last updates whose gap is
smallest:

    λ⁺ = T(λ_k) − Σ_j γ_j (T(λ_{j+1}) − T(λ_j)),    γ = argmin |g_k − Σ_j γ_j (g_{j+1} − g_j)|²

This is a secant method for g = 0.  It needs no derivatives and no products with the covariance, each of which costs as
much as conditioning a sparse prior.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sitewise.arrays.engine import Array
from sitewise.inference.update import Point
from sitewise.numerics.dense.symmetric import least_squares
from sitewise.sites import Sites

_MAX_POINTS = 4  # points that are combined
_HALVING_STEPS = 4  # acceleration ends unless the residual is halved within this number of steps


class Seen(NamedTuple):
    """The stored values of a point: T(λ), T(λ) − λ and the residual."""

    target: Sites
    gap: Sites
    residual: Array


def with_point(seen: tuple[Seen, ...], point: Point) -> tuple[Seen, ...] | None:
    """Return the points to combine, ending with this point; None if acceleration has not halved the residual."""
    if len(seen) >= _HALVING_STEPS and point.residual > 0.5 * seen[-_HALVING_STEPS].residual:
        return None
    gap = Sites(*(t - s for t, s in zip(point.target, point.sites, strict=True)))
    return (*seen[1 - _MAX_POINTS :], Seen(point.target, gap, point.residual))


def direction(seen: tuple[Seen, ...], unit: np.ndarray) -> Sites:
    """Return the step from the last point to λ⁺; `unit` is a variance per row (`SiteUpdate.unit`)."""
    last, scales = seen[-1], (np.sqrt(unit), unit)
    if len(seen) == 1:
        return last.gap
    each = zip(*(one.gap for one in seen), strict=True)  # nat1 of all points, then prec
    shares = least_squares(
        (np.stack(gaps) * scale).reshape(len(seen), -1) for gaps, scale in zip(each, scales, strict=True)
    )
    step = list(last.gap)
    for share, one, after in zip(shares, seen[:-1], seen[1:], strict=True):
        step = [s - share * (b - a) for s, a, b in zip(step, one.target, after.target, strict=True)]
    return Sites(*step)
