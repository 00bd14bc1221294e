"""Models written to files and read from them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from sitewise.estimators import model_file
from sitewise.estimators.encoder import TableEncoder
from sitewise.estimators.gp_classifier import GPClassifier
from sitewise.estimators.gp_ordinal import GPOrdinal
from sitewise.estimators.gp_regressor import GPRegressor
from sitewise.process import files

KINDS = {kind.__name__: kind for kind in (GPClassifier, GPOrdinal, GPRegressor, TableEncoder)}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator, or a pipeline of TableEncoder or StandardScaler and one, to a file for `load`."""
    check_is_fitted(model)
    files.write_whole(Path(path), model_file.to_bytes(model))


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` has written.  No code in the file is ever run: it holds none."""
    return model_file.load(path, KINDS)
