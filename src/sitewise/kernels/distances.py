"""Squared Euclidean distances between rows, accurate for NumPy and JAX arrays."""

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
# Coordinates in lengthscales are clipped to this size, per bytes of a number: squares of larger coordinates overflow,
# and infinity minus infinity would make the farthest rows the nearest.
_MAX_COORDINATE = {8: 1e150, 4: 1e17}
# If the largest squared norm, in lengthscales, exceeds this number, or this multiple of the median, subtracting norms
# leaves too few digits for the other rows; per bytes of a number.
_MAX_NORM_RATIO = {8: 1e6, 4: 1e3}
_MIN_WIDTH_RATIO = 1e-6  # of the squared widths of columns in one product


def squared_distances(A: Array, B: Array) -> Array:
    """Return |a_i − b_j|² of rows in lengthscales; exactly 0 for equal rows.

    The distances are computed by one matrix product, with the median of B as the origin.  The product loses digits
    where rows are far from the origin and near each other, or differ only in a narrow column: with one entry of 10⁸ in
    the table, clusters a million lengthscales apart, or a column of size 10⁹ beside a column of size 1, different rows
    would become equal.  In these cases differences are taken column by column; on NumPy arrays only for groups of
    columns of similar width where one product is too inaccurate.  The choice depends on B alone, so a prediction for
    one row of A does not depend on the other rows of A.
    """
    size = A.dtype.itemsize
    xp = namespace(A, B)
    same = B is A
    A = xp.clip(A, -_MAX_COORDINATE[size], _MAX_COORDINATE[size])
    B = A if same else xp.clip(B, -_MAX_COORDINATE[size], _MAX_COORDINATE[size])
    centre, uneven = _centre(B, 1.0)
    by_column = _by_width if is_host(A, B) else _by_column
    return cond(uneven, lambda: by_column(A, B), lambda: _by_product(A - centre, B - centre))


def _by_width(A: Array, B: Array) -> Array:
    """Return the sum of the distances in groups of columns of similar width, each by one product where it is accurate.

    With one lengthscale per column, columns that the function hardly depends on are narrow.  The error of a product is
    eps times the squared norms of the two rows, hence at most 1e-10 within 1000 lengthscales of the median.
    """
    far = _MAX_NORM_RATIO[B.dtype.itemsize]
    squares = (B - middle(B)) ** 2
    width = np.max(squares, axis=0)
    left, total = np.ones(B.shape[1], bool), np.zeros((A.shape[0], B.shape[0]))
    while left.any():
        # A column that is constant in B has width 0; it joins the first group.
        group = left & ((width >= _MIN_WIDTH_RATIO * np.max(width[left])) | (width == 0))
        left &= ~group
        own_A, own_B = A[:, group], B[:, group]
        if np.max(np.sum(squares[:, group], axis=1)) > far:
            total += _by_column(own_A, own_B)
        else:
            total += _by_product(own_A - middle(own_B), own_B - middle(own_B))
    return total


def _centre(B: Array, unit: Array | float) -> tuple[Array, Array]:
    """Return the origin of the matrix product, and whether the product is too inaccurate for this lengthscale."""
    xp = namespace(B)
    # Medians of about a hundred rows: sorting all rows would take longer than the product.
    sample = slice(None, None, max(1, B.shape[0] // 100))
    centre = stop_gradient(middle(B[sample]))
    squares = stop_gradient((B - centre) ** 2)
    norms, columns = xp.sum(squares, axis=1), xp.max(squares, axis=0)
    narrowest = xp.min(xp.where(columns > 0, columns, xp.inf))
    typical = xp.minimum(middle(norms[sample]), 100 * narrowest)
    return centre, xp.max(norms) > _MAX_NORM_RATIO[B.dtype.itemsize] * xp.minimum(typical, unit**2)


def middle(values: Array) -> Array:
    """Return the entry in the middle of the sorted rows, per column: a median, faster than `numpy.median`."""
    xp = namespace(values)
    return xp.sort(values, axis=0)[values.shape[0] // 2]


def _by_product(A: Array, B: Array) -> Array:
    """Return |a|² + |b|² − 2ab.  Values below rounding are set to 0; else a row and its copy would be 1e-8 apart."""
    rows, columns = (A * A).sum(axis=1), (B * B).sum(axis=1)
    if is_host(A, B):
        d2 = (-2 * A) @ B.T
        d2 += rows[:, None]
        d2 += columns
        # Few entries are small, in most matrices none; a pass over the whole matrix is avoided.
        least = _ROUNDING_SHARE * (rows.max(initial=0.0) + columns.max(initial=0.0))
        if not d2.min(initial=np.inf) > least:
            i, j = np.nonzero(d2 <= least)
            small = d2[i, j]
            d2[i, j] = np.where(small > _ROUNDING_SHARE * (rows[i] + columns[j]), small, 0.0)
        return d2
    norms = rows[:, None] + columns
    d2 = norms - 2 * A @ B.T
    tolerance = _ROUNDING_SHARE if d2.dtype == jnp.float64 else 1e-5
    return jnp.where(d2 <= tolerance * norms, 0.0, d2)  # NaN stays NaN


def _by_column(A: Array, B: Array) -> Array:
    """Return Σ (a − b)².  Differences in the last digits count as 0: dividing by ℓ may round equal entries apart."""
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


_shared_rows: contextvars.ContextVar[tuple[Any, dict[bool, np.ndarray]]] = contextvars.ContextVar(
    "rows", default=(None, {})
)


@contextlib.contextmanager
def same_rows(X: Any) -> Iterator[None]:
    """Compute the distances between the rows of X only once within the `with` block, in which X must not change.

    A kernel with a single lengthscale divides these distances by it.
    """
    token = _shared_rows.set((X, {}))
    try:
        yield
    finally:
        _shared_rows.reset(token)


def distances_of(X: np.ndarray, lengthscale: np.ndarray) -> np.ndarray | None:
    """Return squared distances between the rows of X in units of one lengthscale, or None outside `same_rows(X)`."""
    rows, found = _shared_rows.get()
    if rows is not X:
        return None
    limit = _MAX_COORDINATE[X.dtype.itemsize]
    clipped = np.clip(X, -limit, limit)
    centre, uneven = _centre(clipped, float(np.ravel(lengthscale)[0]))
    if bool(uneven) not in found:
        found[bool(uneven)] = _by_column(clipped, clipped) if uneven else _by_product(*2 * (clipped - centre,))
    return found[bool(uneven)] / np.square(lengthscale)
