"""Labels whose probability rises or falls with a column: rows that observe the sign of a slope (`kernels.Slopes`).

Riihimäki & Vehtari (2010): at chosen points the sign of ∂f/∂x_j is observed, with a probit.  Their likelihood is that
of the labels, so that one two-class likelihood serves both.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from sitewise.checks import at_least
from sitewise.data import table

__all__ = ["rows", "values"]


def values(X: ArrayLike) -> np.ndarray:
    """Rows about f itself: the last column is 0."""
    X = np.asarray(table(X, "X"), float)
    return np.column_stack([X, np.zeros(len(X))])


def rows(
    X: ArrayLike, y: ArrayLike, signs: Mapping[int, int], points: int = 20, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of X and their labels, −1 and 1, with `points` rows for each column of `signs`: {0: 1, 2: −1}.

    A sign of 1 says that f rises with the column, −1 that it falls.  The points are rows of X, chosen at random.
    """
    X, y = np.asarray(table(X, "X"), float), np.asarray(y, float)
    at_least("points", points, 1)
    if not set(np.unique(y)) <= {-1.0, 1.0} or any(sign not in (-1, 1) for sign in signs.values()):
        raise ValueError("Labels and signs must be −1 or 1; write labels as np.where(y, 1, -1).")
    if not signs or any(column not in range(X.shape[1]) for column in signs):
        raise ValueError(f"signs must have numbers of columns, from 0 to {X.shape[1] - 1}, got {dict(signs)!r}.")
    rng, out, labels = np.random.default_rng(seed), [values(X)], [y]
    for column, sign in signs.items():
        some = X[rng.permutation(len(X))[:points]]
        out.append(np.column_stack([some, np.full(len(some), column + 1.0)]))
        labels.append(np.full(len(some), float(sign)))
    return np.concatenate(out), np.concatenate(labels)
