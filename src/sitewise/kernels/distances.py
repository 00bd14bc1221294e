"""Squared distances between rows, for NumPy and for JAX arrays."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays.engine import Array, cond, is_host, namespace, stop_gradient

# Squared distances below this share of the squared norms are rounding errors and are set to zero.
_ROUNDING_SHARE = 1e-13
# Coordinates, in lengthscales, are clipped to this size: larger ones have squares that overflow, and infinity minus
# infinity would make the farthest rows the nearest.
_LARGEST = {8: 1e150, 4: 1e17}
# Where the squared norm of one row, in lengthscales, is this large, or this many times the median, subtracting norms
# leaves too few digits for the other rows.
_UNEVEN = {8: 1e6, 4: 1e3}


def squared_distances(A: Array, B: Array) -> Array:
    """|a_i − b_j|² of rows in lengthscales; exactly 0 for equal rows.

    They are computed by one matrix product, with the median of B as the origin.  That loses digits where rows are far
    from the origin and near each other, or differ in a narrow column only: with one entry of 10⁸ in the table, clusters
    a million lengthscales apart, or a column of 10⁹ beside one of 1, different rows would become equal.  In these cases
    differences are taken column by column.  B alone decides which formula is used, so that a prediction does not depend
    on the other rows of A.
    """
    size = A.dtype.itemsize
    xp = namespace(A, B)
    same = B is A
    A = xp.clip(A, -_LARGEST[size], _LARGEST[size])
    B = A if same else xp.clip(B, -_LARGEST[size], _LARGEST[size])
    centre, uneven = _centre(B, 1.0)
    return cond(uneven, lambda: _by_column(A, B), lambda: _by_product(A - centre, B - centre))


def _centre(B: Array, unit: Array | float) -> tuple[Array, Array]:
    """The origin of the matrix product, and whether the product would lose digits that count for this lengthscale."""
    xp = namespace(B)
    # Medians of about a hundred rows: sorting all of them would take longer than the product.
    some = slice(None, None, max(1, B.shape[0] // 100))
    centre = stop_gradient(xp.median(B[some], axis=0))
    squares = stop_gradient((B - centre) ** 2)
    norms, columns = xp.sum(squares, axis=1), xp.max(squares, axis=0)
    narrowest = xp.min(xp.where(columns > 0, columns, xp.inf))
    typical = xp.minimum(xp.median(norms[some]), 100 * narrowest)
    return centre, xp.max(norms) > _UNEVEN[B.dtype.itemsize] * xp.minimum(typical, unit**2)


def _by_product(A: Array, B: Array) -> Array:
    """|a|² + |b|² − 2ab.  Values below rounding are set to 0, else a row would have a distance of 1e-8 to its copy."""
    rows, columns = (A * A).sum(axis=1), (B * B).sum(axis=1)
    if is_host(A, B):
        d2 = (-2 * A) @ B.T
        d2 += rows[:, None]
        d2 += columns
        # Few entries are small, in most matrices none, and each pass over the matrix counts.
        least = _ROUNDING_SHARE * (rows.max(initial=0.0) + columns.max(initial=0.0))
        if not d2.min(initial=np.inf) > least:
            i, j = np.nonzero(d2 <= least)
            small = d2[i, j]
            d2[i, j] = np.where(small > _ROUNDING_SHARE * (rows[i] + columns[j]), small, 0.0)
        return d2
    norms = rows[:, None] + columns
    d2 = norms - 2 * A @ B.T
    tolerance = _ROUNDING_SHARE if d2.dtype == jnp.float64 else 1e-5
    return jnp.where(d2 <= tolerance * norms, 0.0, d2)  # a NaN stays one


def _by_column(A: Array, B: Array) -> Array:
    """Σ (a − b)².  A difference in the last digits counts as 0, since equal entries may be divided by ℓ in two ways."""
    xp = namespace(A, B)
    tolerance = 4 * xp.finfo(A.dtype).eps

    def add(total: Array, column: tuple[Array, Array]) -> tuple[Array, None]:
        a, b = column[0][:, None], column[1][None, :]
        equal = xp.abs(a - b) <= tolerance * (xp.abs(a) + xp.abs(b))
        return total + xp.where(equal, 0.0, (a - b) ** 2), None

    none = xp.zeros((A.shape[0], B.shape[0]), A.dtype)
    if is_host(A, B):
        return functools.reduce(lambda total, column: add(total, column)[0], zip(A.T, B.T, strict=True), none)
    # The backward pass recomputes the differences of a column instead of storing them.
    return lax.scan(jax.checkpoint(add), none, (A.T, B.T))[0]


_rows: contextvars.ContextVar[tuple[Any, dict[bool, np.ndarray]]] = contextvars.ContextVar("rows", default=(None, {}))


@contextlib.contextmanager
def same_rows(X: Any) -> Iterator[None]:
    """Distances between the rows of X are computed once until the end of the `with` block, in which X must not change.

    A kernel with one lengthscale only divides them.
    """
    token = _rows.set((X, {}))
    try:
        yield
    finally:
        _rows.reset(token)


def distances_of(X: np.ndarray, lengthscale: np.ndarray) -> np.ndarray | None:
    """Squared distances between the rows of X in units of its one lengthscale, if X is that of `same_rows`."""
    rows, found = _rows.get()
    if rows is not X:
        return None
    limit = _LARGEST[X.dtype.itemsize]
    clipped = np.clip(X, -limit, limit)
    centre, uneven = _centre(clipped, float(np.ravel(lengthscale)[0]))
    if bool(uneven) not in found:
        found[bool(uneven)] = _by_column(clipped, clipped) if uneven else _by_product(*2 * (clipped - centre,))
    return found[bool(uneven)] / np.square(lengthscale)
