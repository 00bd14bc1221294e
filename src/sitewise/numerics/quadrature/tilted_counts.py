"""The integral of a Gaussian times a Poisson likelihood with log link, and its derivatives in the mean, in NumPy.

With ℓ(m) = log ∫ N(f; m, v) p(y|f) df and p(y|f) ∝ exp(y f − eᶠ), the mode f̂ of the integrand is known by Wright's ω:

    f̂ = m + v y − w,    w + log w = log v + m + v y,    M = exp(f̂),    v M = w

About the mode, u = f − f̂ has the density q(u) ∝ exp(−M(eᵘ − 1 − u) − u²/(2v)), in which nothing cancels for large
counts.  The integrand is analytic and decays at both ends, so that the error of equally spaced nodes falls
exponentially: at a step h = min(s/2, ¼) with s⁻² = 1/v + M it is below 1e-15.  The cumulants κ of u and those of the
rate T = M eᵘ both give the derivatives of ℓ; integration by parts shows that they are equal:

    ℓ₁ = (f̂ − m)/v + κ₁(u)/v            ℓ₂ = κ₂(u)/v² − 1/v     ℓ₃ = κ₃(u)/v³                ℓ₄ = κ₄(u)/v⁴
    ℓ₁ = y − κ₁(T)                      ℓ₂ = κ₂ − κ₁            ℓ₃ = 3κ₂ − κ₁ − κ₃           ℓ₄ = 7κ₂ − κ₁ − 6κ₃ + κ₄

by dκ_n(T)/dm = n κ_n − κ_(n+1).  The first line loses digits where the row says little about f (w ≪ 1), the second
where it says much, so that w chooses.
"""

from __future__ import annotations

import numpy as np
from scipy import special

_LOG_TAIL = 38.0  # nats below the mode at which the nodes end
_STEP, _MAX_STEP = 0.5, 0.25  # in units of s, and of f
_MAX_NODES = 800  # per row; wider integrands are left to the compiled quadrature
_BLOCK_NODES = 1 << 18  # nodes that are computed at a time


def tilted_by_count(
    count: np.ndarray, mean: np.ndarray, var: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return f̂, log ∫ N(f; m, v) p(y|f)/p(y|f̂) df and the first four derivatives of ℓ; None for wide integrands.

    `mean` includes the logarithm of the exposure.
    """
    count, mean, var = np.broadcast_arrays(np.asarray(count, float), mean, var)
    shape, (count, mean, var) = count.shape, (a.ravel() for a in (count, mean, var))
    w = special.wrightomega(np.log(var) + mean + var * count)
    mode = np.where(w < 1, mean + var * count - w, np.log(np.where(w > 0, w, 1.0) / var))
    rate = np.exp(mode)
    below, above = _ends(rate, var)
    width = np.sqrt(var / (1 + w))
    nodes = np.ceil((below + above) / np.minimum(_STEP * width, _MAX_STEP)) + 1
    if not np.all(nodes <= _MAX_NODES):  # also if a number is not finite
        return None
    log_integral, slopes = np.empty_like(mean), np.empty((4, len(mean)))
    order = np.argsort(nodes, kind="stable")
    start = 0
    while start < len(order):
        stop = start + 1
        while (
            stop < len(order)
            and (stop + 1 - start) * nodes[order[stop]] <= _BLOCK_NODES
            and (nodes[order[stop]] <= 1.5 * nodes[order[start]])
        ):
            stop += 1
        some = order[start:stop]
        log_integral[some], slopes[:, some] = _integrate(
            rate[some], var[some], w[some], below[some], above[some], int(nodes[order[stop - 1]])
        )
        start = stop
    away = np.where(w < 1, count - rate, (mode - mean) / var)  # equal, up to the digits that each of them loses
    slopes[0] += np.where(w < 1, count, away)
    log_integral -= 0.5 * np.log(2 * np.pi * var) + 0.5 * var * away**2
    return mode.reshape(shape), log_integral.reshape(shape), slopes.reshape(4, *shape)


def _ends(rate: np.ndarray, var: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances below and above the mode at which the integrand has fallen by `_LOG_TAIL` nats.

    Below the mode e⁻ˣ − 1 + x ≥ x²/2/(1 + x/3), above it eˣ − 1 − x ≥ x²/2.
    """
    start = np.sqrt(2 * _LOG_TAIL / (1 / var + rate))
    below, above = start, start
    for _ in range(12):
        below = np.sqrt(2 * _LOG_TAIL / (1 / var + rate / (1 + below / 3)))
    with np.errstate(divide="ignore", over="ignore"):
        for _ in range(3):
            above = np.minimum(above, np.log1p(above + _LOG_TAIL / rate))
    return 1.02 * below, 1.02 * above


def _integrate(
    rate: np.ndarray, var: np.ndarray, w: np.ndarray, below: np.ndarray, above: np.ndarray, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return log ∫ q(u) du and the derivatives of ℓ, the first without its y or (f̂ − m)/v."""
    step = (below + above) / (nodes - 1)
    u = step * np.arange(nodes)[:, None] - below
    growth = np.expm1(u)
    q = np.exp(-rate * (growth - u) - u**2 / (2 * var))
    total = np.sum(q, axis=0)
    q /= total
    weak = w < 1
    scale = np.where(weak, rate, 1 / var)
    centred = np.where(weak, growth, u)
    middle = np.sum(q * centred, axis=0)
    centred -= middle
    powers = centred * centred
    k2 = np.sum(q * powers, axis=0)
    k3 = np.sum(q * powers * centred, axis=0)
    k4 = np.sum(q * powers * powers, axis=0) - 3 * k2**2
    k1, k2, k3, k4 = scale * middle, scale**2 * k2, scale**3 * k3, scale**4 * k4
    ofT = rate + k1  # κ₁(T), where w < 1
    slopes = np.stack([
        np.where(weak, -ofT, k1),
        np.where(weak, k2 - ofT, k2 - 1 / var),
        np.where(weak, 3 * k2 - ofT - k3, k3),
        np.where(weak, 7 * k2 - ofT - 6 * k3 + k4, k4),
    ])  # fmt: skip
    return np.log(total * step), slopes
