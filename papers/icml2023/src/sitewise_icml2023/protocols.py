"""Protocols: how the rows of a set become training and test rows.  They differ in data (protocols.json) only.

Common to all: one fixed shuffle (legacy Mersenne Twister, seed 0), five folds by KFold with the task's seed, columns
scaled as (x − mean) / (1e-6 + population sd).  Robust regression: neal and stock are used raw and unshuffled.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sitewise.errors import UserError
from sitewise_icml2023.registry import DataSet, get
from sitewise_icml2023.sources import find

SEEDS = (42, 1, 2, 3, 4, 5, 6, 7, 8, 9)
FOLDS = 5


@dataclasses.dataclass(frozen=True)
class Protocol:
    name: str
    about: str
    row_column: bool
    scale_from: str
    repair: dict[str, dict[str, Any]]
    replace: dict[str, str]


class Fold(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@functools.cache
def protocols() -> dict[str, Protocol]:
    entries = json.loads((files(__package__) / "protocols.json").read_text())
    return {name: Protocol(name, **entry) for name, entry in entries.items()}


def protocol(name: str) -> Protocol:
    if name not in protocols():
        raise UserError(f"Unknown protocol {name!r}; choose one of {', '.join(protocols())}.")
    return protocols()[name]


def columns(record: DataSet, rules: Protocol) -> int:
    """Number of features under the protocol."""
    return record.features + (record.row_column and rules.row_column)


def fold(name: str, rules: str, seed: int, index: int, directory: Path | None = None) -> Fold:
    """Fold `index` (from 0) of a registered set."""
    chosen = protocol(rules)
    record = get(chosen.replace.get(name, name))
    return split(record, _table(find(record.name, directory)), chosen, seed, index)


@functools.lru_cache(maxsize=4)
def _table(path: Path) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)


def split(record: DataSet, table: np.ndarray, rules: Protocol, seed: int, index: int) -> Fold:
    """Training and test rows of one fold; the table's last column is the target."""
    X, y = table[:, int(record.row_column) : -1], table[:, -1]
    X, y = repaired(X, y, **rules.repair.get(record.name, {}))
    if record.row_column and rules.row_column:
        X = np.column_stack([table[:, 0], X])
    if record.kind == "classification":
        y = np.where(y == 0, -1.0, 1.0)
    if record.shuffled:
        order = np.random.RandomState(0).permutation(len(X))
        X, y = X[order], y[order]
    train, test = fold_rows(len(X), seed)[index]
    if record.scaled:
        base = slice(None) if rules.scale_from == "all" else train
        X = _scaled(X, base)
        if record.kind == "regression":
            y = _scaled(y, base)
    return Fold(X[train], y[train], X[test], y[test])


def fold_rows(rows: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, test) row numbers of the five folds."""
    from sklearn.model_selection import KFold

    return list(KFold(FOLDS, shuffle=True, random_state=seed).split(np.zeros(rows)))


def _scaled(values: np.ndarray, base: slice | np.ndarray) -> np.ndarray:
    return (values - values[base].mean(axis=0)) / (values[base].std(axis=0) + 1e-6)


def repaired(
    X: np.ndarray, y: np.ndarray, *, swap_label_with: int | None = None, binary_parts: tuple[int, ...] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Undo damage of the published files.

    binary_parts      every feature is 0/1, but each of these runs of rows was scaled on its own: cut at the middle
    swap_label_with   the class was read from the wrong column: it is this (two-valued) feature, and the label is one
    """
    if binary_parts:
        runs = np.split(X, np.cumsum(binary_parts)[:-1])
        X = np.concatenate([(run > (run.min(axis=0) + run.max(axis=0)) / 2).astype(float) for run in runs])
    if swap_label_with is not None:
        truth = X[:, swap_label_with]
        X = X.copy()
        X[:, swap_label_with] = y
        y = (truth > (truth.min() + truth.max()) / 2).astype(float)
    return X, y
