"""A table of named columns, made from a data frame, dicts, records, or an array."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sitewise.errors import UserError
from sitewise.tables.problems import Problem

# "none" is no code of a missing value: it is a category in columns such as "alcohol" or "injury".
MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "?"})
MIN_INEXACT = 2.0**53  # from here on, floats do not hold every whole number
MAX_WHOLE = 2.0**64  # below it, whole numbers are written without an exponent


@dataclasses.dataclass(frozen=True)
class Reading:
    """How the strings of a column are parsed: as a "number" (decimal mark, unit), a "date" (order), or "text".

    A decimal mark or an order that no string depends on is empty.
    """

    kind: str = "text"
    decimal: str = ""
    unit: str = ""
    order: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns by name: numbers (NaN is missing), dates (datetime64[s], NaT is missing) or strings (None is missing).

    `lines` are the row numbers in the file, counted from 1 without the header.  `readings` describe how strings were
    parsed as numbers or dates.  `problems` are questions that only the user can answer.  `categorical` names columns of
    strings that are categorical by their type or by the user's choice.  `orders` has the categories of a column in the
    order in which its type lists them, and `ranked` names the columns whose type says that this is an order from the
    lowest to the highest.  `digits` has the cells of columns of numbers from 2⁵³ on as strings, because different whole
    numbers, such as identifiers with 19 digits, may be equal as floats, and of columns in which codes such as 01 and 1
    are the same number.
    """

    name: str
    columns: dict[str, np.ndarray]
    lines: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, int))
    notes: tuple[str, ...] = ()
    readings: Mapping[str, Reading] = dataclasses.field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    categorical: frozenset[str] = frozenset()
    orders: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    ranked: frozenset[str] = frozenset()
    digits: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> np.ndarray:
        """Return the column of this name; raise if it does not exist."""
        if name not in self.columns:
            raise UserError(f"{self.name} has no column {name!r}; it has {listed(self.columns)}.")
        return self.columns[name]

    def numbers(self, name: str) -> np.ndarray | None:
        """Return a numeric column, or None if the column is not numeric."""
        values = self.column(name)
        return values if values.dtype.kind == "f" else None

    def dates(self, name: str) -> np.ndarray | None:
        """Return a column of dates, or None if the column holds no dates."""
        values = self.column(name)
        return values if values.dtype.kind == "M" else None

    def text(self, name: str) -> np.ndarray:
        """Return the column as strings; equal numbers become equal strings, independent of their format in the file."""
        values = self.column(name)
        if values.dtype.kind == "O":
            return values
        if values.dtype.kind == "f" and name in self.digits:
            return self.digits[name]
        shown = map(_number_text, values) if values.dtype.kind == "f" else np.datetime_as_string(values)
        absent = self.missing(name)
        return np.array([None if gone else str(v) for v, gone in zip(shown, absent, strict=True)], object)

    def missing(self, name: str) -> np.ndarray:
        """Return a mask of the missing entries of the column."""
        values = self.column(name)
        if values.dtype.kind == "O":
            return np.array([v is None for v in values], bool)
        return np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)

    def take(self, index: np.ndarray) -> Table:
        """Return the table with only these rows."""
        cut, digits = ({name: one[index] for name, one in each.items()} for each in (self.columns, self.digits))
        return dataclasses.replace(self, columns=cut, lines=self.lines[index], digits=digits)

    def named(self, given: Sequence[str]) -> list[str]:
        """Return the column names in `given`, where one item may list several, separated by commas."""
        found: list[str] = []
        for item in given:
            parts = [item] if item in self.columns else [part.strip() for part in item.split(",") if part.strip()]
            for part in parts:
                self.column(part)
            found += parts
        return list(dict.fromkeys(found))

    def drop(self, names: Iterable[str]) -> Table:
        """Return the table without these columns and their problems."""
        gone = set(names)
        left = {k: v for k, v in self.columns.items() if k not in gone}
        problems = tuple(p for p in self.problems if not gone.intersection(p.columns))
        return dataclasses.replace(self, columns=left, problems=problems)


def listed(names: Iterable[str], most: int = 12) -> str:
    """Return the names in quotes and separated by commas, for a sentence; at most `most` names."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(n) for n in names[:most]) + more


def table_of(X: Any, name: str = "X", missing: Sequence[str] = ()) -> Table:
    """Make a table from a data frame, a list of dicts, a dict of columns, a structured array or an array of rows.

    No library is imported for that: a data frame is any object with `columns` and access to a column by its name.
    """
    columns = _columns(X, name)
    single = [str(label) for label, values in columns.items() if not hasattr(values, "__len__") or _is_string(values)]
    if single:
        raise UserError(f"the column {single[0]!r} of {name} is one value; give a list with one value per row.")
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise UserError(f"the columns of {name} differ in length; give one value per row in every column.")
    absent = MISSING | {m.strip().lower() for m in missing}
    found, problems, categorical, orders, ranked, digits = {}, [], set(), {}, set(), {}
    for label, values in columns.items():
        if _is_categorical(values):
            found[str(label)] = _labels(values, absent)
            categorical.add(str(label))
            if (declared := _declared(values)) is not None:
                orders[str(label)] = tuple(dict.fromkeys(_labels(declared, absent)))
            if ranked_categories(values) is not None:
                ranked.add(str(label))
            continue
        found[str(label)], other = _typed(values, absent)
        if exceed_floats(found[str(label)]):
            digits[str(label)] = _labels(values, absent)
        if other is not None:
            problems.append(Problem(
                f"column {str(label)!r} holds {other}, but a table holds numbers, dates and text; convert it, or",
                (({"drop": [str(label)]}, "to leave the column out"),), (str(label),),
            ))  # fmt: skip
    lines = np.arange(1, max(lengths, default=0) + 1)
    return Table(
        name, found, lines, problems=tuple(problems), categorical=frozenset(categorical), orders=orders,
        ranked=frozenset(ranked), digits=digits,
    )  # fmt: skip


def refuse_duplicates(names: Iterable[Any], where: str) -> None:
    """Raise UserError if several columns have the same name."""
    twice = [name for name, count in collections.Counter(map(str, names)).items() if count > 1]
    if twice:
        raise UserError(f"several columns of {where} are named {listed(twice)}; give every column its own name.")


def has_names(X: Any) -> bool:
    """Whether the columns of these data have names."""
    if isinstance(X, np.ndarray):
        return X.dtype.names is not None
    return hasattr(X, "columns") or isinstance(X, Mapping) or _is_records(X)


def _is_records(X: Any) -> bool:
    return isinstance(X, list | tuple) and len(X) > 0 and all(isinstance(row, Mapping) for row in X)


def _columns(X: Any, name: str) -> dict[Any, Any]:
    if hasattr(X, "toarray") or hasattr(X, "tocsr"):
        raise TypeError("Sparse data was passed, but a table is dense; use X.toarray().")
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        refuse_duplicates(X.columns, name)
        return {label: X[label] for label in X.columns}
    if isinstance(X, Mapping):
        refuse_duplicates(X, name)
        return dict(X)
    if _is_records(X):
        labels = dict.fromkeys(label for row in X for label in row)
        refuse_duplicates(labels, name)
        return {label: [row.get(label) for row in X] for label in labels}
    values = X if isinstance(X, np.ndarray) else np.asarray(X)
    if values.dtype.names is not None:
        return {label: values[label] for label in values.dtype.names}
    if values.ndim != 2:
        raise UserError(
            f"Expected 2D array, got {values.ndim}D array instead. Reshape your data: X.reshape(-1, 1) for one column, "
            "X.reshape(1, -1) for one row."
        )
    if not values.shape[1]:
        raise UserError(f"Found array with 0 feature(s) (shape={values.shape}) while a minimum of 1 is required.")
    return {f"x{k}": values[:, k] for k in range(values.shape[1])}


def _is_categorical(values: Any) -> bool:
    """Whether the type of a column is categorical: `category` in pandas, Categorical or Enum in polars."""
    return str(getattr(values, "dtype", "")).lower().startswith(("category", "categorical", "enum"))


def _is_string(values: Any) -> bool:
    return isinstance(values, str | bytes)


def _declared(values: Any) -> Any:
    """Return the categories of a column in their order, as pandas declares them; None if its type does not."""
    found = getattr(getattr(values, "cat", values), "categories", None)
    return None if found is None or callable(found) else found


def ranked_categories(values: Any) -> Any:
    """Return the categories of an ordered pandas column, the lowest first; None for other columns."""
    return _declared(values) if getattr(getattr(values, "cat", values), "ordered", False) is True else None


def _labels(values: Any, absent: frozenset[str]) -> np.ndarray:
    """Return a column of categories as strings; None is missing."""
    given = values.tolist() if hasattr(values, "tolist") else list(values)
    made = np.empty(len(given), object)
    made[:] = [
        str(int(v)) if isinstance(v, numbers.Integral) and not isinstance(v, bool)
        else c if (c := _cell(v, absent)) is None else _number_text(c) if isinstance(c, float) else str(c)
        for v in given
    ]  # fmt: skip
    return made


def exceed_floats(values: np.ndarray) -> bool:
    """Whether a column has numbers from 2⁵³ on: different whole numbers may be equal as floats."""
    return values.dtype.kind == "f" and bool(np.any(np.abs(values) >= MIN_INEXACT))


def _number_text(value: float) -> str:
    """Return a number as a string; different whole numbers below 2⁶⁴ have different strings."""
    return str(int(value)) if abs(value) < MAX_WHOLE and value == int(value) else f"{value:.12g}"


def _typed(values: Any, absent: frozenset[str]) -> tuple[np.ndarray, str | None]:
    """Return one column as numbers, dates or strings, and the name of an unsupported type in it, or None."""
    kind = values.dtype.kind if isinstance(getattr(values, "dtype", None), np.dtype) else "O"
    if kind in "iuf":
        return np.asarray(values, float), None
    if kind == "M":
        return np.asarray(values).astype("datetime64[s]"), None
    cells = [_cell(v, absent) for v in (values.tolist() if hasattr(values, "tolist") else values)]
    present = [c for c in cells if c is not None]
    if present and all(isinstance(c, float) for c in present):
        return np.array([np.nan if c is None else c for c in cells], float), None
    if present and all(isinstance(c, datetime.datetime) for c in present):
        return np.array(cells, "datetime64[s]"), None  # None becomes NaT
    other = next((type(c).__name__ for c in present if not isinstance(c, float | str | datetime.datetime)), None)
    return _labels(values, absent), other


def _cell(value: Any, absent: frozenset[str]) -> Any:
    """Convert a value to a number, a date, a string or None; values of other types are returned unchanged."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, numbers.Real | decimal.Decimal):
        return None if value != value else float(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day)
    if isinstance(value, datetime.time):
        return value.strftime("%H:%M:%S")
    if isinstance(value, complex):
        raise UserError("Complex data not supported: give the real and the imaginary part in separate columns.")
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str):
        return value
    text = value.strip()
    return None if text.lower() in absent else text
