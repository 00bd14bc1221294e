"""Ascent of a costly function f by the help of a cheap one of similar shape: the same objective on some of the rows.

At x the cheap function c is corrected to have the gradient of f there, and the curvature as far as it is known,

    c(x + d) + (∇f(x) − ∇c(x))ᵀ d + ½ dᵀ E d                 (first-order consistency: Alexandrov & Lewis 2001)

and maximised in a box around x by many cheap evaluations; f is evaluated once at its maximum.  A quasi-Newton ascent
knows f as a parabola, this one with all the bends that c shares with f.  Where the step gains less than was expected
the box shrinks.  E is what the gradients have shown of the difference of the two Hessians (Powell's symmetric update),

    E ← E + (r dᵀ + d rᵀ)/|d|² − (rᵀd) d dᵀ/|d|⁴,    r = Δ∇f − Δ∇c − E d

in which r leaves at least a share of the downward curvature of the corrected function along d.  The fixed points are
those of f: the gradient vanishes there.  What a few such steps have not finished, `climb` does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from sitewise.learning.ascent import CONVERGED, NO_GAIN, Ascent, climb, free_of, maximise

Cheap = Callable[[np.ndarray], tuple[float, np.ndarray]]  # value and gradient

_STEP = 2.0  # no component moves farther in one turn
_TURNS = 12  # evaluations, after which `climb` goes on
_INNER = 15  # rounds of the cheap function in a turn
_PART = 0.2  # of the gradient of f, to which the corrected function is maximised
_BENT = 0.3  # of its downward curvature along a step that the correction leaves
_BAD, _GOOD = 0.1, 0.7  # gained, as a share of what was expected: the box shrinks, or grows
_SMALLEST = 0.03  # box, below which the cheap function is no help


def guided(
    cheap: Cheap,
    start: np.ndarray,
    limits: np.ndarray,
    *,
    tol: float,
    max_rounds: int,
    inverse: np.ndarray | None = None,
    least_gain: float = 0.0,
) -> Generator[np.ndarray, tuple[float, np.ndarray], Ascent]:
    """As `climb`, with the help of a cheap function; `inverse` is that of its Hessian.

    It stops, besides, where the corrected function has no more than `least_gain` to gain.  That is believed after a
    turn that gained what was expected, and not where the box is what holds the maximum.
    """
    x = np.clip(start, *limits.T)
    value, slope = yield x
    base, below = cheap(x)
    size, bend, turn, believed = _STEP, np.zeros((len(x), len(x))), 0, False
    while turn < min(_TURNS, max_rounds) and size > _SMALLEST and np.all(np.isfinite([value, base, *below])):
        steepest = np.max(np.abs(slope[free_of(x, slope, limits)]), initial=0.0)
        if steepest <= tol:
            return Ascent(x, value, True, CONVERGED, turn, inverse)
        corrected = _corrected(cheap, x, slope - below, bend)
        box = np.clip(np.stack([x - size, x + size], axis=1), limits[:, :1], limits[:, 1:])
        end = maximise(corrected, x, box, tol=max(tol, _PART * steepest), max_rounds=_INNER, inverse=inverse)
        inverse, moved_by, expected = end.inverse, end.x - x, end.value - base
        if end.converged and 0 <= expected <= least_gain:
            held = np.any((end.x == box.T) & (end.x != limits.T))
            if believed and not held:
                return Ascent(x, value, True, NO_GAIN, turn, inverse)
            break
        if not expected > 0:
            break
        turn += 1
        new_value, new_slope = yield end.x
        if not (np.isfinite(new_value) and np.all(np.isfinite(new_slope))):
            size = 0.25 * float(np.max(np.abs(moved_by)))
            continue
        new_base, new_below = cheap(end.x)
        gained = (new_value - value) / expected
        if np.isfinite(new_base):
            bend = _bent(bend, moved_by, new_slope - slope, new_below - below)
        believed = gained > _BAD
        if not believed:
            size = 0.3 * float(np.max(np.abs(moved_by)))
        elif gained > _GOOD:
            size = min(2 * size, _STEP)
        if new_value > value:
            x, value, slope, base, below = end.x, new_value, new_slope, new_base, new_below
    rest = climb(
        x,
        limits,
        tol=tol,
        max_rounds=max_rounds - turn,
        inverse=inverse if believed else None,  # the curvature of a function that was no help
        least_gain=least_gain,
        known=(value, slope),
    )
    end = yield from rest
    return Ascent(end.x, end.value, end.converged, end.reason, turn + end.rounds, end.inverse)


def _corrected(cheap: Cheap, x: np.ndarray, tilt: np.ndarray, bend: np.ndarray) -> Cheap:
    def function(v: np.ndarray) -> tuple[float, np.ndarray]:
        (value, slope), d = cheap(v), v - x
        return value + float((tilt + 0.5 * bend @ d) @ d), slope + tilt + bend @ d

    return function


def _bent(bend: np.ndarray, d: np.ndarray, by_f: np.ndarray, by_cheap: np.ndarray) -> np.ndarray:
    """E after a step d, given the changes of the two gradients."""
    square = d @ d
    r = by_f - by_cheap - bend @ d
    most = (1 - _BENT) * max(-(by_cheap + bend @ d) @ d, 0.0)
    r = r - max(r @ d - most, 0.0) / square * d
    return bend + (np.outer(r, d) + np.outer(d, r)) / square - (r @ d) * np.outer(d, d) / square**2
