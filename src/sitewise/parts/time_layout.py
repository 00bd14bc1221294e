"""States of a function of time at the distinct times of the training rows, and given them the function at new times.

With states z_k at the distinct times, z_k = A_k z_{k−1} + N(0, S_k) (`kernels.state_space`) and f = hᵀz.

**New times** t between the times of states z_b and z_a (C = S(t−b) A(a−t)ᵀ, V = A(a−t) S(t−b) A(a−t)ᵀ + S(a−t)):

    z | z_b, z_a ~ N(A(t−b) z_b + C V⁻¹ (z_a − A(a−b) z_b),  S(t−b) − C V⁻¹ Cᵀ)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array
from sitewise.kernels.base import Kernel
from sitewise.kernels.state_space import form
from sitewise.numerics.dense.small_systems import gain
from sitewise.parts.base import Layout

HARMONICS = 7  # for products with a periodic kernel


class NewTimes(NamedTuple):
    """The function at new times, f = beforeᵀ z_b + afterᵀ z_a + e.

    b, a           numbers of the times before and after, clipped
    before, after  weights, (rows, states)
    residual       the variance of e per row
    """

    b: np.ndarray
    a: np.ndarray
    before: np.ndarray
    after: np.ndarray
    residual: np.ndarray


class TimeLayout(Layout):
    """Base class of layouts with s states per distinct time of every series, by series and time.

    times       the distinct pairs (series, time), sorted
    place       number of the time per training row
    first       whether a time is the first one of its series
    step        time since the one before, 0 for the first ones
    h           loads of f on the states, (times, states)
    at          one coordinate per time, far apart for different series
    """

    def __init__(self, part: Any, A: np.ndarray) -> None:
        self.times, place = np.unique(_sorted_times(A), axis=0, return_inverse=True)
        count, self.place = len(self.times), place.reshape(-1)
        self.first = np.ones(count, bool)
        self.first[1:] = self.times[1:, 0] != self.times[:-1, 0]
        self.step = np.where(self.first, 0.0, np.diff(self.times[:, 1], prepend=self.times[0, 1]))
        (h,), _ = rowwise.apply(_loads, HARMONICS, part.kernel, (np.ones(count), self.times[:, 1]))
        self.h = np.ascontiguousarray(h.T)
        self.states = len(h)
        self.size = count * self.states
        self.at = np.cumsum(np.maximum(self.step, 0.0)) + 2 * np.cumsum(self.first) * (np.sum(self.step) + 1.0)
        self.positions = np.repeat(self.at, self.states)[:, None]

    def _gaps(self, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the number of states' times up to each new row, and the rows of programs; and the gap's length."""
        rows, count = _sorted_times(A), len(self.times)
        both = np.concatenate([self.times, rows])
        new = np.arange(len(both)) >= count
        order = np.lexsort((new, both[:, 1], both[:, 0]))
        before = np.empty(len(both), np.int64)
        before[order] = np.cumsum(~new[order])
        place = before[count:]
        start, end = (self.times[np.clip(k, 0, count - 1)] for k in (place - 1, place))
        first = (place == 0) | (start[:, 0] != rows[:, 0])
        last = (place == count) | (end[:, 0] != rows[:, 0])
        since = np.where(first, 0.0, rows[:, 1] - start[:, 1])
        until = np.where(last, 0.0, end[:, 1] - rows[:, 1])
        at = np.stack([np.ones(len(A)), since, until, rows[:, 1], first.astype(float), last.astype(float)])
        return place, at, rows[:, 0]

    def at_new(self, part: Any, A: np.ndarray) -> NewTimes:
        """Return the loads of new rows on the states before and after."""
        place, at, _ = self._gaps(A)
        (before, after, residual), _ = rowwise.apply(_between, HARMONICS, part.kernel, (at,))
        b, a = (np.clip(k, 0, len(self.times) - 1) for k in (place - 1, place))
        return NewTimes(b, a, before.T, after.T, residual[0])

    def residuals(self, part: Any, A: np.ndarray) -> np.ndarray:
        place, at, name = self._gaps(A)
        time, out = at[3], np.zeros((len(A), len(A)))
        i, j = np.nonzero((place[:, None] == place) & (name[:, None] == name) & (time[:, None] <= time))
        (values,), _ = rowwise.apply(_residual, HARMONICS, part.kernel, (at[:, i], at[:, j]))
        out[i, j] = out[j, i] = values[0]
        return out


def _sorted_times(A: np.ndarray) -> np.ndarray:
    """Return the table (series, time) per row."""
    return np.stack([A[:, 1] if A.shape[1] > 1 else np.zeros(len(A)), A[:, 0]], axis=1)


def _loads(_: int, kernel: Kernel, rows: tuple[Array, Array]) -> tuple[tuple[Array], tuple[()]]:
    found = jax.vmap(lambda time: form(kernel, HARMONICS, 0.0 * time, time).h, out_axes=-1)(rows[1])
    return (found.astype(rows[1].dtype),), ()


def step_form(kernel: Kernel, step: Array, time: Array, first: Array) -> tuple[Array, Array, Array]:
    """Return A, S and h of a step; the first state has A = 0 and the stationary covariance."""
    P, A, S, h = form(kernel, HARMONICS, step, time)
    return jnp.where(first > 0, 0.0, A), jnp.where(first > 0, P, S), h


def _bridge(kernel: Kernel, at: Array) -> tuple[Array, ...]:
    """Return A and S since the state before, C, V⁻¹ and A until the state after, and h, of one new time."""
    _, since, until, time, first, last = at
    A, S, h = step_form(kernel, since, time, first)
    _, ahead, noise, _ = form(kernel, HARMONICS, until, time)
    C = jnp.where(last > 0, 0.0, S @ ahead.T)
    V = jnp.where(last > 0, jnp.eye(len(S)), ahead @ S @ ahead.T + noise)
    return A, S, C, V, jnp.where(last > 0, 0.0, ahead), h


def _between(_: int, kernel: Kernel, rows: tuple[Array]) -> tuple[tuple[Array, ...], tuple[()]]:
    """Return the loads on the states before and after, and the residual variance."""

    def one(at: Array) -> tuple[Array, ...]:
        A, S, C, V, ahead, h = _bridge(kernel, at)
        K = gain(C, V)
        return (A - K @ ahead @ A).T @ h, K.T @ h, jnp.maximum(h @ (S - K @ C.T) @ h, 0.0)[None]

    found = jax.vmap(one, in_axes=-1, out_axes=-1)(rows[0])
    return tuple(a.astype(rows[0].dtype) for a in found), ()


def _residual(_: int, kernel: Kernel, rows: Any) -> tuple[tuple[Array], tuple[()]]:
    """Return the covariance of the residuals of two new times of the same gap, the first one not later."""

    def one(early: Array, late: Array) -> Array:
        _, S, C, V, _, h = _bridge(kernel, early)
        _, _, C_late, _, _, h_late = _bridge(kernel, late)
        _, A, _, _ = form(kernel, HARMONICS, late[3] - early[3], late[3])
        return (h @ (S @ A.T - gain(C, V) @ C_late.T) @ h_late)[None]

    return (jax.vmap(one, in_axes=-1, out_axes=-1)(*rows).astype(rows[0].dtype),), ()
