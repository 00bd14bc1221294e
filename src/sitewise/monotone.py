"""Monotonicity constraints for binary classification, by rows that observe the sign of a slope (`kernels.Slopes`).

Riihimäki & Vehtari (2010): at chosen points, the sign of ∂f/∂x_j is observed through a probit.  Labels and signs share
one two-class likelihood.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from sitewise.checks import at_least
from sitewise.data import table

__all__ = ["rows", "values"]


def values(X: ArrayLike) -> np.ndarray:
    """Return X as rows that observe f: a last column of zeros is appended.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        The rows.
    """
    X = np.asarray(table(X, "X"), float)
    return np.column_stack([X, np.zeros(len(X))])


def rows(
    X: ArrayLike, y: ArrayLike, signs: Mapping[int, int], points: int = 20, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of X and their labels, −1 and 1, with rows that observe the sign of a slope (monotonicity).

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        The training rows.
    y : array of shape (n_rows,)
        Labels of two classes.
    signs : dict
        Column number → sign, as in {0: 1, 2: −1}: 1 if f rises with the column, −1 if f falls.
    points : int, default=20
        Slope rows per column of `signs`.
    seed : int, default=0
        Seed of the choice of rows of X at which the slope is observed.
    """
    X, y = np.asarray(table(X, "X"), float), np.asarray(y, float)
    at_least("points", points, 1)
    if not set(np.unique(y)) <= {-1.0, 1.0} or any(sign not in (-1, 1) for sign in signs.values()):
        raise ValueError("Labels and signs must be −1 or 1; write labels as np.where(y, 1, -1).")
    if not signs or any(column not in range(X.shape[1]) for column in signs):
        raise ValueError(f"signs must map column numbers from 0 to {X.shape[1] - 1} to 1 or −1, got {dict(signs)!r}.")
    rng, out, labels = np.random.default_rng(seed), [values(X)], [y]
    for column, sign in signs.items():
        chosen = X[rng.permutation(len(X))[:points]]
        out.append(np.column_stack([chosen, np.full(len(chosen), column + 1.0)]))
        labels.append(np.full(len(chosen), float(sign)))
    return np.concatenate(out), np.concatenate(labels)
