"""Fit and predict a table as a user would: a pipeline in Python, or the reading step of the command."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from typer.main import get_command

from misusing.doors import Result
from misusing.sheets import Sheet, fixed
from sitewise import TableEncoder
from sitewise.app.commands import app
from sitewise.app.input.load_table import load, load_new

_TRAIN, _NEW = "train.csv", "new.csv"


def python(sheet: Sheet) -> Result:
    """Fit the estimator, in a pipeline with a TableEncoder if the sheet says so, and predict the new rows."""
    estimator = fixed(
        sheet.estimator, **({"likelihood": sheet.likelihood} if not sheet.classifies else {}), **sheet.model
    )
    given = {**sheet.side, **({} if sheet.weight is None else {"sample_weight": sheet.weight})}
    if not sheet.encode:
        model = estimator.fit(sheet.train, sheet.y, **given)
    else:
        encoder = TableEncoder(**sheet.settings).set_output(transform="pandas")  # names for groups
        model = make_pipeline(encoder, estimator)
        model.fit(sheet.train, sheet.y, **{f"{type(estimator).__name__.lower()}__{k}": v for k, v in given.items()})
    predict = model.predict_proba if sheet.classifies else model.predict
    return Result({"predictions": np.asarray(predict(sheet.new))})


def command(sheet: Sheet) -> Result:
    """Read the two files as `sitewise fit` and `sitewise predict` do; notes become warnings."""
    with tempfile.TemporaryDirectory() as folder:
        train, new = Path(folder, _TRAIN), Path(folder, _NEW)
        columns = [sheet.train, *(pd.Series(v, name=k) for k, v in sheet.side.items()), pd.Series(sheet.y)]
        table = pd.concat(columns, axis=1)
        table.columns = pd.Index([*sheet.train.columns, *sheet.side, sheet.target])
        table.to_csv(train, index=False)
        sheet.new.to_csv(new, index=False)
        return _noted(lambda: _read(sheet, train, new))


def _read(sheet: Sheet, train: Path, new: Path) -> Result:
    options = {k: v for k, v in sheet.settings.items() if k in ("drop", "use", "categorical", "impute", "missing")}
    groups = ",".join(sheet.settings.get("groups", ())) or None
    words = [str(train), "--target", sheet.target, "--likelihood", sheet.likelihood, "--out", "m.sitewise"]
    context = get_command(app).commands["fit"].make_context("fit", words)
    side = {name: name for name in sheet.side}
    loaded = load(
        train, sheet.target, likelihood=sheet.likelihood, side=side, groups=groups, context=context, **options
    )
    classes = loaded.encoding.classifies
    y = np.unique(loaded.y, return_inverse=True)[1] if classes else loaded.y
    later = load_new(new, loaded.encoding)
    return Result({"X": loaded.X, "y": y, "new": loaded.encoding.inputs(later), **loaded.side})


def _noted(call: Callable[[], Result]) -> Result:
    """Return the result of the call; each line that it writes to stderr becomes a warning."""
    stderr = io.StringIO()
    with contextlib.redirect_stderr(stderr):
        result = call()
    for line in stderr.getvalue().splitlines():
        warnings.warn(line.removeprefix("note: "), UserWarning, stacklevel=2)
    return result


SHEET_DOORS: dict[str, Callable[[Sheet], Any]] = {"python": python, "command": command}
