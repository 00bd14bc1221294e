"""Parse string columns as numbers, times of day and dates, where all cells of the column allow it.

Decimal mark and order of day and month are detected per column: 1,5 can only have a decimal comma, 31/3/2024 only the
day first.  An ambiguous column is parsed like the other columns of the table, or like the training table of the model;
otherwise it is a problem for the user.  Times of day become hours, unless all of them could be ratios (1:20).  Numbers
of eight digits are dates by the rule of `dates.eight_digits`.

Categorical columns are not parsed.  A column of numbers is categorical if the user or its type says so, if it has few
values and labels such as 3+ among them, and in typed data (a data frame) if it has few values and these are strings.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from sitewise.tables.cells import CLOCK, is_money, is_unambiguous_time, parse_cell, parse_number
from sitewise.tables.dates import ORDERS, eight_digits, has_ambiguous_year, parse_date
from sitewise.tables.problems import Problem
from sitewise.tables.table import Reading, Table, exceed_floats, listed

T = TypeVar("T")
MAX_CATEGORIES = 30  # per column
_MARKS = (".", ",")
MAX_UNITS = 3  # a column of numbers with more units holds categories, such as "3 eggs"
MAX_MISSING_CODES = 5  # non-numbers in a column of numbers that are offered as codes for a missing value
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_DIGITS = re.compile(r"\d+")
# Labels of classes of numbers: 3+, 5 or more, <5, ≥ 65, under 18, 10-20, 10 to 20.
_CLASS_OF_NUMBERS = re.compile(
    r"\d[\d.,]*\s*(\+|plus|(or|and) (more|over|above|less|under|below))|([<>≤≥]=?|under|over|above|below)\s*\d[\d.,]*"
    r"|\d[\d.,]*\s*(-|–|to)\s*\d[\d.,]*",
    re.IGNORECASE,
)


def many_levels(distinct: int, rows: int) -> bool:
    """Whether a column has too many categories to learn from: above 30, or above half the number of rows."""
    return distinct > MAX_CATEGORIES or 2 * distinct > rows > 4


@dataclasses.dataclass
class _Strings:
    """The distinct strings of a column, as numbers with units by decimal mark, and as dates by order of day and month.

    A decimal mark or an order is a key only if all strings can be parsed with it.
    """

    cells: np.ndarray
    texts: list[str]
    numbers: dict[str, dict[str, tuple[float, str]]]
    dates: dict[str, dict[str, datetime.datetime]]

    @staticmethod
    def of(cells: np.ndarray) -> _Strings:
        texts = list(dict.fromkeys(c for c in cells if c is not None))
        numbers = _all_read(texts, _MARKS, parse_cell)
        return _Strings(cells, texts, numbers, {} if numbers else _all_read(texts, ORDERS, parse_date))

    def count(self, texts: list[str]) -> int:
        """Return the number of cells that hold one of these strings."""
        wanted = set(texts)
        return sum(c in wanted for c in self.cells if c is not None)

    def has_many_levels(self) -> bool:
        """Whether the strings are too many categories to learn from."""
        return many_levels(len(self.texts), self.count(self.texts))

    def classes_of_numbers(self) -> list[str]:
        """Return the labels such as 3+ of a column that holds only numbers besides; otherwise an empty list."""
        odd = [t for t in self.texts if all(parse_number(t, mark) is None for mark in _MARKS)]
        return odd if len(odd) < len(self.texts) and all(map(_CLASS_OF_NUMBERS.fullmatch, odd)) else []


def _all_read(texts: list[str], ways: Sequence[str], read: Callable[[str, str], T | None]) -> dict[str, dict[str, T]]:
    """Return the parsed strings for each of the `ways` that can parse all of them; empty without strings."""
    found: dict[str, dict[str, T]] = {}
    for way in ways if texts else ():
        values: dict[str, T] = {}
        for text in texts:
            value = read(text, way)
            if value is None:
                break
            values[text] = value
        else:
            found[way] = values
    return found


def _chosen(readings: Mapping[str, Any], *wishes: str | None) -> tuple[str, bool]:
    """Return the first possible wish, or else the first reading, and whether the choice is unambiguous.

    A choice is unambiguous if it was wished for, or if all readings give the same values.
    """
    first, *others = readings
    differs = any(readings[other] != readings[first] for other in others)
    return next(((wish, True) for wish in wishes if wish and wish in readings), (first, not differs))


@dataclasses.dataclass
class _Marks:
    """Decimal marks of a table: `clear` in unambiguous columns, `known` from a model, `likely` for the file's type."""

    clear: dict[str, str]
    known: dict[str, str]
    likely: str | None

    def usual(self, name: str) -> str | None:
        """Return the decimal mark of an ambiguous column, or None if the user has to decide.

        The mark of the training table applies unless another column of the file has changed its mark, or the type of
        the file suggests a different mark.
        """
        before, marks = self.known.get(name), set(self.clear.values())
        changed = any(self.known.get(n, mark) != mark for n, mark in self.clear.items())
        if before and not changed and (marks or self.likely in (None, before)):
            return before
        if marks or not before:
            return marks.pop() if len(marks) == 1 else None if marks else self.likely
        return None


def understand(
    table: Table,
    *,
    decimal: str | None = None,
    dayfirst: bool | None = None,
    categorical: Collection[str] = (),
    typed: bool = False,
    known: Mapping[str, Reading] | None = None,
    likely: str | None = None,
) -> Table:
    """Return the table with its string columns parsed as numbers and dates; ambiguous columns become problems.

    `decimal`, `dayfirst` and `categorical` are the user's settings.  `typed` says that the data could hold numbers as
    numbers, unlike a CSV file, so that whole numbers in strings are labels.  `known` holds the readings of a model's
    columns; other columns are not parsed.  `likely` is the decimal mark that the type of the file suggests.
    """
    chosen = {n: table.text(n) for n in categorical}
    table = dataclasses.replace(
        table, columns={**table.columns, **chosen}, categorical=table.categorical.union(categorical)
    )
    known_names = [] if known is None else [n for n, r in known.items() if n in table.columns and r.kind != "text"]
    names = [n for n in table.columns if n not in table.categorical] if known is None else known_names
    troubled = {n for p in table.problems for n in p.columns}
    found = {
        n: _Strings.of(table.columns[n]) for n in names if table.columns[n].dtype.kind == "O" and n not in troubled
    }
    clear = {n: next(iter(t.numbers)) for n, t in found.items() if len(t.numbers) == 1}
    marks = _Marks(clear, {n: r.decimal for n, r in (known or {}).items() if r.decimal}, likely)
    asked_order = None if dayfirst is None else ORDERS[0] if dayfirst else ORDERS[1]
    columns, readings, problems = dict(table.columns), dict(table.readings), list(table.problems)
    open_marks, open_orders, labels, digits = [], [], {}, dict(table.digits)
    for name, texts in found.items():
        before = (known or {}).get(name)
        why = _why_labels(name, texts, typed) if known is None else ""
        if why and not texts.has_many_levels():
            labels[name] = why
        elif why and typed and not texts.classes_of_numbers():
            problems.append(_numbers_as_strings(name, texts))
        elif texts.numbers:
            mark, unambiguous = _chosen(texts.numbers, decimal, marks.usual(name))
            if not unambiguous and any("," in t for t in texts.texts):
                open_marks.append(name)
            if (unexpected := _unexpected_unit(table, name, texts, mark, before)) is not None:
                problems += [unexpected] if known is None else []
                continue
            reading = _units(table, name, texts, mark, before)
            if isinstance(reading, Reading):
                values = texts.numbers[mark]
                columns[name] = np.array([np.nan if c is None else values[c][0] for c in texts.cells], float)
                readings[name] = reading
                if exceed_floats(columns[name]) and all(map(_WHOLE_NUMBER.fullmatch, texts.texts)):
                    digits[name] = np.array([None if c is None else str(int(c)) for c in texts.cells], object)
                elif _spelled_twice(texts.texts):
                    digits[name] = np.array(texts.cells, object)
            elif reading is not None and known is None and texts.has_many_levels():
                problems.append(reading)
        elif texts.dates:
            order, unambiguous = _chosen(texts.dates, asked_order, before.order if before else None)
            if not unambiguous or (
                asked_order is None and not (before and before.order) and any(map(has_ambiguous_year, texts.texts))
            ):
                open_orders.append(name)
            dates = texts.dates[order]
            columns[name] = np.array([None if c is None else dates[c] for c in texts.cells], "datetime64[s]")
            matters = len(texts.dates) == 1 or texts.dates["dmy"] != texts.dates["mdy"]
            readings[name] = Reading("date", order=order if matters else "")
        elif known is None and (problem := _mostly_parsable(table, name, texts)) is not None:
            problems.append(problem)
    compact = []
    for name in names:
        turned = _eight_digits(name, columns[name], found.get(name), (known or {}).get(name))
        if turned is not None:
            columns[name], readings[name] = turned, Reading("date")
            compact.append(name)
    if open_marks:
        example = next(t for t in found[open_marks[0]].texts if "," in t)
        problems.append(Problem(
            f"{_columns(open_marks)} numbers such as {example!r}, whose comma may group thousands or mark decimals",
            (({"decimal": "."}, "if it groups thousands"), ({"decimal": ","}, "if it marks decimals")),
            tuple(open_marks),
        ))  # fmt: skip
    if open_orders:
        example = next(
            t
            for t in found[open_orders[0]].texts
            if has_ambiguous_year(t) or parse_date(t, "dmy") != parse_date(t, "mdy")
        )
        problems.append(Problem(
            f"{_columns(open_orders)} dates such as {example!r}, in which the day or the month may come first",
            (({"dayfirst": True}, "if the day comes first"), ({"dayfirst": False}, "if the month comes first")),
            tuple(open_orders),
        ))  # fmt: skip
    commas = [n for n in found if n in readings and readings[n].decimal == "," and "," in "".join(found[n].texts)]
    notes = [*table.notes, *(f"column {name!r} {why} and is categorical." for name, why in labels.items())]
    if commas:
        notes.append(f"commas were read as decimal marks in {listed(commas)}.")
    if compact:
        notes.append(f"the eight digits of each number in {listed(compact)} were read as a date: year, month, day.")
    return dataclasses.replace(
        table, columns=columns, readings=readings, notes=tuple(notes), problems=tuple(problems),
        categorical=table.categorical.union(labels), digits=digits,
    )  # fmt: skip


def _spelled_twice(texts: Collection[str]) -> bool:
    """Return whether codes such as 01 and 1 are different strings and the same number."""
    codes = set(texts)
    return all(map(_DIGITS.fullmatch, codes)) and len({int(c) for c in codes}) < len(codes)


def _eight_digits(name: str, values: np.ndarray, texts: _Strings | None, before: Reading | None) -> np.ndarray | None:
    """Return the dates of a column of eight-digit numbers, or None; a column of a model keeps its type.

    Numbers with grouped thousands, as in 20,240,331, are not dates.
    """
    there = ~np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, bool)
    if not np.any(there) or np.any((values[there] < 19000101) | (values[there] > 20991231)):
        return None
    if before is not None and before.kind != "date":
        return None
    written = texts.texts if texts else [f"{v:.12g}" for v in np.unique(values[there])]
    dates = eight_digits(name if before is None else "date", written)
    if not dates:
        return None
    cells = texts.cells if texts else [f"{v:.12g}" if full else None for v, full in zip(values, there, strict=True)]
    return np.array([None if c is None else dates[c] for c in cells], "datetime64[s]")


def _columns(names: list[str]) -> str:
    """Begin a sentence on these columns."""
    return f"column {names[0]!r} has" if len(names) == 1 else f"columns {listed(names)} have"


def _row(table: Table, name: str, text: str) -> int:
    """Return the row of the first cell with this string."""
    return int(table.lines[int(np.argmax(table.columns[name] == text))])


def _drop(name: str) -> tuple[dict[str, Any], str]:
    """Return the setting that leaves this column out, and its description."""
    return {"drop": [name]}, "to leave the column out"


def _unexpected_unit(table: Table, name: str, texts: _Strings, mark: str, before: Reading | None) -> Problem | None:
    """Return the problem of a column of numbers with a unit in few cells ("1O" instead of 10), or None.

    For a column of a model, any unit is unexpected that the column did not have `before`.
    """
    cells = texts.numbers[mark].items()
    odd = [t for t, (_, unit) in cells if unit and unit != "%" and not is_money(unit)]
    plain = [t for t, (value, unit) in cells if not unit and value != 0]
    few = texts.count(odd) < texts.count(plain) if before is None else bool(plain) and not before.unit
    return _mixed_values(table, name, "numbers", odd, texts) if odd and few else None


def _why_labels(name: str, texts: _Strings, typed: bool) -> str:
    """Return why a column of numbers holds labels, to continue a sentence; empty if it does not."""
    if classes := texts.classes_of_numbers():
        return f"holds {classes[0]!r} beside numbers"
    whole = bool(texts.texts) and all(map(_WHOLE_NUMBER.fullmatch, texts.texts))
    return "holds whole numbers as strings" if typed and whole and not eight_digits(name, texts.texts) else ""


def _numbers_as_strings(name: str, texts: _Strings) -> Problem:
    """The problem of a column with many whole numbers as strings, which may be labels."""
    what = f"column {name!r} holds {len(texts.texts)} whole numbers as strings, such as {texts.texts[0]!r}"
    ways = (({"categorical": [name]}, "if they are labels, to make one column per label"), _drop(name))
    return Problem(f"{what}; convert them to numbers, or", ways, (name,))


def _units(
    table: Table, name: str, texts: _Strings, mark: str, before: Reading | None = None
) -> Reading | Problem | None:
    """Return the reading of a column of numbers, or a problem with its units, or None if the column is categorical.

    Numbers with many units and ratios are categorical; a column that held times of day `before` still holds times.
    """
    cells = texts.numbers[mark]
    units: dict[str, str] = {}
    for text, (_, unit) in cells.items():
        units.setdefault(unit, text)
    real = [u for u in units if u]
    plain = next((t for t, (value, unit) in cells.items() if not unit and value != 0), None)
    ratios = (
        real == [CLOCK] and not (before and before.unit == CLOCK) and not any(map(is_unambiguous_time, texts.texts))
    )
    if len(real) > MAX_UNITS or ratios:
        return None
    if len(real) > 1:
        a, b = units[real[0]], units[real[1]]
        what = f"column {name!r} has several units, such as {a!r} and {b!r} (row {_row(table, name, b)})"
        return Problem(f"{what}; convert them to one unit, or", (_drop(name),), (name,))
    if real == ["%"] and plain is not None:
        what = f"column {name!r} has percent signs, but not in row {_row(table, name, plain)} ({plain!r})"
        return Problem(f"{what}; write the sign in every row or in none, or", (_drop(name),), (name,))
    if real == [CLOCK] and plain is not None:
        what = f"column {name!r} has times of day, but not in row {_row(table, name, plain)} ({plain!r})"
        return Problem(f"{what}; write a time in every row, or", (_drop(name),), (name,))
    marked = any(m in t for t in texts.texts for m in _MARKS)
    return Reading("number", decimal=mark if marked else "", unit=real[0] if real else "")


def _mostly_parsable(table: Table, name: str, texts: _Strings) -> Problem | None:
    """Return the problem of a column in which more than half of the cells are numbers or dates, or None."""
    ways: tuple[tuple[Sequence[str], Callable[[str, str], Any], str], ...] = (
        (_MARKS, parse_cell, "numbers"),
        (ORDERS, parse_date, "dates"),
    )
    for kinds, read, word in ways:
        odds = [[t for t in texts.texts if read(t, kind) is None] for kind in kinds]
        odd = min(odds, key=texts.count)
        if 2 * texts.count(odd) >= texts.count(texts.texts):
            continue
        where = f"{odd[0]!r} (row {_row(table, name, odd[0])})"
        if any(read(odd[0], kind) is not None for kind in kinds):
            both = (
                "decimal points and decimal commas" if word == "numbers" else "dates with the day and the month first"
            )
            return Problem(
                f"column {name!r} mixes {both}, see {where}; use one format in all rows, or", (_drop(name),), (name,)
            )
        return _mixed_values(table, name, word, odd, texts)
    return None


def _mixed_values(table: Table, name: str, word: str, odd: list[str], texts: _Strings) -> Problem:
    """The problem of a column of numbers or dates (`word`) with some other strings, `odd`."""
    categories = () if texts.has_many_levels() else (({"categorical": [name]}, "if the column holds categories"),)
    what = f"column {name!r} holds {word}, but also {odd[0]!r} (row {_row(table, name, odd[0])})"
    if len(odd) > MAX_MISSING_CODES:
        what = f"{what} and {len(odd) - 1} other values; correct them, or"
        return Problem(what, (*categories, _drop(name)), (name,))
    more = f" and {listed(odd[1:])}" if len(odd) > 1 else ""
    missing = ({"missing": odd, "impute": True}, "if that means a missing value, to be filled")
    return Problem(what + more, (missing, *categories, _drop(name)), (name,))


def about_units(readings: Mapping[str, Reading]) -> list[str]:
    """Return notes on the units of numeric columns."""
    notes = []
    for name, reading in readings.items():
        if reading.unit == "%":
            notes.append(f"column {name!r} holds percentages: 12.5 % is used as 0.125.")
        elif reading.unit == CLOCK:
            notes.append(f"column {name!r} holds times of day, used as hours: 14:30 is 14.5.")
        elif reading.unit:
            what = "amounts of money in" if is_money(reading.unit) else "numbers with the unit"
            notes.append(f"column {name!r} holds {what} {reading.unit!r}.")
    return notes
