"""Quasi-Newton ascent with a cap on the step: BFGS on a box, for a few dozen smooth variables.

SciPy's L-BFGS-B extrapolates from its first two points without limit.  Evidences are flat at extreme values, so
on a log scale one such jump (ℓ from 1 to 10⁶) ends near another, worse, maximum, and the search stays there
(decision 003).  Here no variable moves by more than `max_step` in one round.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator

import numpy as np

_ARMIJO = 1e-4  # share of the linear gain that an accepted step must reach
CONVERGED, NO_GAIN = "converged", "converged: the remaining gain is below least_gain"


@dataclasses.dataclass(frozen=True)
class Ascent:
    """The end of an ascent, and why it ended."""

    x: np.ndarray
    value: float
    converged: bool
    reason: str
    rounds: int
    inverse: np.ndarray | None  # BFGS estimate of the inverse of the negative Hessian
    trusted: bool = False  # whether this estimate began with a guess, and no step has failed since


def free_of(x: np.ndarray, slope: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return which components the box does not hold."""
    return ~(((x <= limits[:, 0]) & (slope < 0)) | ((x >= limits[:, 1]) & (slope > 0)))


def climb(
    start: np.ndarray,
    limits: np.ndarray,
    *,
    tol: float,
    max_rounds: int,
    max_step: float = 1.0,
    guess: Callable[[], np.ndarray | None] | None = None,
    least_gain: float = 0.0,
    least_curvature: float = np.inf,
) -> Generator[np.ndarray, tuple[float, np.ndarray], Ascent]:
    """Run the ascent as a generator: it yields points and is sent (value, gradient), so that many can run together.

    It stops when no free component of the gradient exceeds `tol`, when no step improves the value, or after
    `max_rounds`.  A value of −inf or NaN is a failed step, which is shortened.  `guess` returns the inverse of the
    negative Hessian, or None; it is called after the first evaluation.  With a guess the ascent also stops when the
    last step gained no more than `least_gain` and the quadratic model ½ gᵀH⁻¹g expects no more of the next step.  Where
    a guess may be too steep, ½ |g|² / `least_curvature` must be as small, the gain along a direction of that curvature.
    Where no step improves the value, the ascent has converged to the precision of the objective if the gradient is
    small, or if the quasi-Newton step from the same point promised no more than `least_gain`: sites of finite accuracy
    move the value and the gradient.
    """
    low, high = limits[:, 0], limits[:, 1]
    x = np.clip(start, low, high)
    value, slope = yield x
    inverse = None if guess is None else guess()

    def result(converged: bool, reason: str, rounds: int) -> Ascent:
        return Ascent(x, value, converged, reason, rounds, inverse, trusted)

    trusted, gained, promised = inverse is not None, np.inf, np.inf
    for rounds in range(max_rounds):
        free = free_of(x, slope, limits)
        steepest = np.max(np.abs(slope[free]), initial=0.0)
        if steepest <= tol:
            return result(True, CONVERGED, rounds)
        direction = np.zeros_like(x)
        if inverse is not None:
            direction[free] = inverse[np.ix_(free, free)] @ slope[free]
            promised = 0.5 * direction @ slope if direction @ slope > 0 else np.inf
            expected = max(0.5 * direction @ slope, 0.5 * slope[free] @ slope[free] / least_curvature)
            if trusted and gained <= least_gain and direction @ slope > 0 and expected <= least_gain:
                return result(True, NO_GAIN, rounds)
        if direction @ slope <= 0:
            inverse, trusted = None, False
            direction[free] = slope[free] * (0.5 * max_step / steepest)
        direction *= min(1.0, max_step / np.max(np.abs(direction)))

        step = 1.0
        while True:
            moved = np.clip(x + step * direction, low, high)
            new_value, new_slope = yield moved
            gain = slope @ (moved - x)
            usable = np.isfinite(new_value) and bool(np.all(np.isfinite(new_slope)))
            if usable and new_value >= value + _ARMIJO * gain:
                break
            if step * np.max(np.abs(direction)) < 1e-8:
                if inverse is not None:  # the plain gradient is tried once more
                    break
                flat = bool(steepest < 1e-3 or promised <= least_gain)
                reason = (
                    "converged to the precision of the objective" if flat else "stopped: no step improves the evidence"
                )
                return result(flat, reason, rounds)
            # The parabola through value, slope and new value; never less than a tenth of the step.
            bend = new_value - value - gain if usable else -np.inf
            step *= float(np.clip(-0.5 * gain / bend, 0.1, 0.5)) if np.isfinite(bend) and bend < 0 else 0.25
        if not (usable and new_value >= value + _ARMIJO * gain):
            inverse, trusted = None, False
            continue
        moved_by, bent_by = moved - x, slope - new_slope
        small = new_value - value <= 1e-13 * (1 + abs(value)) and steepest < 1e-4
        gained, promised = new_value - value, np.inf
        x, value, slope = moved, new_value, new_slope
        if small:
            return result(True, "converged to the precision of the objective", rounds + 1)
        curvature = moved_by @ bent_by
        if curvature > 1e-12 * np.linalg.norm(moved_by) * np.linalg.norm(bent_by):
            if inverse is None:
                inverse = np.eye(len(x)) * curvature / (bent_by @ bent_by)
            # (I − s yᵀ/sᵀy) B (I − y sᵀ/sᵀy) + s sᵀ/sᵀy, in O(p²)
            seen = inverse @ bent_by
            crossed = np.outer(moved_by, seen) / curvature
            more = (1 + bent_by @ seen / curvature) / curvature
            inverse = inverse - crossed - crossed.T + more * np.outer(moved_by, moved_by)
    return result(False, "stopped early: the cap on rounds was reached", max_rounds)
