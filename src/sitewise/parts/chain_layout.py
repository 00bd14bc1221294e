"""A function of time as a chain of states: the state-space form of a kernel as a block-tridiagonal precision.

With states z_k at the distinct times, z_k = A_k z_{k−1} + N(0, S_k), f = hᵀz, and R_k = S_k⁻¹,

    Q[k, k] = R_k + A_{k+1}ᵀ R_{k+1} A_{k+1},    Q[k, k−1] = −R_k A_k,    log|Q| = −Σ log|S_k|

The first state of a series has the stationary covariance as S_1, and A_1 = 0.  The noise S_k must not be singular,
which excludes undamped oscillations and constants: these are `Season`, `Linear` and `Constant`.

A row has few loads, so that this layout is for long series.  Where times are much closer than the lengthscale, digits
are lost (`time_tree`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array
from sitewise.kernels.base import Kernel
from sitewise.kernels.state_space import form
from sitewise.numerics.dense.small_systems import inverse_and_log_det
from sitewise.parts.base import Loads
from sitewise.parts.time_layout import HARMONICS, TimeLayout, step_form
from sitewise.types import replace

# The noise of f vanishes as times approach each other, by the fifth power for Matérn-5/2, and its inverse loses digits.
# Where its share s of the variance is not far above CLOSE_NOISE, JITTER / (1 + (s / CLOSE_NOISE)²) of the stationary
# covariance is added.
JITTER, CLOSE_NOISE = 1e-12, 1e-10


class ChainLayout(TimeLayout):
    """The states themselves are the variables."""

    def __init__(self, part: Any, A: np.ndarray) -> None:
        super().__init__(part, A)
        s, count, states = self.states, len(self.times), np.arange(self.states)
        self.rows = np.ones(count), np.stack([self.step, self.times[:, 1], self.first.astype(float)])
        self.index, self.weight = self.place[:, None] * s + states, self.h[self.place]
        low, square = np.tril_indices(s), np.indices((s, s)).reshape(2, -1)
        self.low, self.later = low, np.flatnonzero(~self.first)
        base, after = np.arange(count)[:, None] * s, self.later[:, None] * s
        self.i = np.concatenate([(base + low[0]).ravel(), (after + square[0]).ravel()])
        self.j = np.concatenate([(base + low[1]).ravel(), (after - s + square[1]).ravel()])

    def precision(self, part: Any) -> tuple[np.ndarray, float]:
        (R, RA, ARA), (log_det,) = rowwise.apply(_blocks, HARMONICS, part.kernel, self.rows)
        R, RA, ARA = (np.moveaxis(a, -1, 0) for a in (R, RA, ARA))
        diagonal = R.copy()
        diagonal[self.later - 1] += ARA[self.later]
        return np.concatenate([diagonal[:, *self.low].ravel(), -RA[self.later].ravel()]), -float(log_det)

    def pull(self, part: Any, bar: np.ndarray, log_det: float) -> Any:
        count, s = len(self.times), self.states
        cut = count * len(self.low[0])
        lower = np.zeros((count, s, s))
        lower[:, *self.low] = bar[:cut].reshape(count, -1)
        RA_bar, ARA_bar = np.zeros((count, s, s)), np.zeros((count, s, s))
        RA_bar[self.later] = -bar[cut:].reshape(-1, s, s)
        ARA_bar[self.later] = lower[self.later - 1]
        bars = tuple(np.ascontiguousarray(np.moveaxis(a, 0, -1)) for a in (lower, RA_bar, ARA_bar))
        weight = np.full(count, -log_det)
        _, sums = rowwise.apply(_pull_blocks, HARMONICS, part.kernel, (*self.rows, *bars, weight))
        return replace(part, kernel=jax.tree.unflatten(jax.tree.structure(part.kernel), sums))

    def loads(self, part: Any, A: np.ndarray) -> Loads:
        new, states = self.at_new(part, A), np.arange(self.states)
        index = [k[:, None] * self.states + states for k in (new.b, new.a)]
        return Loads(np.concatenate(index, axis=1), np.concatenate([new.before, new.after], axis=1), new.residual)


def _blocks(_: int, kernel: Kernel, rows: tuple[Array, Array]) -> tuple[tuple[Array, ...], tuple[Array]]:
    """Return R, RA and AᵀRA per step, and Σ log|S|; rows of filling have the weight 0."""
    weight, steps = rows
    *found, log_det = _of_steps(kernel, steps)
    return tuple(a.astype(weight.dtype) for a in found), (jnp.sum(weight * log_det),)


def _of_steps(kernel: Kernel, steps: Array) -> tuple[Array, ...]:
    def one(row: Array) -> tuple[Array, ...]:
        A, S, _ = step_form(kernel, *row)
        P = form(kernel, HARMONICS, row[0], row[1]).P
        R, log_det = inverse_and_log_det(_regular(S, P, row[2]))
        return R, R @ A, A.T @ R @ A, log_det

    return jax.vmap(one, in_axes=-1, out_axes=-1)(steps)


def _regular(S: Array, P: Array, first: Array) -> Array:
    """Return the noise of a step, with jitter if it is nearly singular; the first state has none."""
    share = jnp.min(jnp.diagonal(S) / jnp.diagonal(P))
    return S + jnp.where(first > 0, 0.0, JITTER / (1 + (share / CLOSE_NOISE) ** 2)) * P


def _pull_blocks(_: int, kernel: Kernel, rows: tuple[Array, ...]) -> tuple[tuple[()], tuple[Array, ...]]:
    weight, steps, *bars = rows
    kept = tuple(weight * bar for bar in bars)
    by_kernel = jax.vjp(lambda kernel: _of_steps(kernel, steps), kernel)[1](kept)[0]
    return (), tuple(jax.tree.leaves(by_kernel))
