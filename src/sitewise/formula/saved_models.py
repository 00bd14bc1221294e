"""Save, load and export every kind of model: fitted formulas, estimators and pipelines."""

from __future__ import annotations

import os
from typing import Any

from sitewise.estimators import exporting, model_file, saving
from sitewise.formula.formula_file import StoredFormula
from sitewise.formula.formula_model import FormulaModel


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted formula, estimator, or pipeline of TableEncoder or StandardScaler and an estimator, for deployment.

    The file is replaced as a whole: a reader never sees a half-written model.

    Parameters
    ----------
    model : FormulaModel, GPClassifier, GPRegressor, GPOrdinal or Pipeline
        The fitted model.
    path : str or path
        The file.
    """
    if isinstance(model, FormulaModel):
        model.save(path)
    else:
        saving.save(model, path)


def export(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model for predictions with NumPy alone.

    Two files are written: the model, and `numpy_predictor.py` in the same folder, whose `Predictor(path)` predicts
    class probabilities, or mean and standard deviation of values and counts, as this library does.

    Parameters
    ----------
    model : FormulaModel, GPClassifier, GPRegressor or Pipeline
        The fitted model, or a pipeline of TableEncoder or StandardScaler and a model.
    path : str or path
        The model file, such as "model.npz".
    """
    if isinstance(model, FormulaModel):
        model.export(path)
    else:
        exporting.export(model, path)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model written by `save`.  The file contains data only; loading it runs no code from it.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : FormulaModel, GPClassifier, GPRegressor, GPOrdinal or Pipeline
        The fitted model.
    """
    found = model_file.load(path, {**saving.KINDS, "StoredFormula": StoredFormula})
    return FormulaModel.of_file(found) if isinstance(found, StoredFormula) else found
