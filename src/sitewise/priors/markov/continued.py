"""A time series that goes on: its last rows and those that follow as a chain of their own, given the rows before.

What the rows before a cut say is the state N(m′, P′) after the last of them.  The rest is a chain that starts with
A P′Aᵀ + Q, about means u that are m′ carried on by A.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sitewise.numerics.markov import chain_tail, filtering
from sitewise.numerics.markov.filtering import Smoothed
from sitewise.numerics.markov.recursions import vector_forward
from sitewise.priors.markov.markov_prior import MarkovGram, MarkovPosterior
from sitewise.sites import Sites


class Rest(NamedTuple):
    """The rows from `cut` on; `ahead` is u of the states, `step` A over the cut."""

    cut: int
    X: np.ndarray
    gram: MarkovGram
    ahead: np.ndarray
    step: np.ndarray


def rest(q: MarkovPosterior, cut: int, X: np.ndarray) -> Rest:
    """The rows of q from number `cut` on, and those of X, all in the order of time."""
    given = q.rows[max(cut - 1, 0) :]
    whole = q.prior.gram(np.concatenate([given, X]))
    rows = np.concatenate([q.rows[cut:], X])
    if cut == 0:
        return Rest(0, rows, whole, np.zeros_like(whole.h), whole.A[0])
    (A, Q), h = (a[1:].copy() for a in (whole.A, whole.Q)), np.concatenate([whole.h[:1], whole.h[2:]])
    step = A[0].copy()
    A[0], Q[0] = 0.0, step @ q.P[cut] @ step.T + Q[0]
    first, start = np.zeros(len(h)), np.zeros_like(h)
    first[0], start[0] = 1.0, step @ q.m[cut]
    ahead, mean = vector_forward(A, first, start, h)
    return Rest(cut, rows, MarkovGram(A, Q, h, np.arange(len(rows)), whole.mean[1:] + mean[1:]), ahead, step)


def moved(q: MarkovPosterior, of: Rest, out: Smoothed) -> float:
    """By how many standard deviations the rows before the cut move, at most (`numerics.markov.chain_tail`)."""
    if of.cut == 0:
        return 0.0
    return chain_tail.moved(of.step, q.P[of.cut], out.r[0], out.N[0], q.r[of.cut], q.N[of.cut])


def joined(q: MarkovPosterior, of: Rest, sites: Sites, out: Smoothed) -> MarkovPosterior:
    """q with other rows from the cut on, given their sites."""
    m, P = filtering.states(of.gram.chain, out)

    def behind(old: np.ndarray, new: np.ndarray, kept: int) -> np.ndarray:
        return np.concatenate([old[:kept], new])

    rows = behind(q.rows, of.X, of.cut)
    return MarkovPosterior(
        q.prior,
        rows,
        Sites(*(behind(a, b, of.cut) for a, b in zip(q.sites, sites, strict=True))),
        rows,
        behind(q.m, (m + of.ahead)[1:], of.cut + 1),
        behind(q.P, P[1:], of.cut + 1),
        behind(q.r, out.r, of.cut),
        behind(q.N, out.N, of.cut),
        q.seen,
        q.mean,
    )
