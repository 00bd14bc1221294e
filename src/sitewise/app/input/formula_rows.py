"""Read tables for formulas: training rows, and new rows with the categories of a fitted formula."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sitewise.app.input.advice import spell
from sitewise.app.input.table_file import read_table
from sitewise.app.process import note
from sitewise.errors import UserError
from sitewise.formula import FormulaModel
from sitewise.formula.expansion import Formula, columns_of
from sitewise.formula.grammar import Number, names_in, parse_expression
from sitewise.tables import Table
from sitewise.tables.problems import Problem, restricted
from sitewise.tables.table import exceed_floats, listed


class FormulaRows(NamedTuple):
    """New rows: the table, the inputs of the estimator, and side information by the estimator's keywords."""

    table: Table
    X: np.ndarray
    side: dict[str, np.ndarray]


def read_formula_table(path: Path, offered: Sequence[str], **reading: Any) -> Table:
    """Read a table for a formula and print notes; `reading` are settings of `read_table`.

    A problem of a column stops the command only if the formula uses the column: `fit` and `predict` raise its sentence.
    `offered` names the options of the command that can solve a problem.
    """
    table = read_table(path, **reading)
    for sentence in table.notes:
        note(sentence)
    return _with_spelled_problems(table, offered)


def _with_spelled_problems(table: Table, offered: Sequence[str]) -> Table:
    return dataclasses.replace(table, problems=tuple(_spelled(problem, offered) for problem in table.problems))


def with_levels_of(model: FormulaModel, table: Table, path: Path, offered: Sequence[str], **reading: Any) -> Table:
    """Return new rows with their categories written as in training; the table is read again if levels are codes.

    Codes such as 01 and 1 are read as strings if they are different levels, and else as the same number.
    """
    codes = _columns_of_codes(model)
    if codes:
        categorical = [*reading.pop("categorical", ()), *codes]
        table = _with_spelled_problems(read_table(path, categorical=categorical, **reading), offered)
    digits = {name: one for name, one in table.digits.items() if exceed_floats(table.columns[name])}
    return dataclasses.replace(table, digits=digits)


def complete_rows(table: Table, formula: Formula, side: Iterable[str | None]) -> Table:
    """Return the rows without missing values in the columns that predictions need, and print how many are left out.

    `side` are the columns or expressions of side information.
    """
    wanted = columns_of(dataclasses.replace(formula, response=Number(0.0)))
    wanted += [name for text in side if text for name in names_in(parse_expression(text))]
    names = [name for name in dict.fromkeys(wanted) if name in table.columns and np.any(table.missing(name))]
    kept = ~np.any([np.zeros(table.rows, bool), *(table.missing(name) for name in names)], axis=0)
    if not np.any(kept):
        raise UserError(f"All rows of {table.name} have missing values in {listed(names)}; fill them.")
    if names:
        gone = table.rows - np.sum(kept)
        note(f"{gone} of {table.rows} rows of {table.name} have missing values in {listed(names)} and are left out.")
    return table.take(np.flatnonzero(kept))


def _spelled(problem: Problem, offered: Sequence[str]) -> Problem:
    """Return the problem as a sentence with options of commands on formulas, which leave rows out and never impute."""
    ways = []
    for settings, words in problem.ways:
        if "impute" in settings:
            settings = {"missing": settings["missing"], "drop_missing": True}
            words = "if that means a missing value, to leave these rows out"
        ways.append((settings, words))
    chosen = restricted(dataclasses.replace(problem, ways=tuple(ways)), offered)
    return Problem(chosen.sentence(spell).removesuffix("."), columns=problem.columns)


def load_formula_rows(path: Path, model: FormulaModel, *, drop: bool = False, **reading: Any) -> FormulaRows:
    """Read new rows for a fitted formula, and print notes; `reading` are settings of `read_table`.

    With `drop`, rows with missing values are left out.
    """
    offered = ("missing", "drop_missing", "decimal", "dayfirst")
    table = with_levels_of(model, read_formula_table(path, offered, **reading), path, offered, **reading)
    if drop:
        table = complete_rows(table, model.design.formula, model.predicted_side.values())
    view = model.explained()
    assert view.side is not None
    return FormulaRows(table, view.inputs(table), view.side(table, {}))


def _columns_of_codes(model: FormulaModel) -> list[str]:
    """Return the columns with a level that is a number in another format than `Table.text` writes."""
    return [name for name, levels in model.design.levels_by_column().items() if any(map(_is_code, levels))]


def _is_code(level: str) -> bool:
    try:
        number = float(level)
    except ValueError:
        return False
    return level not in Table("", {"level": np.array([number])}, np.ones(1, int)).text("level")
