"""Save fitted estimators and pipelines to files, and load them."""

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
    """Save a fitted estimator, or a pipeline of TableEncoder or StandardScaler and an estimator, for deployment.

    The file is replaced as a whole: a reader never sees a half-written model.

    Parameters
    ----------
    model : GPClassifier, GPRegressor, GPOrdinal or Pipeline
        The fitted model.
    path : str or path
        The file.
    """
    check_is_fitted(model)
    files.write_whole(Path(path), model_file.to_bytes(model))


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model written by `save`.  The file contains data only; loading it runs no code from it.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : GPClassifier, GPRegressor, GPOrdinal or Pipeline
        The fitted model.
    """
    return model_file.load(path, KINDS)
