"""`sitewise predict`: a saved model on a new table."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from sitewise.app import options
from sitewise.app.process import (
    check_writable,
    ends_in_a_sentence,
    note,
    own_process,
    print_json,
    save,
)

if TYPE_CHECKING:
    from sitewise.app.columns import Encoding
    from sitewise.app.table import Table
    from sitewise.estimators.base import GPBase


@ends_in_a_sentence
def predict(
    model: options.ModelFile,
    data: options.DataFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV file; stdout if not given.")] = None,
    missing: options.Missing = None,
    decimal: options.Decimal = None,
    as_json: options.Json = False,
) -> None:
    """Predict every row of a table with a saved model.

    If the table also has the target column, the predictions are scored.
    """
    from sitewise.app.columns import Encoding
    from sitewise.app.loading import load_model
    from sitewise.app.table import read_table

    if out is not None:
        check_writable(out)
    found = load_model(model)
    encoding = Encoding.from_plain(found.table_)
    table = read_table(data, decimal=decimal, missing=missing or ())
    X = encoding.inputs(table)
    for sentence in encoding.unknown_levels(table):
        note(sentence)
    own_process()
    columns = predictions(found, X)
    scores = score(found, encoding, table, X)
    for name, value in scores.items():
        note(f"{name.replace('_', ' ')} on the rows of {table.name}: {value:.4f}.")
    columns = {"row": table.lines.tolist(), **columns}
    if out is not None:
        save(out, as_csv(columns).encode())
    if as_json:
        print_json({"command": "predict", "target": encoding.target, "scores": scores, "predictions": columns})
    elif out is None:
        print(as_csv(columns), end="")


def predictions(model: GPBase, X: np.ndarray) -> dict[str, list[Any]]:
    """One list per column of the output."""
    if hasattr(model, "classes_"):
        proba = model.predict_proba(X)
        named = {f"probability {c}": p.tolist() for c, p in zip(model.classes_, proba.T, strict=True)}
        return {"prediction": [str(c) for c in model.predict(X)], **named}
    mean, std = model.predict(X, return_std=True)
    return {"mean": mean.tolist(), "std": std.tolist()}


def score(model: GPBase, encoding: Encoding, table: Table, X: np.ndarray) -> dict[str, float]:
    """Log density and accuracy (or root mean squared error) if the table has the targets; else nothing."""
    if encoding.target not in table.columns:
        return {}
    try:
        y = encoding.targets(table)
        density = float(np.mean(model.log_predictive_density(X, y)))
    except ValueError as problem:
        note(f"the predictions are not scored: {problem}")
        return {}
    predicted = model.predict(X)
    if encoding.classifies:
        return {"log_density": density, "accuracy": float(np.mean(predicted == y))}
    return {"log_density": density, "rmse": float(np.sqrt(np.mean((predicted - y) ** 2)))}


def as_csv(columns: dict[str, list[Any]]) -> str:
    """The columns as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
