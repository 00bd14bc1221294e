"""Kalman filter and smoother for a Gaussian Markov chain times Gaussian sites, in O(n s³).

States z_k ∈ ℝˢ and rows f_k = h_kᵀz_k, with sites exp(b_k f_k − ½ w_k f_k²):

    z_{k+1} = A_{k+1} z_k + noise of covariance Q_{k+1}

A = 0 starts a chain (the first, or a further independent chain) with z ~ N(0, Q).  The filter computes the mean m and
the covariance P of z_k given the sites before k.  With a = P h, p = hᵀa, μ = hᵀm, c = 1 + w p, e = b − w μ, κ = w/c and
A, Q of the next step,

    L = A (I − κ a hᵀ),   d = A a/c,   P_{k+1} = L P Lᵀ + w d dᵀ + Q,   m_{k+1} = L m + b d           (Joseph's form)
    log Z_q = Σ −½ log|c| + ½ p e²/c + μ (b − ½ w μ)

L a = d is small where a site is precise, and L P Lᵀ keeps its relative accuracy there; A (P − κ a aᵀ) Aᵀ would not.
The smoother computes the derivatives of the terms of log Z_q from k on in m and P: these are r and ½ (r rᵀ − N)
(Bryson & Frazier 1963).

    r_k = Lᵀ r_{k+1} + h e/c,       N_k = Lᵀ N_{k+1} L + κ h hᵀ
    mean of f_k = μ + p e/c + dᵀr_{k+1},       var of f_k = p/c − dᵀN_{k+1} d

Only the scalars c are inverted, so Q may be singular: equal times, constant parts, undamped oscillations.

The formulas hold for precisions of any sign.  The product is a Gaussian iff K⁻¹ + W is positive definite, where K is
the covariance of f.  The pivots of K + W⁻¹ are c_k/w_k.  By Sylvester's law of inertia for [[−K⁻¹, I], [I, W⁻¹]],
K⁻¹ + W is positive definite iff the number of negative pivots equals the number of negative precisions:
#(w > 0, c < 0) = #(w < 0, c < 0).  Otherwise all results are NaN.

Arrays have one row more than the data: row j describes the state before the step to data row j.  Row 0 is therefore
empty, and the last A and Q are zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sitewise.arrays.engine import Array, namespace
from sitewise.arrays.sweeps import each, in_parallel, sweep
from sitewise.numerics.dense.small_matrices import apply, dot, outer, times, transpose
from sitewise.numerics.markov import parallel_recursions
from sitewise.numerics.markov.recursions import matrix_backward, vector_backward, vector_forward


class Chain(NamedTuple):
    """The transitions and observation vectors of a chain.

    A, Q    (rows + 1) × s × s: the steps to the rows, then zeros
    h       (rows + 1) × s: zeros, then the vectors h of the rows
    """

    A: Array
    Q: Array
    h: Array


class Filtered(NamedTuple):
    """The filter's results with rows + 1 entries: P, a, p and c of the row before each step; L and d of the step."""

    P: Array
    a: Array
    p: Array
    c: Array
    L: Array
    d: Array


class Smoothed(NamedTuple):
    """The posterior marginals and log Z_q, and the intermediate results that derivatives reuse.

    mean, var               one entry per row of the data
    filtered, b, w, m, g    rows + 1 entries
    share                   e/c, rows + 1 entries
    r, N                    after each step, rows + 1 entries
    """

    mean: Array
    var: Array
    log_z: Array
    filtered: Filtered
    b: Array
    w: Array
    m: Array
    share: Array
    r: Array
    N: Array
    g: Array


def _riccati(_: None, P: Array, row: Any) -> tuple[Array, Array]:
    """Return P after one step, and P before it."""
    A, Q, h, w = row
    a = apply(P, h)
    c = 1 + w * dot(h, a)
    Aa = apply(A, a)
    L = A - outer((w / c) * Aa, h)
    return times(times(L, P), L.T) + (w / c**2) * outer(Aa, Aa) + Q, P


def _filtered(_: None, rows: Any) -> Filtered:
    """Compute all filter results from the covariances P, for all rows at once."""
    P, A, h, w = rows
    a = apply(P, h)
    p = dot(h, a)
    c = 1 + w * p
    d = apply(A, a) / c[:, None]
    return Filtered(P, a, p, c, A - outer(w[:, None] * d, h), d)


def _generator_g(_: None, rows: Any) -> Array:
    """Compute g = h/c − Lᵀ N_{k+1} d, which equals (I − N_k P_k) h."""
    h, c, L, N, d = rows
    return h / c[:, None] - apply(transpose(L), apply(N, d))


def condition(chain: Chain, b: Array, w: Array) -> Smoothed:
    """Condition a chain on sites (b, w): posterior mean and variance of every f, and log Z_q."""
    xp, (A, Q, h) = namespace(*chain, b, w), chain
    empty = xp.zeros(1, h.dtype)
    b, w = xp.concatenate([empty, b]), xp.concatenate([empty, w])
    if in_parallel(*chain, w):
        P = parallel_recursions.covariances(A, Q, h, w)
    else:
        P = sweep(_riccati, None, xp.zeros(A.shape[1:], h.dtype), (A, Q, h, w))
    found = each(_filtered, None, (P, A, h, w))
    _, _, p, c, L, d = found
    m, mu = vector_forward(L, b, d, h)
    share = (b - w * mu) / c
    r, dr = vector_backward(L, share, h, d)
    N, dNd = matrix_backward(L, w / c, h, d)
    g = each(_generator_g, None, (h, c, L, N, d))
    mean, var = mu + p * share + dr, p / c - dNd
    var = xp.maximum(var, xp.finfo(var.dtype).eps * p / c)  # rounding may make the difference negative
    log_z = xp.sum(-0.5 * xp.log(xp.abs(c)) + 0.5 * p * share * (b - w * mu) + mu * (b - 0.5 * w * mu))
    nan = xp.where(xp.sum((c < 0) & (w > 0)) != xp.sum((c < 0) & (w < 0)), xp.nan, 0.0)
    return Smoothed(mean[1:] + nan, var[1:] + nan, log_z + nan, found, b, w, m + nan, share, r, N + nan, g)


def updated(_: None, rows: Any) -> tuple[Array, Array]:
    """Return mean and covariance of the state after its site: m + a e/c, D P Dᵀ + w (a/c)(a/c)ᵀ; D = I − κ a hᵀ."""
    P, a, c, h, w, m, share = rows
    after = a / c[:, None]
    D = namespace(a).eye(a.shape[1], dtype=a.dtype) - outer(w[:, None] * after, h)
    return m + a * share[:, None], times(times(D, P), transpose(D)) + w[:, None, None] * outer(after, after)


def states(chain: Chain, out: Smoothed) -> tuple[Array, Array]:
    """Return the filtered mean and covariance of all states after their sites (rows + 1 entries, see `updated`)."""
    found = out.filtered
    return each(updated, None, (found.P, found.a, found.c, chain.h, out.w, out.m, out.share))


def rounding(out: Smoothed) -> tuple[Array, Array]:
    """Estimate the rounding errors: the largest relative error of a variance, and the error of log Z_q in nats.

    A variance is p/c minus the reduction by the rows after it: digits cancel where the difference is small.  With a
    negative precision c = 1 − |w| p also cancels.  The terms μ b of log Z_q are large where sites are precise and far
    from zero.
    """
    b, w, (_, _, p, c, _, _) = out.b[1:], out.w[1:], (a[1:] for a in out.filtered)
    xp = namespace(b, w)
    cancelled_in_c = xp.where(w < 0, (1 + xp.abs(w) * p) / xp.abs(c), 1.0)
    cancelled_in_var = xp.where(out.var > 0, xp.abs(p / c) / xp.where(out.var > 0, out.var, 1.0), 1.0)
    eps = xp.finfo(p.dtype).eps
    return eps * xp.max(cancelled_in_c * cancelled_in_var), eps * xp.sum(xp.abs(out.mean * b))
