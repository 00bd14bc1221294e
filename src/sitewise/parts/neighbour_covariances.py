"""Covariances of places with their neighbours, in batches, and the pullback to the kernel's numbers.

A stationary kernel is evaluated on NumPy arrays, from differences of coordinates.  Other kernels run in compiled
programs of a fixed length.  Each place has a nugget: JITTER times its variance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array
from sitewise.kernels.base import Kernel
from sitewise.kernels.stationary import Stationary

JITTER = 1e-10  # share of the variance
PROGRAM_ROWS = 512  # per call of a program

Blocks = tuple[np.ndarray, np.ndarray, np.ndarray]  # K (rows, m, m), k (rows, m), var (rows,)
Leaves = tuple[np.ndarray, ...]


def covariances(
    kernel: Kernel, at: np.ndarray, near: np.ndarray, has: np.ndarray
) -> tuple[Blocks, Callable[[np.ndarray, np.ndarray, np.ndarray], Leaves]]:
    """Return covariances among the neighbours, with the place, and its variance, and their pullback to the kernel.

    `at` are the coordinates of the places, (rows, d), `near` those of their neighbours, (rows, m, d), and `has` tells
    which neighbours exist; absent neighbours are independent of everything.
    """
    group = np.concatenate([at[:, None], near], axis=1)
    packed, pull_packed = _packed_with_pull(kernel, np.ascontiguousarray(np.moveaxis(group, 0, -1)))
    size = has.shape[1] + 1
    i, j = np.tril_indices(size)
    every = np.arange(size)
    square = np.empty((len(has), size, size))
    square[:, i, j] = square[:, j, i] = packed.T
    square[:, every, every] *= 1 + JITTER
    K, k, var = square[:, 1:, 1:], square[:, 1:, 0], square[:, 0, 0]
    if not has.all():
        K, k = K * (has[:, :, None] & has[:, None, :]), k * has
        rows, absent = np.nonzero(~has)
        K[rows, absent, absent] = 1.0

    def pull(K_bar: np.ndarray, k_bar: np.ndarray, var_bar: np.ndarray) -> Leaves:
        bar = np.zeros((len(has), size, size))
        bar[:, 1:, 1:] = K_bar * (has[:, :, None] & has[:, None, :])
        bar[:, 1:, 0], bar[:, 0, 0] = k_bar * has, var_bar
        both = bar[:, i, j] + bar[:, j, i]
        both[:, i == j] *= 0.5 * (1 + JITTER)
        return pull_packed(np.ascontiguousarray(both.T))

    return (K, k, var), pull


def _packed_with_pull(kernel: Kernel, groups: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], Leaves]]:
    """Return the lower triangles of the covariances of all groups, (pairs, rows), and the pullback.

    `groups` are coordinates, (members of a group, d, rows).
    """
    i, j = np.tril_indices(len(groups))
    if isinstance(kernel, Stationary) and kernel.active_dims is None:
        squared = (np.moveaxis(groups, 1, 0)[:, i] - np.moveaxis(groups, 1, 0)[:, j]) ** 2
        values, pull_kernel = kernel.at_differences(squared.reshape(groups.shape[1], -1))
        return values.reshape(len(i), -1), lambda bar: tuple(jax.tree.leaves(pull_kernel(bar.reshape(-1))))
    inputs = np.ones(groups.shape[-1]), groups
    (packed,), _ = rowwise.apply(_covariances, None, kernel, inputs, PROGRAM_ROWS)
    return packed, lambda bar: rowwise.apply(_pull_covariances, None, kernel, (*inputs, bar), PROGRAM_ROWS)[1]


def _packed(kernel: Any, groups: Array) -> Array:
    low = np.tril_indices(groups.shape[0])
    return jax.vmap(lambda group: kernel.matrix(group)[low], in_axes=-1, out_axes=-1)(groups)


def _covariances(_: None, kernel: Kernel, rows: tuple[Array, Array]) -> tuple[tuple[Array], tuple[()]]:
    return (_packed(kernel, rows[1]).astype(rows[1].dtype),), ()


def _pull_covariances(_: None, kernel: Kernel, rows: tuple[Array, ...]) -> tuple[tuple[()], tuple[Array, ...]]:
    weight, groups, bar = rows  # rows of filling have the weight 0
    by_kernel = jax.vjp(lambda kernel: _packed(kernel, groups), kernel)[1](weight * bar)[0]
    return (), tuple(jax.tree.leaves(by_kernel))
