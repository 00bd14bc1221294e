"""Elementwise functions of rows: inline in a traced program, or on the host in compiled programs of a fixed length.

A function of rows takes (settings, shared, rows) and returns (values, sums):

    settings  hashable, known while compiling
    shared    a tree of arrays that all rows share, such as a likelihood
    rows      a tree of arrays with the rows on their last axis
    values    a tuple of arrays with the rows on their last axis: row i depends on row i alone
    sums      a tuple of arrays that are sums over rows

On the host the rows are cut into pieces of one length, the last one filled up with copies of the first row and with
zeros in the first array of the tree, which is the weight of a row.  One program serves every number of rows; it takes
and returns one table and one vector, because each further array costs microseconds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import programs
from sitewise.arrays.engine import is_host

Shapes = tuple[tuple[int, ...], ...]
Function = Callable[[Any, Any, Any], tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]]
_NOTHING = np.zeros(0)
_MAX_TABLE_ROWS = 2**16
_PIECE_ROWS = (
    128,
    512,
)  # per call of a program; a call costs as much as 20 rows of quadrature


def apply(function: Function, settings: Hashable, shared: Any, rows: Any, piece: int = 0) -> tuple[Any, Any]:
    """function(settings, shared, rows); `piece` is the number of rows of a program, if it is not to be chosen here."""
    row_leaves, row_tree = jax.tree.flatten(rows)
    shared_leaves, shared_tree = jax.tree.flatten(shared)
    if not is_host(*row_leaves, *shared_leaves):
        return function(settings, shared, rows)
    count = row_leaves[0].shape[-1]
    if count > _MAX_TABLE_ROWS:
        each_table = [
            apply(function, settings, shared, jax.tree.map(lambda a: a[..., at : at + _MAX_TABLE_ROWS], rows), piece)  # noqa: B023
            for at in range(0, count, _MAX_TABLE_ROWS)
        ]
        found, totals = zip(*each_table, strict=True)
        return (
            tuple([np.concatenate(each, axis=-1) for each in zip(*found, strict=True)]),
            tuple([sum(each) for each in zip(*totals, strict=True)]),
        )
    piece = piece or _PIECE_ROWS[count > 2 * _PIECE_ROWS[0]]
    heads = tuple([leaf.shape[:-1] for leaf in row_leaves])
    shapes = tuple([np.shape(leaf) for leaf in shared_leaves])
    key = (function, type(settings), settings, shared_tree, shapes, row_tree, heads, piece)
    parts = functools.partial(_parts, function, settings, shared, shapes, rows, heads)
    pending = functools.partial(_pending, function, settings, shared_tree, shapes, row_tree, heads, piece)
    program = programs.get(key, pending, parts)
    vector = (
        np.concatenate([np.ravel(leaf) for leaf in shared_leaves]).astype(np.float64, copy=False)
        if shapes
        else _NOTHING
    )
    table = np.zeros((_size(heads), max(1, -(-count // piece)) * piece))
    used = 0
    for leaf, head in zip(row_leaves, heads, strict=True):
        size = math.prod(head)
        table[used : used + size, :count] = leaf.reshape(size, count)
        used += size
    if count:
        table[:, count:] = table[:, :1]
    table[: math.prod(heads[0]), count:] = 0.0
    with jax.enable_x64(True):
        # All are started before the first one is waited for.
        results = [program.call(table[:, at : at + piece], vector) for at in range(0, table.shape[1], piece)]
    values, total = (np.asarray(part) for part in results[0])
    if len(results) > 1:
        values = np.concatenate([values, *(np.asarray(v) for v, _ in results[1:])], axis=1)
        total = total + sum(np.asarray(s) for _, s in results[1:])
    cut = values[:, :count]
    value_heads, sum_shapes = program.note
    return (
        tuple([cut[at].reshape(*head, count) for at, head in _places(value_heads)]),
        tuple([total[at].reshape(shape) for at, shape in _places(sum_shapes)]),
    )


def _size(shapes: Shapes) -> int:
    return sum([math.prod(shape) for shape in shapes])


@functools.lru_cache(maxsize=1024)
def _places(shapes: Shapes) -> list[tuple[slice, tuple[int, ...]]]:
    """Where each of several arrays is, if one follows the other."""
    ends = [_size(shapes[: i + 1]) for i in range(len(shapes))]
    return [(slice(end - math.prod(shape), end), shape) for shape, end in zip(shapes, ends, strict=True)]


def _parts(function: Function, settings: Hashable, shared: Any, shapes: Shapes, rows: Any, heads: Shapes) -> Any:
    """What a program is made of, without numbers."""
    empty = jax.tree.map(lambda _: 0, (shared, rows))
    return function, settings, empty, shapes, heads


def _pending(
    function: Function, settings: Hashable, shared_tree: Any, shapes: Shapes, row_tree: Any, heads: Shapes, piece: int
) -> programs.Pending:
    note: list[tuple[Shapes, Shapes]] = []

    def flat(table: jax.Array, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        rows = jax.tree.unflatten(row_tree, [table[at].reshape(*head, piece) for at, head in _places(heads)])
        shared = jax.tree.unflatten(shared_tree, [vector[at].reshape(shape) for at, shape in _places(shapes)])
        values, sums = function(settings, shared, rows)
        note.append((tuple(v.shape[:-1] for v in values), tuple(jnp.shape(s) for s in sums)))
        return (
            jnp.concatenate([v.reshape(-1, piece) for v in values]) if values else jnp.zeros((0, piece)),
            jnp.concatenate([jnp.ravel(s) for s in sums]) if sums else jnp.zeros(0),
        )

    return programs.Pending(flat, ((_size(heads), piece), (_size(shapes),)), lambda: note[0])
