"""Recursions along rows, and functions of single rows: inline in a traced program, on the host in compiled blocks.

A step takes (settings, carry, row) and returns (carry, values).  On the host the rows are cut into blocks, and the
carry passes from one block to the next, so that two programs serve every number of rows.  The last block is padded with
rows of zeros.  They are last in a forward sweep; a backward sweep starts with them and must leave a carry of zeros
unchanged.

A short recursion, with the algebra of its rows done by `each` before and after, is faster than one recursion that does
everything: XLA compiles a scan whose body moves less than a kilobyte to one loop (50 ns per row), and calls a function
for every operation of a longer body (1 µs per row).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import jax
import numpy as np
from jax import lax

from sitewise.arrays import programs
from sitewise.arrays.engine import is_host
from sitewise.process.device import on_accelerator

T = TypeVar("T")
Step = Callable[[Any, Any, Any], tuple[Any, Any]]
Function = Callable[[Any, Any], Any]
_BLOCK_ROWS = (128, 4096)  # rows per program: a call costs as much as a thousand rows of a small state


def in_parallel(*arrays: Any) -> bool:
    """Return whether to compute a recursion for all rows at once, as on an accelerator."""
    return on_accelerator() and not is_host(*arrays)


def sweep(step: Step, settings: Hashable, start: T, rows: Any, reverse: bool = False) -> Any:
    """Return the values of all rows, which are on the first axis of every array, as in `lax.scan`."""
    if not is_host(*jax.tree.leaves((start, rows))):
        return lax.scan(functools.partial(step, settings), start, rows, reverse=reverse)[1]
    return _in_blocks(_scan, (step, settings, reverse), start, rows, reverse)


def each(function: Function, settings: Hashable, rows: Any) -> Any:
    """Return function(settings, rows) with rows on the first axis of every array; row i must depend on row i alone."""
    if not is_host(*jax.tree.leaves(rows)):
        return function(settings, rows)
    return _in_blocks(_each, (function, settings), (), rows, False)


def _scan(settings: tuple[Step, Hashable, bool], start: Any, rows: Any) -> tuple[Any, Any]:
    step, own, reverse = settings
    return lax.scan(functools.partial(step, own), start, rows, reverse=reverse)


def _each(settings: tuple[Function, Hashable], _: tuple[()], rows: Any) -> tuple[Any, Any]:
    function, own = settings
    return (), function(own, rows)


def _in_blocks(whole: Step, settings: Hashable, start: Any, rows: Any, reverse: bool) -> Any:
    """Return the values of whole(settings, carry, block), block by block."""
    first, form = jax.tree.flatten(start)
    leaves, tree = jax.tree.flatten(rows)
    carry: Sequence[Any] = first
    count = len(leaves[0])
    block = _BLOCK_ROWS[count > 4 * _BLOCK_ROWS[0]]
    shapes = tuple([np.shape(c) for c in carry]), tuple([(block, *leaf.shape[1:]) for leaf in leaves])
    pending = functools.partial(_pending, whole, settings, form, tree, shapes)
    empty = jax.tree.map(lambda _: 0, (start, rows))
    key = (whole, settings, form, tree, shapes)
    program = programs.get(key, pending, lambda: (whole, settings, empty, shapes))
    starts = range(0, max(count, 1), block)
    found: list[Any] = []
    with jax.enable_x64(True):
        for at in reversed(starts) if reverse else starts:
            results = program.call(*carry, *[_padded(leaf[at : at + block], block) for leaf in leaves])
            carry = results[: len(carry)]
            found.append(results[len(carry) :])
    if reverse:
        found.reverse()
    values = [np.concatenate([np.asarray(part) for part in parts])[:count] for parts in zip(*found, strict=True)]
    return jax.tree.unflatten(program.note, values)


def _padded(part: np.ndarray, block: int) -> np.ndarray:
    if len(part) == block:
        return part
    whole = np.zeros((block, *part.shape[1:]))
    whole[: len(part)] = part
    return whole


def _pending(whole: Step, settings: Hashable, form: Any, tree: Any, shapes: tuple[Any, Any]) -> programs.Pending:
    note: list[Any] = []

    def flat(*arrays: jax.Array) -> list[jax.Array]:
        size = len(shapes[0])
        start, rows = jax.tree.unflatten(form, arrays[:size]), jax.tree.unflatten(tree, arrays[size:])
        end, values = whole(settings, start, rows)
        leaves, structure = jax.tree.flatten(values)
        note.append(structure)
        return [*jax.tree.leaves(end), *leaves]

    return programs.Pending(flat, (*shapes[0], *shapes[1]), lambda: note[0])
