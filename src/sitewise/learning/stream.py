"""Rows that need not fit into memory: arrays, memory-mapped files, or an iterator that can be started again.

All batches have the same shape; the last one is filled up with rows of weight 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sitewise.data import Data, as_numbers

Source = tuple[Any, Any] | Callable[[], Iterator[tuple[Any, Any]]]


def _in_place(values: Any, name: str) -> Any:
    """Something to cut rows from: an array stays where it is, which may be a file; a list or a table becomes one."""
    if hasattr(values, "to_numpy"):
        return values.to_numpy()
    return as_numbers(values, name) if isinstance(values, list | tuple) else values


class Stream:
    """Batches of `size` rows of `source`: (X, y), or a function that returns an iterator of such tables."""

    def __init__(self, source: Source, size: int) -> None:
        if size < 1:
            raise ValueError(f"A batch must hold at least one row, got {size}.")
        self._source, self.size = source, size
        if not callable(source):
            if not isinstance(source, tuple) or len(source) != 2:
                raise ValueError("Give (X, y), or a function that starts an iterator of such pairs.")
            X, y = self._source = tuple(_in_place(a, name) for a, name in zip(source, ("X", "y"), strict=True))
            if np.ndim(X) != 2 or np.shape(y) != np.shape(X)[:1]:
                raise ValueError(f"X must be a table with one y per row; got shapes {np.shape(X)} and {np.shape(y)}.")
        self.rows = sum(len(y) for _, y in self._tables(None))
        if self.rows == 0:
            raise ValueError("The source holds no rows.")

    def __repr__(self) -> str:
        return f"Stream({self.rows} rows in batches of {self.size})"

    def batches(self, order: np.random.Generator | None = None) -> Iterator[Data]:
        """Every row once; in random order if `order` is given (for an iterator, within each of its tables)."""
        held: list[tuple[np.ndarray, np.ndarray]] = []
        count = seen = 0
        for X, y in self._tables(order):
            seen += len(y)
            held.append((X, y))
            count += len(y)
            while count >= self.size:
                X, y = (np.concatenate(parts) for parts in zip(*held, strict=True))
                yield Data.of(X[: self.size], y[: self.size])
                held, count = [(X[self.size :], y[self.size :])], count - self.size
        if count:
            yield Data.of(*(np.concatenate(parts) for parts in zip(*held, strict=True))).pad(self.size)
        if seen != self.rows:
            raise ValueError(
                f"The source gave {self.rows} rows at first and {seen} now; give a function that starts a new iterator "
                "over the same rows each time it is called."
            )

    def _tables(self, order: np.random.Generator | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        if callable(self._source):
            for X, y in self._source():
                X, y = (np.asarray(as_numbers(a, name), float) for a, name in ((X, "X"), (y, "y")))
                shuffled = np.arange(len(y)) if order is None else order.permutation(len(y))
                yield X[shuffled], y[shuffled]
            return
        X, y = self._source
        rows = None if order is None else order.permutation(len(y))
        for at in range(0, len(y), self.size):
            # Sorted: a memory-mapped file is read in one direction.
            part = slice(at, at + self.size) if rows is None else np.sort(rows[at : at + self.size])
            yield np.asarray(as_numbers(X[part], "X"), float), np.asarray(as_numbers(y[part], "y"), float)
