"""What the columns of a table are: used as they are, left out with a note, or asked about."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from sitewise.tables.columns import PARTS, Column, Date, Group, Levels, Number, date_parts
from sitewise.tables.problems import Problem
from sitewise.tables.reading import about_units, many_levels
from sitewise.tables.recipe import Recipe, missing_values
from sitewise.tables.table import Reading, Table

_MOSTLY_ALONE = 0.8  # groups for each row above which rows do not belong together
_FEW_ROWS = 5  # in fewer rows, whole numbers that follow each other are no sign of an index
_ID = re.compile(
    r"unnamed.*|index|idx|rows?|(.*[\W_])?(ids?|uuid|guid)([\W_].*)?|(.*[\W_])?(nr|no|number|key)", re.IGNORECASE
)
_CAMEL = re.compile(r".*[a-z]I[dD]")


def named_as_id(name: str) -> bool:
    """Whether the name is that of an identifier, or stands for none."""
    return bool(_ID.fullmatch(name) or _CAMEL.fullmatch(name))


def describe(
    table: Table,
    *,
    skip: Collection[str] = (),
    impute: bool = False,
    use: Collection[str] = (),
    missing: Collection[str] = (),
    groups: Collection[str] = (),
) -> tuple[Recipe, list[str], list[Problem]]:
    """The recipe for this table, learned from all its rows; notes on what it leaves out; and what must be asked.

    `skip` names columns that are no inputs, such as the target, and `use` those that are, although they look like
    identifiers; `groups` those that name groups of rows.
    """
    names = [name for name in table.columns if name not in skip]
    troubled = {name for p in table.problems for name in p.columns}
    columns, notes, problems = [], [], []
    for name in names:
        if name in troubled:
            continue
        found = _group(table, name) if name in groups else _column(table, name, name in use)
        if isinstance(found, Column):
            columns.append(found)
            if isinstance(found, Levels):
                many = f"{len(found.features)} columns" if len(found.features) > 1 else "one column"
                notes.append(f"column {name!r} holds {len(found.levels)} texts and became {many} of 0 and 1.")
            elif isinstance(found, Date):
                notes.append(f"column {name!r} holds dates and became {', '.join(found.parts)}.")
        elif isinstance(found, Problem):
            problems.append(found)
        else:
            notes.append(found)
    notes += about_units({c.name: c.reading for c in columns})
    holes = missing_values(table, [c.name for c in columns])
    if holes and not impute:
        named = [c.name for c in columns if np.any(table.missing(c.name))]
        problems.append(Problem(holes, (
            ({"impute": True}, "to fill them with medians and most frequent texts"),
            ({"drop": named}, "to leave the column out" if len(named) == 1 else "to leave these columns out"),
        )))  # fmt: skip
    elif impute:
        for column in columns:
            if count := int(np.sum(table.missing(column.name))):
                notes.append(f"{count} missing values of {column.name!r} were filled.")
    return Recipe(tuple(columns), impute, tuple(missing)).learn(table), notes, problems


def _column(table: Table, name: str, use: bool) -> Column | Problem | str:
    """The column, or a problem with it, or why it is left out."""
    there = ~table.missing(name)
    if not np.any(there):
        return f"column {name!r} is empty and left out."
    values = table.column(name)[there]
    if np.all(values == values[0]):
        return f"column {name!r} has the same value in every row and is left out."
    if table.dates(name) is not None:
        parts = date_parts(values, values.min())
        changing = tuple(part for part in PARTS if np.ptp(parts[part]) > 0)
        return Date(name, order=table.readings.get(name, Reading()).order, parts=changing)
    if table.numbers(name) is not None:
        return _number(table, name, values, use)
    return _levels(name, values, use)


def _group(table: Table, name: str) -> Column | Problem:
    there = [str(text) for text in table.text(name)[~table.missing(name)]]
    levels = tuple(sorted(set(there)))
    if len(levels) < 2 or len(levels) > _MOSTLY_ALONE * len(there):
        what = "one group only" if len(levels) < 2 else f"{len(levels)} values in {len(there)} rows"
        return Problem(f"column {name!r} is to name groups of rows, but it has {what}; name another column")
    return Group(name, levels=levels)


def _number(table: Table, name: str, values: np.ndarray, use: bool) -> Column | Problem | str:
    if np.any(np.isinf(values)):
        return Problem(
            f"column {name!r} holds infinity; replace it, or", (({"drop": [name]}, "to leave the column out"),), (name,)
        )
    whole = len(values) >= _FEW_ROWS and bool(np.all(np.mod(values, 1) == 0)) and len(np.unique(values)) == len(values)
    runs = whole and len(values) == table.rows and np.ptp(values) == len(values) - 1
    if whole and named_as_id(name) and not use:
        how = "counts the rows" if runs else "has another number in every row"
        return f"column {name!r} {how} and is left out, as an identifier."
    if runs and not use:
        return Problem(
            f"column {name!r} counts the rows, from {values.min():.0f} to {values.max():.0f}",
            (({"use": [name]}, "if it says something about the target"), ({"drop": [name]}, "to leave it out")),
            (name,),
        )
    reading = table.readings.get(name, Reading())
    return Number(name, decimal=reading.decimal, unit=reading.unit)


def _levels(name: str, texts: np.ndarray, use: bool) -> Column | Problem | str:
    levels = tuple(sorted(set(texts)))
    if not use and len(levels) == len(texts) >= _FEW_ROWS:
        return f"column {name!r} has another text in every row, such as {texts[0]!r}, and is left out."
    if not use and many_levels(len(levels), len(texts)):
        return Problem(
            f"column {name!r} holds {len(levels)} different texts in {len(texts)} rows, such as {levels[0]!r}, which "
            "are too many to tell apart",
            (({"drop": [name]}, "to leave it out"), ({"use": [name]}, "to make a column of each")),
            (name,),
        )
    return Levels(name, levels=levels)
