"""Anderson's acceleration of the iteration λ ← T(λ) (Anderson 1965; Walker & Ni 2011), on NumPy arrays.

With g = T(λ) − λ, in units of the marginal, the next point combines the last updates as their gaps cancel best:

    λ⁺ = T(λ_k) − Σ_j γ_j (T(λ_{j+1}) − T(λ_j)),    γ = argmin |g_k − Σ_j γ_j (g_{j+1} − g_j)|²

It is a secant method for g = 0: without a derivative, and without a product with the covariance, which costs as much as
a conditioning on a sparse prior.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sitewise.arrays.engine import Array
from sitewise.inference.update import Point
from sitewise.numerics.dense.symmetric import least_squares
from sitewise.sites import Sites

_DEPTH = 4  # points that are combined
_PATIENCE = 4  # steps in which the residual is to be halved


class Seen(NamedTuple):
    """What is kept of a point: T(λ), T(λ) − λ and the residual."""

    target: Sites
    gap: Sites
    residual: Array


def with_point(seen: tuple[Seen, ...], point: Point) -> tuple[Seen, ...] | None:
    """The points to combine, this one the last; None where combining them has not helped."""
    if len(seen) >= _PATIENCE and point.residual > 0.5 * seen[-_PATIENCE].residual:
        return None
    gap = Sites(*(t - s for t, s in zip(point.target, point.sites, strict=True)))
    return (*seen[1 - _DEPTH :], Seen(point.target, gap, point.residual))


def direction(seen: tuple[Seen, ...], unit: np.ndarray) -> Sites:
    """The step from the last of these points to λ⁺; `unit` is a variance for each row (`SiteUpdate.unit`)."""
    last, scales = seen[-1], (np.sqrt(unit), unit)
    if len(seen) == 1:
        return last.gap
    each = zip(*(one.gap for one in seen), strict=True)  # nat1 of all points, then prec
    shares = least_squares(np.stack(gaps) * scale for gaps, scale in zip(each, scales, strict=True))
    step = list(last.gap)
    for share, one, after in zip(shares, seen[:-1], seen[1:], strict=True):
        step = [s - share * (b - a) for s, a, b in zip(step, one.target, after.target, strict=True)]
    return Sites(*step)
