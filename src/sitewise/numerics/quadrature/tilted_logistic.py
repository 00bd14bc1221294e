"""The integral of a Gaussian times exp(a z − b log(1 + eᶻ)), 0 ≤ a ≤ b, and its derivatives in the mean, in NumPy.

This is the binomial likelihood with logit link (a successes in b trials), and with a = y and b = y + shape the negative
binomial likelihood of z = log(mean/shape).  With ℓ(m) = log ∫ N(z; m, v) exp(g(z)) dz, the tilted density
∝ N(z; m, v) exp(g(z)) is log-concave.  About its mode ẑ, u = z − ẑ has the density

    q(u) ∝ exp(−D(u)),    D(u) = b [log(1 + σ(ẑ)(eᵘ − 1)) − u σ(ẑ)] + u²/(2v),

in which nothing cancels for large counts if σ(ẑ) ≤ ½; otherwise z and −z are exchanged.  The integrand is analytic for
|Im z| < π and decays at both ends: at a step h = min(s/2, ¼), s⁻² = 1/v + b σ(1 − σ), equally spaced nodes have errors
below 1e-14.  With w = v b σ(1 − σ), the derivatives are cumulants of u or of the slope g′ = a − bσ(z) under q:

    w ≥ 1:  ℓ₁ = (E z − m)/v,   ℓ₂ = κ₂(u)/v² − 1/v,          ℓ₃ = κ₃(u)/v³,   ℓ₄ = κ₄(u)/v⁴
    w < 1:  ℓ₁ = E g′,          ℓ₂ = E g″ + Var g′,           ℓ₃ = E g‴ + 3 Cov(g′, g″) + κ₃(g′),
            ℓ₄ = E g⁗ + 4 Cov(g′, g‴) + 3 Var g″ + 6 κ(g′, g′, g″) + κ₄(g′)

The first line loses digits where the row says little about z, the second where it says much.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

_LOG_TAIL = 38.0  # nats below the mode at which the nodes end
_STEP, _MAX_STEP = 0.5, 0.25  # in units of s, and of z
_MAX_NODES = 800  # per row; wider integrands are left to the compiled quadrature
_BLOCK_NODES = 1 << 18  # nodes that are computed at a time
_MODE_STEPS, _END_STEPS = 100, 12


class Tilted(NamedTuple):
    """log ∫ N(z; m, v) exp(g(z)) dz, its first four derivatives in m, and E[log(1 + eᶻ)] under the tilted density."""

    log_integral: np.ndarray
    slopes: np.ndarray
    softplus: np.ndarray


def tilted_by_logistic(a: np.ndarray, b: np.ndarray, mean: np.ndarray, var: np.ndarray) -> Tilted | None:
    """Return the integral and its derivatives per row; None if an integrand is wide or a number is not finite."""
    arrays = np.broadcast_arrays(a, b, mean, var)
    shape, (a, b, mean, var) = arrays[0].shape, (np.array(one, float).ravel() for one in arrays)
    mode = _modes(a, b, mean, var)
    turned = mode > 0
    a, mean, mode = np.where(turned, b - a, a), np.where(turned, -mean, mean), np.where(turned, -mode, mode)
    chance = special.expit(mode)
    width = 1 / np.sqrt(1 / var + b * chance * (1 - chance))
    below, above = _end(b, chance, var, -1.0), _end(b, chance, var, 1.0)
    nodes = np.ceil((below + above) / np.minimum(_STEP * width, _MAX_STEP)) + 1
    if not np.all(nodes <= _MAX_NODES):  # also if a number is not finite
        return None
    found = np.empty((6, len(mean)))
    order = np.argsort(nodes, kind="stable")
    while len(order):
        most = int(max(nodes[order[0]] * 1.5, 32))
        some = order[nodes[order] <= most][: max(1, _BLOCK_NODES // most)]
        rows = np.stack([a, b, mean, var, mode, chance, below, above])[:, some]
        found[:, some] = _integrate(rows, int(nodes[some[-1]]))
        order = order[len(some) :]
    sign = np.where(turned, -1.0, 1.0)
    found[[1, 3]] *= sign  # odd derivatives; log(1 + eᶻ) = z + log(1 + e⁻ᶻ)
    expected = sign * mean + var * found[1]  # of z, by Stein's identity
    found[5] += np.where(turned, expected, 0.0)
    found = found.reshape(6, *shape)
    return Tilted(found[0], found[1:5], found[5])


def slopes_by_var(slopes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ∂ℓ₁/∂v and ∂ℓ₂/∂v: ∂E/∂v of a Gaussian expectation E is half of its second derivative in the mean."""
    first, second, third, fourth = slopes
    return 0.5 * third + first * second, 0.5 * fourth + second**2 + first * third


def _modes(a: np.ndarray, b: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return the root of a − b σ(z) − (z − m)/v per row, by Newton's method within brackets."""
    low, high = mean + var * (a - b), mean + var * a
    z = np.clip(np.log((a + 0.5) / (b - a + 0.5)), low, high)
    for _ in range(_MODE_STEPS):
        chance = special.expit(z)
        slope = a - b * chance - (z - mean) / var
        low, high = np.where(slope > 0, z, low), np.where(slope > 0, high, z)
        new = z + slope / (b * chance * (1 - chance) + 1 / var)
        new = np.where((new > low) & (new < high), new, 0.5 * (low + high))
        if np.all(np.abs(new - z) <= 1e-9 * (1 + np.abs(z))):
            break
        z = new
    return z


def _fall(b: np.ndarray, chance: np.ndarray, var: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return D(u)."""
    return b * (np.log1p(chance * np.expm1(u)) - u * chance) + u * u / (2 * var)


def _end(b: np.ndarray, chance: np.ndarray, var: np.ndarray, side: float) -> np.ndarray:
    """Return a distance at which D exceeds `_LOG_TAIL`: Newton's method on a convex function, from outside."""
    distance = np.minimum(np.sqrt(2 * _LOG_TAIL * var), 700.0)
    for _ in range(_END_STEPS):
        u = side * distance
        inside = chance * np.exp(u) / (1 + chance * np.expm1(u))  # σ(ẑ + u)
        slope = side * (b * (inside - chance) + u / var)
        distance = distance - np.maximum(_fall(b, chance, var, u) - _LOG_TAIL, 0.0) / slope
    return 1.02 * distance


def _integrate(rows: np.ndarray, nodes: int) -> np.ndarray:
    """Return the log integral, four derivatives and E[log(1 + eᶻ)], one per line."""
    a, b, mean, var, mode, chance, below, above = rows
    away = mode - mean
    rest = a - b * chance - away / var  # zero but for the error of the mode
    step = (below + above) / (nodes - 1)
    u = step * np.arange(nodes)[:, None] - below
    growth = np.log1p(chance * np.expm1(u))  # log(1 + eᶻ) minus its value at the mode
    q = np.exp(u * rest - b * (growth - u * chance) - u * u / (2 * var))
    total = np.sum(q, axis=0)
    q /= total
    at_mode = -(b - a) * np.logaddexp(0.0, mode) - a * np.logaddexp(0.0, -mode)
    value = at_mode - 0.5 * away**2 / var - 0.5 * np.log(2 * np.pi * var) + np.log(total * step)
    weak = var * b * chance * (1 - chance) < 1
    slopes = np.empty((4, len(mean)))
    slopes[:, ~weak] = _by_place(q[:, ~weak], u[:, ~weak], away[~weak], var[~weak])
    slopes[:, weak] = _by_slope(q[:, weak], special.expit(mode[weak] + u[:, weak]), a[weak], b[weak])
    softplus = np.logaddexp(0.0, mode) + np.sum(q * growth, axis=0)
    return np.stack([value, *slopes, softplus])


def _by_place(q: np.ndarray, u: np.ndarray, away: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return ℓ₁ … ℓ₄ by the cumulants of u."""
    middle = np.sum(q * u, axis=0)
    u = u - middle
    square = u * u
    k2, k3 = np.sum(q * square, axis=0), np.sum(q * square * u, axis=0)
    k4 = np.sum(q * square * square, axis=0) - 3 * k2**2
    return np.stack([(away + middle) / var, (k2 / var - 1) / var, k3 / var**3, k4 / var**4])


def _by_slope(q: np.ndarray, chance: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ℓ₁ … ℓ₄ by the cumulants of g′ and its derivatives."""
    bend = chance * (1 - chance)
    means = [np.sum(q * one, axis=0) for one in (chance, bend, bend * (1 - 2 * chance), bend * (1 - 6 * bend))]
    g1 = -b * (chance - means[0])
    g2, g3 = -b * (bend - means[1]), -b * (bend * (1 - 2 * chance) - means[2])
    weighted = q * g1
    var1, cov12 = np.sum(weighted * g1, axis=0), np.sum(weighted * g2, axis=0)
    third, mixed = np.sum(weighted * g1 * g1, axis=0), np.sum(weighted * g1 * g2, axis=0)
    fourth = np.sum(weighted * g1**3, axis=0) - 3 * var1**2
    cov13, var2 = np.sum(weighted * g3, axis=0), np.sum(q * g2 * g2, axis=0)
    e1, e2, e3, e4 = a - b * means[0], *(-b * one for one in means[1:])
    return np.stack([e1, e2 + var1, e3 + 3 * cov12 + third, e4 + 4 * cov13 + 3 * var2 + 6 * mixed + fourth])
