"""Rows of comparisons, for the kernel `Pairwise`: the columns of one item, then those of the other.

y = 1 where the first item won and −1 where it lost, for a two-class likelihood; with ties 2, 1, 0, for `Ordinal`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from sitewise.data import table

__all__ = ["best_of", "pairs", "symmetric"]


def pairs(items: ArrayLike, first: Sequence[int], second: Sequence[int]) -> np.ndarray:
    """One row for each duel between items that are given by the numbers of their rows."""
    rows = np.asarray(table(items, "items"), float)
    return np.column_stack([rows[np.asarray(first, int)], rows[np.asarray(second, int)]])


def best_of(items: ArrayLike, choices: Iterable[tuple[int, Sequence[int]]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and y of choices among several items: (the chosen one, all that were offered).

    The choice of one among k is k − 1 duels, each won by it, as if they had been held one by one: a usual
    approximation, with which a choice among many counts for more than one duel.
    """
    duels = [(chosen, other) for chosen, offered in choices for other in offered if other != chosen]
    if not duels:
        raise ValueError("There is no choice between two items; give (chosen, offered) with at least two offered.")
    first, second = zip(*duels, strict=True)
    return pairs(items, first, second), np.ones(len(duels))


def symmetric(X: ArrayLike, rank: ArrayLike, highest: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every duel in both orders, with half of the weight: rows, ranks and weights.

    f(a, b) = −f(b, a), so that with cut points at ±c the likelihood is that of the duels as given, and the learned cut
    points lie symmetrically: the order of the items does not matter.  With the duels as given, their asymmetry is the
    advantage of the first item.
    """
    rows, ranks = np.asarray(table(X, "X"), float), np.asarray(rank, float)
    half = rows.shape[1] // 2
    turned = np.column_stack([rows[:, half:], rows[:, :half]])
    return np.concatenate([rows, turned]), np.concatenate([ranks, highest - ranks]), np.full(2 * len(rows), 0.5)
