"""`sitewise predict`: predict the rows of a new table with a saved model."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from sitewise.app import options
from sitewise.app.input import side_columns
from sitewise.app.process import (
    check_writable,
    ends_in_a_sentence,
    note,
    own_process,
    print_json,
    save,
)
from sitewise.errors import UserError

if TYPE_CHECKING:
    from sitewise.app.input.targets import Encoding
    from sitewise.estimators.base import GPBase
    from sitewise.tables import Table


@ends_in_a_sentence
def predict(
    context: typer.Context,
    model: options.ModelFile,
    data: options.DataFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV file; stdout if not given.")] = None,
    missing: options.Missing = None,
    drop: options.DropMissing = False,
    decimal: options.Decimal = None,
    dayfirst: options.DayFirst = None,
    interval: Annotated[
        float | None,
        typer.Option("--interval", help="Add the predictive interval of this level, such as 0.9.", show_default=False),
    ] = None,
    quantiles: Annotated[
        str | None,
        typer.Option("--quantiles", help="Add the quantiles of these levels, such as 0.1,0.5,0.9.", show_default=False),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="Columns to copy from the table, such as identifiers, separated by commas."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Predict every row of a table with a model of `sitewise fit` or `sitewise model --save`.

    If the table also has the target column, the predictions of a model of `sitewise fit` are scored.

    Example: sitewise predict model.sitewise new.csv --interval 0.9 --keep customer --out predictions.csv
    """
    from sitewise.app.input.formula_rows import load_formula_rows
    from sitewise.app.input.load_table import load_model, load_new
    from sitewise.app.input.targets import Encoding
    from sitewise.formula import FormulaModel

    if out is not None:
        check_writable(out)
    found = load_model(model)
    encoding: Encoding | None = None
    if isinstance(found, FormulaModel):
        estimator, target = found.estimator, str(found.design.formula.response)
        table, X, known = load_formula_rows(
            data, found, drop=drop, missing=missing or (), decimal=decimal, dayfirst=dayfirst
        )
    elif drop:
        raise UserError(
            "--drop-missing is for models of `sitewise model`; a model of `sitewise fit` treats missing values as in "
            "its training table."
        )
    else:
        estimator, encoding = found, Encoding.from_plain(found.table_)
        target = encoding.target
        table = load_new(data, encoding, missing=missing, decimal=decimal, dayfirst=dayfirst, context=context)
        X, known = encoding.inputs(table), side_columns.known(table, encoding.side)
    copied = side_columns.kept(table, table.named(keep or ()))
    levels = interval_levels(estimator, interval, quantiles)
    own_process()
    columns = predictions(estimator, X, known)
    columns |= intervals(estimator, X, levels, known)
    twice = [name for name in copied if name in ("row", *columns)]
    if twice:
        raise UserError(f"--keep: the output already has a column {twice[0]!r}; rename the column of the table.")
    scores = {} if encoding is None else score(estimator, encoding, table, X)
    if encoding is None and target in table.columns:
        note("the predictions are not scored, because the model is a formula; scores are for models of `sitewise fit`.")
    for name, value in scores.items():
        note(f"{name.replace('_', ' ')} on the rows of {table.name}: {value:.4f}.")
    columns = {"row": table.lines.tolist(), **copied, **columns}
    if out is not None:
        save(out, as_csv(columns).encode())
    if as_json:
        print_json({"command": "predict", "target": target, "scores": scores, "predictions": columns})
    elif out is None:
        print(as_csv(columns), end="")


def interval_levels(model: GPBase, interval: float | None, quantiles: str | None) -> dict[str, float]:
    """Return the level of each quantile column, by the name of the column."""
    levels: dict[str, float] = {}
    if interval is not None:
        if not 0 < interval < 1:
            raise UserError(f"--interval takes a level between 0 and 1, such as 0.9 for 90 %; got {interval:g}.")
        levels |= {f"low {interval:.6g}": (1 - interval) / 2, f"high {interval:.6g}": (1 + interval) / 2}
    for text in (quantiles or "").split(","):
        if not text.strip():
            continue
        try:
            level = float(text)
        except ValueError:
            level = np.nan
        if not 0 < level < 1:
            raise UserError(
                f"--quantiles takes levels between 0 and 1, separated by commas, such as 0.1,0.5; got {text!r}."
            )
        levels[f"quantile {level:.6g}"] = level
    if levels and not hasattr(model, "predict_quantiles"):
        raise UserError("--interval and --quantiles are for regression; a classifier predicts probabilities.")
    return levels


def intervals(
    model: Any, X: np.ndarray, levels: dict[str, float], known: dict[str, np.ndarray]
) -> dict[str, list[Any]]:
    """Return one list per quantile."""
    if not levels:
        return {}
    found = model.predict_quantiles(X, list(levels.values()), **known)
    return {name: column.tolist() for name, column in zip(levels, found.T, strict=True)}


def predictions(model: GPBase, X: np.ndarray, known: dict[str, np.ndarray]) -> dict[str, list[Any]]:
    """Return one list per column of the output; `known` is side information of the rows."""
    if hasattr(model, "classes_"):
        proba = model.predict_proba(X)
        named = {f"probability {c}": p.tolist() for c, p in zip(model.classes_, proba.T, strict=True)}
        return {"prediction": [str(c) for c in model.predict(X)], **named}
    mean, std = model.predict(X, return_std=True, **known)
    return {"mean": mean.tolist(), "std": std.tolist()}


def score(model: GPBase, encoding: Encoding, table: Table, X: np.ndarray) -> dict[str, float]:
    """Return log density and accuracy (or RMSE) of the rows with a target; empty if there are none."""
    from sitewise.estimators.side_information import within_bounds

    there = np.flatnonzero(~table.missing(encoding.target)) if encoding.target in table.columns else np.zeros(0, int)
    if not len(there):
        return {}
    if len(there) < table.rows:
        note(f"{len(there)} of {table.rows} rows have a target, and only these rows are scored.")
        table, X = table.take(there), X[there]
    try:
        y, side = encoding.targets(table), side_columns.values(table, encoding.side)
        density = float(np.mean(model.log_predictive_density(X, y, **side)))
    except (ValueError, UserError) as problem:
        note(f"the predictions are not scored: {problem}")
        return {}
    if hasattr(model, "classes_"):
        predicted = model.predict(X)
        return {"log_density": density, "accuracy": float(np.mean(predicted == y))}
    observed = np.asarray(y, float)
    predicted = within_bounds(model.predict(X, **side_columns.known(table, encoding.side)), observed, side)
    y = within_bounds(observed, observed, side)
    return {"log_density": density, "rmse": float(np.sqrt(np.mean((predicted - y) ** 2)))}


def as_csv(columns: dict[str, list[Any]]) -> str:
    """Return the text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()
