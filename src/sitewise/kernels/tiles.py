"""Evaluate any kernel on NumPy arrays in compiled tiles, whose shapes depend only on the number of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import programs

_TILE = 64  # rows and columns of a tile


def pairs_with_pull(kernel: Any, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], Any]]:
    """Return the matrix of κ(a_i, b_j), and the function from its cotangent to the cotangent of the kernel."""
    K = np.empty((len(A), len(B)))
    for at, (tile,) in _run(_tile, kernel, A, B):
        K[at] = tile[: K[at].shape[0], : K[at].shape[1]]

    def pull(K_bar: np.ndarray) -> Any:
        leaves, tree = jax.tree.flatten(kernel)
        total = [np.zeros(np.shape(leaf)) for leaf in leaves]
        for _, bars in _run(_tile_pull, kernel, A, B, K_bar):
            total = [a + b for a, b in zip(total, bars, strict=True)]
        return jax.tree.unflatten(tree, total)

    return K, pull


def pull_rows(kernel: Any, A: np.ndarray, B: np.ndarray, bar: np.ndarray) -> np.ndarray:
    """Return the cotangent of B, given the cotangent `bar` of the matrix of κ(a_i, b_j)."""
    out = np.zeros(B.shape)
    for (_, at), (tile,) in _run(_tile_pull_rows, kernel, A, B, bar):
        out[at] += tile[: len(out[at])]
    return out


def _run(
    function: Any, kernel: Any, A: np.ndarray, B: np.ndarray, *extra: np.ndarray
) -> Iterator[tuple[tuple[slice, slice], list[np.ndarray]]]:
    """Yield the position of each tile, and the results of the function on it."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(kernel)]
    A, B = np.asarray(A, np.float64), np.asarray(B, np.float64)
    program = _program(function, kernel, (A.shape[1], B.shape[1]), len(extra))
    with jax.enable_x64(True):
        for i in range(0, len(A), _TILE):
            for j in range(0, len(B), _TILE):
                at = slice(i, i + _TILE), slice(j, j + _TILE)
                cut = (_filled(A[at[0]]), _filled(B[at[1]]), *(_zero_filled(e[at]) for e in extra))
                yield at, [np.asarray(out) for out in program.call(*cut, *leaves)]


def _filled(part: np.ndarray) -> np.ndarray:
    """Pad the rows to a whole tile with copies of the first row."""
    return part if len(part) == _TILE else np.concatenate([part, np.repeat(part[:1], _TILE - len(part), axis=0)])


def _zero_filled(part: np.ndarray) -> np.ndarray:
    """Pad a matrix to a whole tile with zeros."""
    return np.pad(part, [(0, _TILE - size) for size in part.shape])


def _tile(kernel: Any, A: jax.Array, B: jax.Array) -> tuple[jax.Array, ...]:
    return (kernel.pairs(A, B),)


def _tile_pull(kernel: Any, A: jax.Array, B: jax.Array, bar: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(jax.tree.leaves(jax.vjp(lambda kernel: kernel.pairs(A, B), kernel)[1](bar)[0]))


def _tile_pull_rows(kernel: Any, A: jax.Array, B: jax.Array, bar: jax.Array) -> tuple[jax.Array, ...]:
    return jax.vjp(lambda B: kernel.pairs(A, B), B)[1](bar)


def _program(function: Any, kernel: Any, columns: tuple[int, int], matrices: int) -> programs.Program:
    """Return the compiled program of a function of one tile."""
    leaves, tree = jax.tree.flatten(kernel)
    shapes = tuple(np.shape(leaf) for leaf in leaves)
    tables = tuple((_TILE, d) for d in columns) + ((_TILE, _TILE),) * matrices

    def flat(*arrays: jax.Array) -> tuple[jax.Array, ...]:
        here = jax.tree.unflatten(tree, arrays[len(tables) :])
        return tuple(jnp.asarray(out) for out in function(here, *arrays[: len(tables)]))

    return programs.get(
        (function, tree, shapes, columns),
        lambda: programs.Pending(flat, tables + shapes, lambda: None),
        lambda: (function, jax.tree.map(lambda _: 0, kernel)),
    )
