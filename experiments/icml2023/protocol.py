"""The paper's data sets, scaling and folds ("published" protocol), as facts about its experiments.

X holds every column but the label, the row number included; columns are scaled by the mean and population
standard deviation of all rows (test rows too) with 1e-6 added to the latter; one fixed shuffle (legacy
Mersenne Twister, seed 0) orders the rows; five folds by scikit-learn's KFold with a seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold

SEEDS = (42, 1, 2, 3, 4, 5, 6, 7, 8, 9)


def data_directory() -> Path:
    """The folder given by SITEWISE_DATA, or shared/data beside the checkout."""
    given = os.environ.get("SITEWISE_DATA")
    return Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "data"


def load(name: str, directory: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels (−1, +1) under the published protocol, in the published order."""
    table = np.loadtxt((directory or data_directory()) / "classification" / f"{name}.csv", delimiter=",", skiprows=1)
    X, y = table[:, :-1], np.where(table[:, -1] == 0, -1.0, 1.0)
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-6)
    order = np.random.RandomState(0).permutation(len(X))
    return X[order], y[order]


def folds(rows: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, test) indices of the five folds."""
    return list(KFold(5, shuffle=True, random_state=seed).split(np.zeros(rows)))


def published(directory: Path | None = None) -> dict:
    """Published results by data set, method and metric; 50 numbers each, fold within seed."""
    import json

    return json.loads(((directory or data_directory()) / "published" / "10seed_result.json").read_text())


PUBLISHED_NAME = {"laplace": "la", "ep": "ep", "vi": "vgp", "hybrid-vem": "epcvi", "hybrid": "epcvi"}
