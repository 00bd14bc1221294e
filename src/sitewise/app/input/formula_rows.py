"""Read a table of new rows for a fitted formula, with the categories of the formula."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sitewise.app.input.table_file import read_table
from sitewise.app.process import note
from sitewise.formula import FormulaModel
from sitewise.tables import Table


class FormulaRows(NamedTuple):
    """New rows: the table, the inputs of the estimator, and side information by the estimator's keywords."""

    table: Table
    X: np.ndarray
    side: dict[str, np.ndarray]


def load_formula_rows(path: Path, model: FormulaModel, **reading: Any) -> FormulaRows:
    """Read new rows for a fitted formula, and print notes; `reading` are settings of `read_table`.

    Columns whose levels are codes such as 01 or 1.0 are read as strings, because as numbers both would be 1.
    """
    table = read_table(path, categorical=_columns_of_codes(model), **reading)
    for sentence in table.notes:
        note(sentence)
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
