"""Derivatives with respect to a chain's A and Q of a function of its posterior marginals and log Z_q.

In the notation of `filtering`, a prime marks the state after its site, and r, N and S = r rᵀ − N belong to the end of
the next step, which has A and Q.  The derivatives of log Z_q are

    Q̄ = ½ S,        Ā = r m′ᵀ + S A P′

Consider a function with the derivatives mean̄, var̄ and z̄ in mean, var and log Z_q.  Because mean = ∂log Z_q/∂b and
var + mean² = −2 ∂log Z_q/∂w, a change of b along β = mean̄ − 2 mean∘var̄ and of w along ω = −2 var̄ gives

    d log Z_q = meanᵀβ − ½ (var + mean²)ᵀω        with the derivative        mean̄ᵀ∂mean + var̄ᵀ∂var

in the chain, β and ω held constant.  The result is z̄ times the derivatives of log Z_q, plus the change of these
derivatives along (β, ω).  With the recursions u, v of x = mean̄ and U, V of x = ω (`chain_products`), and
D = I − κ a hᵀ, the change follows from

    Ṗ = −U,      ṙ = v − N u,      Ṅ = V + N U N,      Ṗ′ = −D U Dᵀ − ω (a/c)(a/c)ᵀ
    ṁ′ = D (u + U Lᵀr) + (a/c)(mean̄ + ω dᵀr)

The change is zero where mean̄ and var̄ are zero, as with Gaussian noise.  The recursions are then skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.arrays.sweeps import each
from sitewise.numerics.dense.small_matrices import apply, dot, outer, times, transpose
from sitewise.numerics.markov.filtering import Chain, Smoothed, updated
from sitewise.numerics.markov.recursions import matrix_backward, matrix_forward, vector_backward, vector_forward


def _derivatives(_: None, rows: Any) -> tuple[Array, Array]:
    """Return the derivatives in A and Q of every step, by the formulas at the top of this file."""
    (P, a, _, c, L, d), A, h, w, m, share, r, N, by_mean, omega, by_log_z, u, v, U, V = rows
    column, matrix = (lambda x: x[:, None]), (lambda x: x[:, None, None])
    after = a / column(c)  # P′ h
    D = namespace(a).eye(a.shape[1], dtype=a.dtype) - outer(column(w) * after, h)
    m_after, P_after = updated(None, (P, a, c, h, w, m, share))
    u_next = apply(L, u) + column(by_mean) * d
    U_next = times(times(L, U), transpose(L)) + matrix(omega) * outer(d, d)
    r_dot = v - apply(N, u_next)
    N_dot = V + times(times(N, U_next), N)
    m_dot = apply(D, u + apply(U, apply(transpose(L), r))) + after * column(by_mean + omega * dot(d, r))
    P_dot = -times(times(D, U), transpose(D)) - matrix(omega) * outer(after, after)
    S = outer(r, r) - N
    S_dot = outer(r_dot, r) + outer(r, r_dot) - N_dot
    total = matrix(by_log_z) * S + S_dot
    by_A = outer(r_dot + column(by_log_z) * r, m_after) + outer(r, m_dot)
    return by_A + times(times(total, A), P_after) + times(times(S, A), P_dot), 0.5 * total


def _derivatives_of_log_z(_: None, rows: Any) -> tuple[Array, Array]:
    """Return the derivatives of log Z_q in A and Q of every step."""
    *state, A, r, N = rows
    m_after, P_after = updated(None, state)
    S = outer(r, r) - N
    return outer(r, m_after) + times(times(S, A), P_after), 0.5 * S


def pull(chain: Chain, out: Smoothed, by_mean: Array, by_var: Array, by_log_z: Array) -> tuple[Array, Array]:
    """Return the derivatives in A and Q, given the derivatives in the means, the variances and log Z_q."""
    xp, found, g = namespace(*chain, by_mean, by_var), out.filtered, out.g
    if xp is np and not (np.any(by_mean) or np.any(by_var)):
        state = found.P, found.a, found.c, chain.h, out.w, out.m, out.share
        by_A, by_Q = each(_derivatives_of_log_z, None, (*state, chain.A, out.r, out.N))
        return by_log_z * by_A, by_log_z * by_Q
    empty = xp.zeros(1, g.dtype)
    by_mean, omega = xp.concatenate([empty, by_mean]), xp.concatenate([empty, -2 * by_var])
    L, d = found.L, found.d
    u, v = vector_forward(L, by_mean, d, g)[0], vector_backward(L, by_mean, g, d)[0]
    U, V = matrix_forward(L, omega, d, g)[0], matrix_backward(L, omega, g, d)[0]
    scale = xp.broadcast_to(xp.asarray(by_log_z, g.dtype), omega.shape)
    rows = tuple(found), chain.A, chain.h, out.w, out.m, out.share, out.r, out.N, by_mean, omega, scale, u, v, U, V
    return each(_derivatives, None, rows)
