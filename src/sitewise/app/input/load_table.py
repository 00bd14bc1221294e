"""Load and encode a table for the commands fit, compare and surface, or stop with a list of problems."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from sklearn.pipeline import Pipeline

from sitewise import estimators, formula
from sitewise.app.input import side_columns
from sitewise.app.input.advice import command_line, spell
from sitewise.app.input.table_file import read_table
from sitewise.app.input.targets import AUTO_CLASSES, AUTO_VALUES, Encoding, describe
from sitewise.app.process import note
from sitewise.errors import UserError
from sitewise.tables import Problem, Table, explain

# With more rows the user has to choose a method: the time of an exact fit grows with the cube of the number of rows.
EXACT_ROWS = 2000


class Loaded(NamedTuple):
    """A table and its encoding, learned from all rows; cross-validation learns the encoding per fold again."""

    table: Table
    encoding: Encoding
    notes: list[str]

    @property
    def X(self) -> np.ndarray:
        return self.encoding.inputs(self.table)

    @property
    def y(self) -> np.ndarray:
        return self.encoding.targets(self.table)

    @property
    def side(self) -> dict[str, np.ndarray]:
        """Side information per row, by the estimator's keywords."""
        return side_columns.values(self.table, self.encoding.side)

    def facts(self) -> dict[str, Any]:
        """Return the description of the data for reports."""
        y = self.y
        return {
            "file": self.table.name,
            "rows": self.table.rows,
            "target": self.encoding.target,
            "likelihood": self.encoding.likelihood,
            "classes": [str(c) for c in np.unique(y)] if self.encoding.classifies else None,
            "side": dict(self.encoding.side),
            "features": self.encoding.features,
            "notes": self.notes,
        }

    def digest(self) -> str:
        """Return a hash of all values that enter a fit."""
        content = hashlib.sha256(np.ascontiguousarray(self.X).tobytes())
        content.update("\n".join(map(str, self.y)).encode())
        for name, column in self.side.items():
            content.update(name.encode() + column.tobytes())
        return content.hexdigest()


def load(
    path: Path,
    target: str,
    *,
    likelihood: str = "auto",
    drop: Sequence[str] | None = None,
    use: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
    impute: bool = False,
    missing: Sequence[str] | None = None,
    decimal: str | None = None,
    dayfirst: bool | None = None,
    skip_missing_target: bool = False,
    max_rows: int | None = None,
    seed: int = 0,
    inducing: int | bool | None = False,
    side: Mapping[str, str] | None = None,
    groups: str | None = None,
    context: typer.Context | None = None,
) -> Loaded:
    """Read the file, select rows, encode the columns, and print notes.

    One error lists all problems of the table, with a command line that solves them, made from the `context`.
    `inducing` is the requested number of inducing inputs, or False if the command has no such option.
    """
    if any(target in (item, *map(str.strip, item.split(","))) for item in drop or ()):
        raise UserError(f"column {target!r} is the target and cannot be dropped.")
    labels = [*(categorical or ()), *([] if groups is None else [groups])]
    table = read_table(
        path, decimal=decimal, dayfirst=dayfirst, missing=missing or (), drop=drop or (), categorical=labels
    )
    for column in (side or {}).values():
        table.column(column)
    absent = table.missing(target)
    notes = []
    if skip_missing_target and np.any(absent):
        table = table.take(np.flatnonzero(~absent))
        notes.append(f"{int(np.sum(absent))} rows without a target were left out.")
    encoding, found, problems = describe(
        table,
        target,
        likelihood,
        impute,
        use=table.named([*(use or ()), *(categorical or ())]),
        missing=missing or (),
        side=side,
        groups=[] if groups is None else table.named([groups]),
    )
    rows = table.rows
    if max_rows is None and not inducing and rows > EXACT_ROWS:
        sparse = () if inducing is False else (({"inducing": "auto"}, "to fit a sparse approximation to all rows"),)
        problems.append(Problem(
            f"{table.name} has {rows} rows, and the time of an exact fit grows with the cube of the number of rows",
            (*sparse, ({"max_rows": EXACT_ROWS}, f"to use {EXACT_ROWS} random rows"),
             ({"max_rows": rows}, "to fit all rows exactly and wait")), recommended=inducing is not False,
        ))  # fmt: skip
    if max_rows is not None and max_rows < rows:
        chosen = np.sort(np.random.default_rng(seed).permutation(rows)[:max_rows])
        table = table.take(chosen)
        encoding = encoding.learn(table)
        notes.append(f"{max_rows} of {rows} rows were chosen at random (--seed {seed}).")
    loaded = Loaded(table, encoding, notes + found)
    _ = loaded.side  # report invalid side information before any fit
    for sentence in loaded.notes:
        note(sentence)
    if problems:
        raise explain(problems, spell, None if context is None else command_line(context))
    return loaded


def load_new(
    path: Path,
    encoding: Encoding,
    *,
    missing: Sequence[str] | None = None,
    decimal: str | None = None,
    dayfirst: bool | None = None,
    context: typer.Context | None = None,
) -> Table:
    """Read a table for a saved model, in the same way as its training table, and print notes."""
    codes = (*encoding.recipe.missing, *(missing or ()))
    table = read_table(path, decimal=decimal, dayfirst=dayfirst, missing=codes, known=encoding.readings)
    for sentence in table.notes:
        note(sentence)
    if problems := encoding.recipe.problems(table):
        ready = None if context is None else command_line(context)
        raise explain(problems, spell, ready, offered=("missing", "decimal", "dayfirst"))
    for sentence in encoding.unknown_levels(table):
        note(sentence)
    return table


def load_model(path: Path) -> Any:
    """Load a model of `sitewise fit`, a formula of `sitewise model`, or a pipeline with a `TableEncoder`."""
    if not path.exists():
        raise UserError(f"there is no file {path}.")
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the file that `sitewise fit` or `sitewise model --save` wrote.")
    found = formula.load(path)
    if isinstance(found, formula.FormulaModel):
        return found
    if isinstance(found, Pipeline) and isinstance(found[0], estimators.TableEncoder):
        encoder, found = found[0], found[-1]
        kind = AUTO_CLASSES if hasattr(found, "classes_") else AUTO_VALUES
        found.table_ = Encoding("", kind, encoder.recipe_).to_plain()  # the name of the target is not known
    if not hasattr(found, "table_"):
        raise UserError(
            f"{path} was saved from Python without the encoding of its table; load it in Python with sitewise.load, "
            "save a pipeline with sitewise.TableEncoder, or fit it with `sitewise fit`."
        )
    return found
