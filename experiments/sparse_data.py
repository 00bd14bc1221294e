"""The five large classification sets under the published and the clean protocol.

published  the row number is the first feature, and columns are scaled over all rows, test rows included
clean      without the row number; columns scaled by the training rows alone
Both: one fixed shuffle (seed 0), then five folds of seed 42.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import KFold

SETS = ("titanic", "bank", "twonorm", "mushroom", "magic")
PROTOCOLS = ("published", "clean")


class Fold(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load_fold(folder: Path, name: str, protocol: str, fold: int, seed: int = 42) -> Fold:
    table = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
    X, y = table[:, :-1], np.where(table[:, -1] == 0, -1.0, 1.0)
    order = np.arange(len(X))
    np.random.RandomState(0).shuffle(order)  # the published order
    X, y = X[order], y[order]
    train, test = list(KFold(5, shuffle=True, random_state=seed).split(X))[fold]
    if protocol == "clean":
        X = X[:, 1:]
        X = (X - X[train].mean(0)) / (X[train].std(0) + 1e-6)
    else:
        X = (X - X.mean(0)) / (X.std(0) + 1e-6)
    return Fold(X[train], y[train], X[test], y[test])
