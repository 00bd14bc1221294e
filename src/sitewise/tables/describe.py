"""Detect the type of each column of a table: numeric, categorical, date, group, constant or identifier.

Each column is encoded, left out with a note, or reported as a problem that the user has to decide.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

import numpy as np

from sitewise.tables.columns import PARTS, Column, Date, Group, Levels, Number, date_parts
from sitewise.tables.problems import Problem
from sitewise.tables.reading import about_units, many_levels
from sitewise.tables.recipe import Recipe, missing_values
from sitewise.tables.table import Reading, Table

MAX_GROUPS_PER_ROW = 0.8  # a column with more groups per row does not name groups
MIN_ROWS_FOR_INDEX = 5  # with fewer rows, distinct values do not indicate an identifier
MIN_ROWS_PER_COUNT = 30  # a count that restarts more often is a position in a group, such as a visit or an hour
MAX_CHANCE_OF_NO_TIES = 1e-6  # whole numbers that differ in every row with a smaller chance are no measurements
MAX_CHANCE_IF_RISING = 1e-3  # the same for numbers that rise from row to row, as row numbers do
_ID_NAME = re.compile(
    r"unnamed.*|index|idx|rows?|(.*[\W_])?(ids?|uuid|guid)([\W_].*)?|(.*[\W_])?(nr|no|number|key)", re.IGNORECASE
)
_CAMEL_CASE_ID_NAME = re.compile(r".*[a-z]I[dD]")
# Whole names only: "mpg_city", "schools" and "area" are measurements or counts.  "school", "family" and "hospital" are
# missing because such columns hold years at school, members of a family and nights in a hospital as often as codes.
_GROUP_NAME = re.compile(
    r"(.*[\W_])?id|subj(ect)?|patient|participant|respondent|student|teacher|judge|rater|customer|user|animal|litter|brood"
    r"|household|district|county|region|province|state|country|city|village|municipality|zip([\W_]?code)?"
    r"|post[\W_]?code|location|site|station|plot|farm|tree|firm|company|store|shop|batch|lot|machine|device|team|zone"
    r"|stratum|cluster|group",
    re.IGNORECASE,
)
MIN_GROUP_CODES = 3  # two codes are the same as a number and as a category
_TIME_NAME = re.compile(
    r"(.*[\W_])?(t|ts|time|timestamp|date|second|minute|hour|day|week|month|quarter|year|period|season|step|age)s?"
    r"([\W_\d].*)?",
    re.IGNORECASE,
)


def named_as_id(name: str) -> bool:
    """Whether the column name indicates an identifier ("id", "CustomerID"), or the column was unnamed."""
    return bool(_ID_NAME.fullmatch(name) or _CAMEL_CASE_ID_NAME.fullmatch(name))


def named_as_group(name: str) -> bool:
    """Whether the column name indicates codes of groups of rows ("district", "patient_id")."""
    return bool(_GROUP_NAME.fullmatch(name) or _CAMEL_CASE_ID_NAME.fullmatch(name))


def named_as_time(name: str) -> bool:
    """Whether the column name indicates a time ("week", "time_s"), for which counting the rows is plausible."""
    return _TIME_NAME.fullmatch(name) is not None


def describe(
    table: Table,
    *,
    skip: Collection[str] = (),
    impute: bool = False,
    use: Collection[str] = (),
    missing: Collection[str] = (),
    groups: Collection[str] = (),
) -> tuple[Recipe, list[str], list[Problem]]:
    """Return the recipe of this table, learned from all its rows, notes on columns left out, and open problems.

    `skip` lists columns that are no inputs, such as the target.  `use` lists columns to use although they look like
    identifiers.  `groups` lists columns that name groups of rows.
    """
    names = [name for name in table.columns if name not in skip]
    troubled = {name for p in table.problems for name in p.columns}
    columns, notes, problems = [], [], []
    for name in names:
        if name in troubled:
            continue
        found = _group(table, name) if name in groups else _column(table, name, name in use, len(names) == 1)
        if isinstance(found, Column):
            columns.append(found)
            if isinstance(found, Levels):
                many = f"{len(found.features)} columns" if len(found.features) > 1 else "one column"
                notes.append(f"column {name!r} holds {len(found.levels)} categories and became {many} of 0 and 1.")
            elif isinstance(found, Date):
                notes.append(f"column {name!r} holds dates and became {', '.join(found.parts)}.")
            elif isinstance(found, Number) and name not in use and (codes := _group_codes(table, name)):
                notes.append(codes)
        elif isinstance(found, Problem):
            problems.append(found)
        else:
            notes.append(found)
    notes += about_units({c.name: c.reading for c in columns})
    holes = missing_values(table, [c.name for c in columns])
    if holes and not impute:
        named = [c.name for c in columns if np.any(table.missing(c.name))]
        problems.append(Problem(holes, (
            ({"impute": True}, "to fill them with medians and most frequent categories"),
            ({"drop": named}, "to leave the column out" if len(named) == 1 else "to leave these columns out"),
        ), recommended=True))  # fmt: skip
    elif impute:
        for column in columns:
            if count := int(np.sum(table.missing(column.name))):
                notes.append(f"{count} missing values of {column.name!r} were filled.")
    return Recipe(tuple(columns), impute, tuple(missing)).learn(table), notes, problems


def _column(table: Table, name: str, use: bool, alone: bool) -> Column | Problem | str:
    """Return the column's encoding, or a problem, or the reason for leaving the column out.

    `use` says that the user wants the column, `alone` that the table has no other column to predict from.
    """
    there = ~table.missing(name)
    if not np.any(there):
        return f"column {name!r} is empty and left out."
    values = table.column(name)[there]
    if np.all(values == values[0]):
        rows = "every row" if np.all(there) else "every row that is not blank"
        return f"column {name!r} has the same value in {rows} and is left out."
    if table.dates(name) is not None:
        parts = date_parts(values, values.min())
        changing = tuple(part for part in PARTS if np.ptp(parts[part]) > 0)
        return Date(name, order=table.readings.get(name, Reading()).order, parts=changing)
    if table.numbers(name) is not None:
        return _number(table, name, values, use, alone)
    return _levels(name, values, use)


def _group(table: Table, name: str) -> Column | Problem:
    """Return the encoding of a column that names groups of rows, or a problem."""
    there = [str(text) for text in table.text(name)[~table.missing(name)]]
    levels = tuple(sorted(set(there)))
    if len(levels) < 2 or len(levels) > MAX_GROUPS_PER_ROW * len(there):
        what = "only one group" if len(levels) < 2 else f"{len(levels)} groups in {len(there)} rows"
        return Problem(f"column {name!r} should name groups of rows, but it has {what}; name another column")
    return Group(name, levels=levels)


def _group_codes(table: Table, name: str) -> str:
    """Return a note on a numeric column whose name and whole numbers indicate codes of groups; empty for others."""
    values = table.column(name)[~table.missing(name)]
    count = len(np.unique(values))
    if not (named_as_group(name) and MIN_GROUP_CODES <= count < len(values) and np.all(np.mod(values, 1) == 0)):
        return ""
    shell = shlex.quote(name)
    ways = f"drop=[{name!r}] (--drop {shell})"  # hardly any code repeats
    if count <= MAX_GROUPS_PER_ROW * len(values):
        ways = (
            f"groups=[{name!r}] (--groups {shell}) for one offset per group, or categorical=[{name!r}] "
            f"(--categorical {shell}) for one column per code"
        )
    return (
        f"column {name!r} holds {count} different whole numbers in {len(values)} rows and is used as a number; if they "
        f"are codes, say {ways}."
    )


def _number(table: Table, name: str, values: np.ndarray, use: bool, alone: bool) -> Column | Problem | str:
    """Return the encoding of a numeric column, or a problem, or the reason for leaving the column out."""
    if np.any(np.isinf(values)):
        return Problem(
            f"column {name!r} holds infinity; replace it, or", (({"drop": [name]}, "to leave the column out"),), (name,)
        )
    reading = table.readings.get(name, Reading())
    number = Number(name, decimal=reading.decimal, unit=reading.unit)
    distinct, restarts = _differs_in_every_row(values), _restarts(table, values)
    if use or not (distinct or restarts):
        return number
    low, high = f"{values.min():.0f}", f"{values.max():.0f}"
    start = _start_of_count(table, values) if distinct else None
    counts = start is not None
    how = "counts the rows" if counts else "has a different whole number in every row"
    if restarts:
        how = f"counts the rows in {restarts + 1} parts of the table"
    if named_as_id(name):
        return f"column {name!r} {how} and is left out, as an identifier; {_kept_by(name)}."
    if start in (0, 1) and not named_as_time(name) and not alone:
        return f"column {name!r} {how} from {low} to {high} and is left out; {_kept_by(name)}."
    if not counts and (named_as_time(name) or alone or not (restarts or _differs_by_design(values))):
        return number
    return Problem(
        f"column {name!r} {how}, from {low} to {high}",
        (({"use": [name]}, "if it is a time or a measurement"), ({"drop": [name]}, "if it numbers or names the rows")),
        (name,),
    )


def _start_of_count(table: Table, values: np.ndarray) -> float | None:
    """Return the first number of distinct whole numbers that count the rows; None for other numbers.

    The numbers are consecutive, in any order, or number the lines of a file of which some rows were left out.
    """
    if len(values) < table.rows:
        return None
    if np.ptp(values) == len(values) - 1:
        return float(values.min())
    return float(values[0] - table.lines[0] + 1) if np.ptp(values - table.lines) == 0 else None


def _restarts(table: Table, values: np.ndarray) -> int:
    """Return how often a column that counts the rows from 0 or 1 starts again, as in joined tables; otherwise 0."""
    first = np.append(0, np.flatnonzero(np.diff(values) != 1) + 1)
    counts = len(values) == table.rows >= MIN_ROWS_PER_COUNT * len(first)
    return len(first) - 1 if counts and values[0] in (0, 1) and np.all(values[first] == values[0]) else 0


def _kept_by(name: str) -> str:
    """Return the words on how to keep a column, in Python and in the shell."""
    return f"use=[{name!r}] (--use {shlex.quote(name)}) keeps it"


def _differs_in_every_row(values: np.ndarray) -> bool:
    """Whether the values are whole numbers without ties, in enough rows."""
    whole = len(values) >= MIN_ROWS_FOR_INDEX and bool(np.all(np.mod(values, 1) == 0))
    return whole and len(np.unique(values)) == len(values)


def _differs_by_design(values: np.ndarray) -> bool:
    """Whether whole numbers without ties are too dense for a measurement.

    The chance that n independent values among s whole numbers have no ties is largest if all s are equally likely:

        Π_{i<n} (1 − i/s) ≤ exp(−n (n − 1) / 2s)
    """
    n, span = len(values), float(np.ptp(values)) + 1
    chance = MAX_CHANCE_IF_RISING if np.all(np.diff(values) > 0) else MAX_CHANCE_OF_NO_TIES
    return n * (n - 1) / (2 * span) > -np.log(chance)


def _levels(name: str, texts: np.ndarray, use: bool) -> Column | Problem | str:
    """Return the encoding of a categorical column, or a problem, or the reason for leaving the column out."""
    levels = tuple(sorted(set(texts)))
    if not use and len(levels) == len(texts) >= MIN_ROWS_FOR_INDEX:
        what = f"column {name!r} has a different text in every row, such as {texts[0]!r}, and is left out"
        return f"{what}; {_kept_by(name)}."
    if not use and many_levels(len(levels), len(texts)):
        return Problem(
            f"column {name!r} has {len(levels)} categories in {len(texts)} rows, such as {levels[0]!r}, too many to "
            "learn from",
            (({"drop": [name]}, "to leave it out"), ({"use": [name]}, "to make one column per category")),
            (name,),
            recommended=2 * len(levels) > len(texts),  # otherwise the categories recur, and may matter
        )
    return Levels(name, levels=levels)
