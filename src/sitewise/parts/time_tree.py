"""A function of time by independent variables on a tree of times, each halfway between two of its ancestors.

The states of a series at its first time, at its last one, and at every further time given its two nearest ancestors l
and r before and after it in the tree, are

    z = P^½ u,     z_last = A z_first + S^½ u,     z = V (S_l⁻¹ A_l z_l + A_rᵀ S_r⁻¹ z_r) + V^½ u,
    V = (S_l⁻¹ + A_rᵀ S_r⁻¹ A_r)⁻¹,     u ~ N(0, I)

with A and S of the steps from l to the time and from the time to r.  The weight K of the farther one of l and r is
computed by this formula, and of the nearer one by z = A_l z_l + K (z_r − A z_l), or backwards in time: as a product of
large inverses the weight of a much nearer ancestor would lose digits.

Hence z = L u with loads L(θ) on the variables of the path to the root, about log₂ n of them, and Q = I.  The variances
of close times vanish in the loads, and P = I + Aᵀ W A is well conditioned.  In the precision of the states themselves
their inverses would take the digits of the rest: S of Matérn-5/2 is as small as the fifth power of the step.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array
from sitewise.kernels.base import Kernel
from sitewise.kernels.state_space import form
from sitewise.numerics.dense.small_matrices import small_cholesky, small_lower_solve
from sitewise.numerics.dense.small_systems import inverse_and_log_det
from sitewise.parts.base import Loads
from sitewise.parts.time_layout import HARMONICS, TimeLayout
from sitewise.types import replace

MAX_TREE_PAIRS = 4_000_000  # pairs of loads of the training rows
ROOT, END, BETWEEN = 0.0, 1.0, 2.0  # kinds of times: first, last, others


def pairs_of_loads(times: int, rows: int, states: int) -> int:
    """Return the number of pairs of loads of the training rows, if all of these times are one series."""
    loads = states * (int(np.ceil(np.log2(max(times, 2)))) + 1)
    return rows * loads * (loads + 1) // 2


class TreeLayout(TimeLayout):
    """Independent variables u.

    left, right   the nearest ancestors per time; its own number if there is none
    level         number of ancestors
    path          the ancestors and the time itself by their level, (times, levels); its own number beyond
    """

    moving: ClassVar[bool] = True

    def __init__(self, part: Any, A: np.ndarray) -> None:
        super().__init__(part, A)
        own, time = np.arange(len(self.times)), self.times[:, 1]
        self._grow()
        self.path = np.tile(own[:, None], (1, self.level.max(initial=0) + 1))
        for level, k in self._levels():
            parent = np.where(self.level[self.right[k]] < level, self.right[k], self.left[k])
            parent = np.where(self.level[self.left[k]] > self.level[parent], self.left[k], parent)
            self.path[k, :level] = self.path[parent, :level]
        kind = np.select([self.first, self.right == own], [ROOT, END], BETWEEN)
        since, until = time - time[self.left], time[self.right] - time
        # Steps that a kind does not have are 1, so that all numbers are finite.
        steps = np.where(kind == ROOT, 1.0, since), np.where(kind == BETWEEN, until, 1.0)
        self.rows = np.ones(len(own)), np.stack([*steps, time, kind])
        self.i = self.j = np.arange(self.size)
        self.index = self._variables(self.place)
        self.weight = np.ones(self.index.shape)

    def _grow(self) -> None:
        """Set left, right and level: halve the gaps between times until none holds a time."""
        own = np.arange(len(self.times))
        self.left, self.right, self.level = own.copy(), own.copy(), np.zeros(len(own), np.int64)
        begin = np.flatnonzero(self.first)
        end = np.append(begin[1:], len(own))[: len(begin)] - 1
        begin, end = begin[end > begin], end[end > begin]
        self.left[end], self.level[end], level = begin, 1, 1
        while len(begin):
            open_ = end - begin > 1
            begin, end, level = begin[open_], end[open_], level + 1
            middle = (begin + end) // 2
            self.left[middle], self.right[middle], self.level[middle] = begin, end, level
            begin, end = np.concatenate([begin, middle]), np.concatenate([middle, end])

    def _levels(self) -> list[tuple[int, np.ndarray]]:
        """Return the levels of the tree, and the times of each."""
        return [(level, np.flatnonzero(self.level == level)) for level in range(self.path.shape[1])]

    def _variables(self, k: np.ndarray) -> np.ndarray:
        """Return the variables on the paths of these times."""
        return (self.path[k][:, :, None] * self.states + np.arange(self.states)).reshape(len(k), -1)

    def precision(self, part: Any) -> tuple[np.ndarray, float]:
        return np.ones(self.size), 0.0

    def pull(self, part: Any, bar: np.ndarray, log_det: float) -> Any:
        return jax.tree.map(lambda leaf: np.zeros(np.shape(leaf)), part)

    def _steps(self, part: Any) -> list[np.ndarray]:
        """Return the weights of the states of left and right, and the root of V, per time."""
        found, _ = rowwise.apply(_gains, HARMONICS, part.kernel, self.rows)
        return [np.moveaxis(each, -1, 0) for each in found]

    def _products(self, left: np.ndarray, right: np.ndarray, root: np.ndarray) -> np.ndarray:
        """Return L with z = L u, (times, states, levels, states)."""
        L = np.zeros((len(root), self.states, self.path.shape[1], self.states))
        for level, k in self._levels():
            for weight, ancestor in ((left, self.left), (right, self.right)):
                L[k, :, :level] += np.einsum("kab,kblc->kalc", weight[k], L[ancestor[k], :, :level])
            L[k, :, level] = root[k]
        return L

    def weights(self, part: Any) -> np.ndarray:
        L = self._products(*self._steps(part))
        return np.einsum("ns,nslc->nlc", self.h, L).reshape(len(L), -1)[self.place]

    def pull_weights(self, part: Any, bar: np.ndarray) -> Any:
        steps = self._steps(part)
        L, bars = self._products(*steps), [np.zeros_like(each) for each in steps]
        by_time = np.zeros((len(L), bar.shape[1]))
        np.add.at(by_time, self.place, bar)
        L_bar = self.h[:, :, None, None] * by_time.reshape(len(L), 1, *L.shape[2:])
        for level, k in reversed(self._levels()):
            each = L_bar[k, :, :level]
            bars[2][k] = L_bar[k, :, level]
            for weight, weight_bar, ancestor in zip(steps[:2], bars[:2], (self.left, self.right), strict=True):
                weight_bar[k] = np.einsum("kalc,kblc->kab", each, L[ancestor[k], :, :level])
                L_bar[ancestor[k], :, :level] += np.einsum("kab,kalc->kblc", weight[k], each)
        moved = tuple(np.ascontiguousarray(np.moveaxis(each, 0, -1)) for each in bars)
        _, sums = rowwise.apply(_pull_gains, HARMONICS, part.kernel, (*self.rows, *moved))
        return replace(part, kernel=jax.tree.unflatten(jax.tree.structure(part.kernel), sums))

    def loads(self, part: Any, A: np.ndarray) -> Loads:
        new, L = self.at_new(part, A), self._products(*self._steps(part))
        sides = (new.b, new.before), (new.a, new.after)
        weight = [np.einsum("ns,nslc->nlc", state, L[k]).reshape(len(A), -1) for k, state in sides]
        index = [self._variables(k) for k, _ in sides]
        return Loads(np.concatenate(index, axis=1), np.concatenate(weight, axis=1), new.residual)


def _of_times(kernel: Kernel, times: Array) -> tuple[Array, ...]:
    def one(row: Array) -> tuple[Array, ...]:
        since, until, time, kind = row
        P, A, S, _ = form(kernel, HARMONICS, since, time)
        _, ahead, noise, _ = form(kernel, HARMONICS, until, time)
        R, R_ahead = inverse_and_log_det(S)[0], inverse_and_log_det(noise)[0] @ ahead
        half = small_lower_solve(small_cholesky(R + ahead.T @ R_ahead), jnp.eye(len(S), dtype=S.dtype)).T
        V, between, end = half @ half.T, kind == BETWEEN, kind == END
        total, unit = form(kernel, HARMONICS, since + until, time).A, inverse_and_log_det(P)[0]
        from_left, from_right, is_near = V @ R @ A, (R_ahead @ V).T, since <= until
        left = jnp.where(is_near, A - from_right @ total, from_left)
        right = jnp.where(is_near, from_right, (P @ ahead.T - from_left @ P @ total.T) @ unit)
        root = jnp.where(between, half, small_cholesky(jnp.where(end, S, P)))
        return jnp.where(between, left, jnp.where(end, A, 0.0)), jnp.where(between, right, 0.0), root

    return jax.vmap(one, in_axes=-1, out_axes=-1)(times)


def _gains(_: int, kernel: Kernel, rows: tuple[Array, Array]) -> tuple[tuple[Array, ...], tuple[()]]:
    return tuple(each.astype(rows[0].dtype) for each in _of_times(kernel, rows[1])), ()


def _pull_gains(_: int, kernel: Kernel, rows: tuple[Array, ...]) -> tuple[tuple[()], tuple[Array, ...]]:
    weight, times, *bars = rows
    by_kernel = jax.vjp(lambda kernel: _of_times(kernel, times), kernel)[1](tuple(weight * bar for bar in bars))[0]
    return (), tuple(jax.tree.leaves(by_kernel))
