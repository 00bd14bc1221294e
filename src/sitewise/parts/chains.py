"""A function of time as a chain of states: the state-space form of a kernel as a block-tridiagonal precision.

With states z_k at the distinct times, z_k = A_k z_{k−1} + N(0, S_k) (`kernels.state_space`), f = hᵀz, and R_k = S_k⁻¹,

    Q[k, k] = R_k + A_{k+1}ᵀ R_{k+1} A_{k+1},    Q[k, k−1] = −R_k A_k,    log|Q| = −Σ log|S_k|

The first state of a series has the stationary covariance as S_1, and A_1 = 0.  The noise S_k must not be singular,
which excludes undamped oscillations and constants: these are `Season`, `Linear` and `Constant`.

**New times** t between the times of states z_b and z_a (C = S(t−b) A(a−t)ᵀ, V = A(a−t) S(t−b) A(a−t)ᵀ + S(a−t)):

    z | z_b, z_a ~ N(A(t−b) z_b + C V⁻¹ (z_a − A(a−b) z_b),  S(t−b) − C V⁻¹ Cᵀ)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array
from sitewise.checks import must_be
from sitewise.kernels.base import Kernel, Product, Scaled, Sum, check_parts
from sitewise.kernels.state_space import check_form, form
from sitewise.kernels.stationary import Matern12, Matern32, Matern52
from sitewise.kernels.units import Units, input_units
from sitewise.numerics.dense.small_systems import gain, inverse_and_log_det
from sitewise.parts.base import Layout, Loads, Part, numbered, starting_kernel
from sitewise.types import fixed, module, replace, static

HARMONICS = 7  # for products with a periodic kernel
# The noise of f vanishes as times approach each other, by the fifth power for Matérn-5/2, and its inverse loses digits.
# Where its share s of the variance is not far above CLOSE_NOISE, JITTER / (1 + (s / CLOSE_NOISE)²) of the stationary
# covariance is added.
JITTER, CLOSE_NOISE = 1e-12, 1e-10


@module
class Series(Part):
    """Function of time (trend, state-space model): one series, or one independent function per series.

    Parameters
    ----------
    columns : int or str, default=()
        The column of time.
    kernel : Kernel, default=None
        None is `Matern32()`; otherwise `Matern12`, `Matern32` or `Matern52`, a sum of these, or a product with one of
        these.
    by : int or str, default=None
        The column whose values name independent series that share the kernel; None for one series.
    """

    kernel: Kernel = fixed(default=None)
    by: int | str | None = static(default=None)

    local: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.kernel is None:
            object.__setattr__(self, "kernel", Matern32())
        must_be(self.kernel, Kernel, "The kernel of a Series", "Matern32(), a kernel of sitewise.kernels")
        super().__post_init__()

    @property
    def used(self) -> tuple[int | str, ...]:
        columns = super().used
        return columns if self.by is None else (*columns, self.by)

    def _numbered(self, names: Sequence[str], columns: int) -> dict[str, Any]:
        return {} if self.by is None else {"by": numbered(self, self.by, names, columns)[0]}

    def check(self, columns: int) -> None:
        if len(super().used) != 1:
            raise ValueError("Series needs one column of time, as in Series(0).")
        super().check(columns)
        check_parts(self, (self.kernel,), 1)
        check_form(self.kernel)
        if not _has_noise(self.kernel):
            raise ValueError(
                f"Series: {type(self.kernel).__name__} has a part without noise; use Season, Linear or Constant as "
                "separate parts, and Matern12, Matern32 or Matern52 here."
            )

    def level_dims(self, columns: int) -> tuple[int, ...]:
        return () if self.by is None else (1,)

    def units(self, ranges: np.ndarray, path: str) -> Units:
        return input_units(self.kernel, ranges[:1], f"{path}.kernel")

    def pairs(self, A: Array, B: Array) -> Array:
        K = self.kernel.matrix(A[:, :1], B[:, :1])
        return K if self.by is None else K * (A[:, 1][:, None] == B[:, 1])

    def diag(self, A: Array) -> Array:
        return self.kernel.variances(A[:, :1])

    def started(self, A: np.ndarray, variance: float) -> Series:
        return replace(self, kernel=starting_kernel(self.kernel, A[:, :1], variance))

    def layout(self, A: np.ndarray) -> Layout:
        return ChainLayout(self, A)


def _has_noise(kernel: Kernel) -> bool:
    """Return whether the noise of every state is regular."""
    if isinstance(kernel, Sum):
        return all(map(_has_noise, kernel.parts))
    if isinstance(kernel, Product):
        return any(map(_has_noise, kernel.parts))
    if isinstance(kernel, Scaled):
        return _has_noise(kernel.base)
    return isinstance(kernel, Matern12 | Matern32 | Matern52)


def _sorted_times(A: np.ndarray) -> np.ndarray:
    """Return the table (series, time) per row."""
    return np.stack([A[:, 1] if A.shape[1] > 1 else np.zeros(len(A)), A[:, 0]], axis=1)


class ChainLayout(Layout):
    """s states per distinct time of every series, by series and time."""

    def __init__(self, part: Series, A: np.ndarray) -> None:
        self.times, place = np.unique(_sorted_times(A), axis=0, return_inverse=True)
        count, first = len(self.times), np.ones(len(self.times), bool)
        first[1:] = self.times[1:, 0] != self.times[:-1, 0]
        step = np.where(first, 0.0, np.diff(self.times[:, 1], prepend=self.times[0, 1]))
        self.rows = np.ones(count), np.stack([step, self.times[:, 1], first.astype(float)])
        (h,), _ = rowwise.apply(_loads, HARMONICS, part.kernel, self.rows)
        s = self.states = len(h)
        self.size = count * s
        self.index = place.reshape(-1, 1) * s + np.arange(s)
        self.weight = np.ascontiguousarray(h.T[place.reshape(-1)])
        position = np.cumsum(np.maximum(step, 0.0)) + 2 * np.cumsum(first) * (np.sum(step) + 1.0)
        self.positions = np.repeat(position, s)[:, None]
        low, square = np.tril_indices(s), np.indices((s, s)).reshape(2, -1)
        base, after = np.arange(count)[:, None] * s, np.flatnonzero(~first)[:, None] * s
        self.low, self.later = low, np.flatnonzero(~first)
        self.i = np.concatenate([(base + low[0]).ravel(), (after + square[0]).ravel()])
        self.j = np.concatenate([(base + low[1]).ravel(), (after - s + square[1]).ravel()])

    def precision(self, part: Series) -> tuple[np.ndarray, float]:
        (R, RA, ARA), (log_det,) = rowwise.apply(_blocks, HARMONICS, part.kernel, self.rows)
        R, RA, ARA = (np.moveaxis(a, -1, 0) for a in (R, RA, ARA))
        diagonal = R.copy()
        diagonal[self.later - 1] += ARA[self.later]
        return np.concatenate([diagonal[:, *self.low].ravel(), -RA[self.later].ravel()]), -float(log_det)

    def pull(self, part: Series, bar: np.ndarray, log_det: float) -> Series:
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

    def loads(self, part: Series, A: np.ndarray) -> Loads:
        place, at, _ = self._gaps(A)
        (before, after, residual), _ = rowwise.apply(_between, HARMONICS, part.kernel, (at,))
        states, count = np.arange(self.states), len(self.times)
        index = [np.clip(k, 0, count - 1)[:, None] * self.states + states for k in (place - 1, place)]
        return Loads(np.concatenate(index, axis=1), np.concatenate([before, after]).T, residual[0])

    def residuals(self, part: Series, A: np.ndarray) -> np.ndarray:
        place, at, name = self._gaps(A)
        time, out = at[3], np.zeros((len(A), len(A)))
        i, j = np.nonzero((place[:, None] == place) & (name[:, None] == name) & (time[:, None] <= time))
        (values,), _ = rowwise.apply(_residual, HARMONICS, part.kernel, (at[:, i], at[:, j]))
        out[i, j] = out[j, i] = values[0]
        return out


def _step(kernel: Kernel, step: Array, time: Array, first: Array) -> tuple[Array, Array, Array]:
    """Return A, S and h of a step; the first state has A = 0 and the stationary covariance."""
    P, A, S, h = form(kernel, HARMONICS, step, time)
    return jnp.where(first > 0, 0.0, A), jnp.where(first > 0, P, S), h


def _loads(_: int, kernel: Kernel, rows: tuple[Array, Array]) -> tuple[tuple[Array], tuple[()]]:
    found = jax.vmap(lambda row: _step(kernel, *row)[2], in_axes=-1, out_axes=-1)(rows[1])
    return (found.astype(rows[1].dtype),), ()


def _blocks(_: int, kernel: Kernel, rows: tuple[Array, Array]) -> tuple[tuple[Array, ...], tuple[Array]]:
    """Return R, RA and AᵀRA per step, and Σ log|S|; rows of filling have the weight 0."""
    weight, steps = rows
    *found, log_det = _of_steps(kernel, steps)
    return tuple(a.astype(weight.dtype) for a in found), (jnp.sum(weight * log_det),)


def _of_steps(kernel: Kernel, steps: Array) -> tuple[Array, ...]:
    def one(row: Array) -> tuple[Array, ...]:
        A, S, _ = _step(kernel, *row)
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


def _bridge(kernel: Kernel, at: Array) -> tuple[Array, ...]:
    """Return A and S since the state before, C, V⁻¹ and A until the state after, and h, of one new time."""
    _, since, until, time, first, last = at
    A, S, h = _step(kernel, since, time, first)
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
