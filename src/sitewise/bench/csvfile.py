"""L4. The user's own CSV file as a data set."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import numpy as np

from sitewise.bench.problems import DataError
from sitewise.bench.registry import DataSet

_BETWEEN = "::"


def source(path: Path, target: str) -> str:
    """File and target column as the one string that a task carries."""
    return f"{path}{_BETWEEN}{target}"


def is_csv(given: str) -> bool:
    return _BETWEEN in given


def _parts(given: str) -> tuple[Path, str]:
    path, _, target = given.rpartition(_BETWEEN)
    return Path(path), target


@functools.lru_cache(maxsize=2)
def _read(given: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Features (categories as 0/1 columns), target, and the kind of task: two values are classes."""
    import pandas as pd

    path, target = _parts(given)
    try:
        frame = pd.read_csv(path, compression=None)  # a small file that unpacks to a huge one is not opened
    except (OSError, ValueError) as problem:
        raise DataError(f"{path} could not be read as a CSV file ({problem}).") from None
    if target not in frame:
        raise DataError(f"{path} has no column {target!r}; its columns are {', '.join(map(str, frame.columns))}.")
    if frame.isna().any().any():
        column = frame.columns[frame.isna().any()][0]
        raise DataError(f"{path} has missing values (column {column!r}); fill or drop them first.")
    y = frame.pop(target)
    if not frame.shape[1]:
        raise DataError(f"{path} has no column besides {target!r}.")
    X = pd.get_dummies(frame, dtype=float).to_numpy(float)
    if len(X) < 10:
        raise DataError(f"{path} has {len(X)} rows; five folds need at least 10.")
    values = y.unique()
    if len(values) == 2:
        return X, (y == sorted(values)[1]).to_numpy(float), "classification"
    if not pd.api.types.is_numeric_dtype(y):
        raise DataError(f"{target!r} in {path} has {len(values)} classes; two classes or a numeric target are needed.")
    return X, y.to_numpy(float), "regression"


def table(given: str) -> np.ndarray:
    X, y, _ = _read(given)
    return np.column_stack([X, y])


@functools.lru_cache(maxsize=2)
def record(given: str) -> DataSet:
    path, _ = _parts(given)
    X, _, kind = _read(given)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return DataSet(path.stem, kind, "user", str(path), len(X), X.shape[1], row_column=False, sha256=digest)
