"""Pairwise comparisons of items, for the kernel `Pairwise`: rows hold the columns of the first, then the second item.

For a two-class likelihood, y = 1 if the first item won and −1 if it lost.  With ties, y = 2 (won), 1 (tie) or 0 (lost)
for `Ordinal`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sitewise.data import table

__all__ = ["best_of", "pairs", "symmetric"]


def pairs(items: ArrayLike, first: Sequence[int], second: Sequence[int]) -> np.ndarray:
    """Return one row per pairwise comparison: the columns of the first item, then the columns of the second.

    Parameters
    ----------
    items : array of shape (n_items, n_columns)
        The items.
    first : sequence of int
        Row number of the first item per comparison.
    second : sequence of int
        Row number of the second item per comparison.
    """
    rows = np.asarray(table(items, "items"), float)
    return np.column_stack([rows[np.asarray(first, int)], rows[np.asarray(second, int)]])


def best_of(items: ArrayLike, choices: Iterable[tuple[int, Sequence[int]]]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and y of choices among several items (discrete choice).

    The choice of one among k items becomes k − 1 pairwise comparisons won by the chosen item, treated as independent.
    This is a usual approximation; it gives a choice among many items more influence than one comparison.

    Parameters
    ----------
    items : array of shape (n_items, n_columns)
        The items.
    choices : sequence of tuples
        One (chosen item, all offered items) per choice, as row numbers of `items`.
    """
    comparisons = [(chosen, other) for chosen, offered in choices for other in offered if other != chosen]
    if not comparisons:
        raise ValueError("There is no choice between two items; give (chosen, offered) with at least two offered.")
    first, second = zip(*comparisons, strict=True)
    return pairs(items, first, second), np.ones(len(comparisons))


def symmetric(X: ArrayLike, rank: ArrayLike, highest: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return every comparison in both orders with weight ½: rows, ranks and weights.

    The order of the items then has no influence: because f(a, b) = −f(b, a), the likelihood with cut points ±c is
    unchanged, and the learned cut points are symmetric.  Without this function, the asymmetry of the learned cut points
    is the advantage of the first item.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Rows of `pairs`.
    rank : array of shape (n_rows,)
        The result of each comparison, from 0 to `highest`.
    highest : int, default=2
        The highest rank: the first item won.
    """
    rows, ranks = np.asarray(table(X, "X"), float), np.asarray(rank, float)
    half = rows.shape[1] // 2
    swapped = np.column_stack([rows[:, half:], rows[:, :half]])
    return np.concatenate([rows, swapped]), np.concatenate([ranks, highest - ranks]), np.full(2 * len(rows), 0.5)
