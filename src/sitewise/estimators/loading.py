"""Models written to files and read from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from sitewise.estimators import persistence
from sitewise.estimators.classifier import GPClassifier
from sitewise.estimators.ordinal import GPOrdinal
from sitewise.estimators.regressor import GPRegressor
from sitewise.estimators.table_encoder import TableEncoder
from sitewise.runtime import files

KINDS = {kind.__name__: kind for kind in (GPClassifier, GPOrdinal, GPRegressor, TableEncoder)}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or a pipeline of TableEncoder or StandardScaler and one, to a file for `load`."""
    check_is_fitted(model)
    files.write_whole(Path(path), persistence.to_bytes(model))


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` has written.  No code in the file is ever run: it holds none."""
    return persistence.load(path, KINDS)
