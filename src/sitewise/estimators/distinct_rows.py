"""Training rows in a canonical form: distinct rows, sorted, with the number of times each counts.

Copies of a row and a row with an integer weight are the same data, so both become the same table: the fit does not
depend on the order of the rows, weights equal copies to the last digit, and repeated rows cost nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sitewise.data import Data


class Merged(NamedTuple):
    """`place` gives, for every row of the given table, its place among the distinct ones; −1 for a row of weight 0."""

    data: Data
    place: np.ndarray


_BLOCK = 2**14  # rows that are compared at a time
_SAMPLE = 256  # rows, evenly spaced among the sorted ones, whose distances represent those of all rows
_COMMON = 5.0  # inputs within this factor of standardised ones start from a lengthscale of 1
_UNCORRELATED = 10.0  # the distance, in lengthscales, beyond which rows are practically uncorrelated


def start_lengthscale(X: np.ndarray) -> float:
    """The lengthscale from which a search without a given kernel starts.

    It is 1, or the typical distance of rows divided by √(2·columns) if that is far from 1.  Where the typical distance
    is more than ten of these (from about 50 columns on), it is the typical distance itself.  With distances of 10⁻³ or
    10² a start of 1 is on a plateau of the evidence, where only a constant is learned.
    """
    typical = typical_distance(X, otherwise=0.0)
    if typical == 0:
        return 1.0
    scale = typical / np.sqrt(2 * X.shape[1])
    start = 1.0 if 1 / _COMMON <= scale <= _COMMON else float(np.clip(scale, 1e-4, 1e5))
    return start if typical <= _UNCORRELATED * start else float(np.clip(typical, 1e-4, 1e5))


def sample(X: np.ndarray) -> np.ndarray:
    """The rows whose distances represent those of all; or themselves, of a sample."""
    return X[np.unique(np.linspace(0, len(X) - 1, _SAMPLE).astype(int))]


def typical_distance(X: np.ndarray, otherwise: float = 1.0) -> float:
    """The median distance of rows that differ; `otherwise` where none do."""
    some = sample(X)
    middle = some - np.median(some, axis=0)
    squares = np.sum(middle**2, axis=1)
    apart = squares[:, None] + squares[None, :] - 2 * middle @ middle.T
    apart = apart[apart > 1e-12 * np.max(squares, initial=0.0)]
    return float(np.sqrt(np.median(apart))) if apart.size else otherwise


def refuse_dates(X: Any) -> None:
    """Raise ValueError where X has dates: scikit-learn would take them for nanoseconds since 1970."""
    found: Any = getattr(X, "dtypes", getattr(X, "dtype", None))  # of every column, or of all
    if any(getattr(kind, "kind", "") == "M" for kind in (found if hasattr(found, "__iter__") else [found])):
        raise ValueError("X holds dates; give numbers, such as the days since the first: (d - d.min()).dt.days.")


def refuse_tables(y: Any) -> None:
    """Raise ValueError where y has several columns, and say where the others belong."""
    shape: tuple[int, ...] = getattr(y, "shape", None) or np.shape(y[:1] if isinstance(y, list | tuple) else 0.0)
    if len(shape) > 1 and shape[1] > 1:
        raise ValueError(
            f"y must be one number per row, but it has {shape[1]} columns; exposure, trials, bounds and error bars are "
            "keywords, as in fit(X, y, exposure=e), trials=n, event=d, lower=a, upper=b or noise=s."
        )


def _sorted(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The order of the rows, and which of the sorted ones are the first of their kind: `np.unique`, without its copies
    of the table."""
    rows = np.ascontiguousarray(table).view([("", table.dtype)] * table.shape[1]).ravel()
    order = np.argsort(rows, kind="stable")
    first = np.ones(len(order), bool)
    for at in range(1, len(order), _BLOCK):
        here = order[at - 1 : at + _BLOCK]
        first[at : at + _BLOCK] = np.any(table[here[1:]] != table[here[:-1]], axis=1)
    return order, first


def merge(X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Merged:
    """The distinct rows (x, y), with the weights of equal rows added."""
    kept = weight > 0
    if not np.any(kept):
        raise ValueError("All weights are zero: there is no row to learn from.")
    table = np.column_stack([X, y]) if np.all(kept) else np.column_stack([X[kept], y[kept]])
    order, first = _sorted(table)
    distinct = table[order[first]]
    del table
    inverse = np.empty(len(order), int)
    inverse[order] = np.cumsum(first) - 1
    place = np.full(len(X), -1)
    place[kept] = inverse
    total = np.bincount(inverse, weight[kept], len(distinct))
    inputs = X.shape[1]
    values = distinct[:, inputs] if y.ndim == 1 else distinct[:, inputs:]
    return Merged(Data.of(distinct[:, :inputs], values, total), place)
