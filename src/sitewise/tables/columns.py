"""Encode one column of a table as features of a model: numbers, categories, groups or dates.

Numbers, including the hours of a time of day, are standardised: (x − mean) / standard deviation.  Each category becomes
one feature of 0 and 1; two categories share a single feature; `Levels` explains the encoding of an unseen category.  A
date becomes year, month, ISO weekday (Monday is 1), hour, and days since the first date, each standardised.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from sitewise.tables.cells import CLOCK, parse_cell
from sitewise.tables.dates import parse_date, parse_digits
from sitewise.tables.problems import Problem
from sitewise.tables.table import Reading, Table


@dataclasses.dataclass(frozen=True)
class Column(abc.ABC):
    """The encoding of one column; `fill` replaces missing values, unless it is None."""

    kind: ClassVar[str]
    name: str
    fill: Any = None

    @property
    @abc.abstractmethod
    def features(self) -> list[str]:
        """The names of the features."""

    @property
    @abc.abstractmethod
    def reading(self) -> Reading:
        """How strings of this column are parsed in later tables."""

    @abc.abstractmethod
    def learn(self, table: Table, impute: bool) -> Column:
        """Learn fill value and scale from the rows of the table; the list of features is the same for all folds."""

    @abc.abstractmethod
    def apply(self, table: Table) -> np.ndarray:
        """Return the values of the features, shape (features, rows)."""

    def unreadable(self, table: Table, impute: bool) -> Problem | None:
        """Return the problem of a later table whose column cannot be parsed as in the training table, or None."""
        return None

    def to_plain(self) -> dict[str, Any]:
        """Return the encoding as numbers, strings, lists and dicts, for a model file."""
        fields = {k: list(v) if isinstance(v, tuple) else v for k, v in dataclasses.asdict(self).items()}
        return {"kind": self.kind, **fields}


def _unparsable_cells(table: Table, name: str, held: str, odd: list[str], impute: bool) -> Problem:
    """The problem of a later table whose cells `odd` cannot be parsed as in the training table."""
    row = int(table.lines[int(np.argmax(table.text(name) == odd[0]))])
    what = f"column {name!r} held {held} when the model was fitted, but row {row} of {table.name} has {odd[0]!r}"
    if not impute:
        return Problem(f"{what}; correct it")
    return Problem(what, (({"missing": odd}, "if that means a missing value"),))


def _mean_and_scale(values: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation; a constant column is divided by 1."""
    spread = float(np.std(values)) if len(values) else 0.0
    return (float(np.mean(values)) if len(values) else 0.0), (spread if spread > 0 else 1.0)


@dataclasses.dataclass(frozen=True)
class Number(Column):
    """A column of numbers; `unit` and `decimal` are the unit and the decimal mark of its strings."""

    kind = "number"
    centre: float = 0.0
    scale: float = 1.0
    decimal: str = ""
    unit: str = ""

    @property
    def features(self) -> list[str]:
        return [self.name]

    @property
    def reading(self) -> Reading:
        return Reading("number", decimal=self.decimal, unit=self.unit)

    def learn(self, table: Table, impute: bool) -> Number:
        values, absent = table.column(self.name), table.missing(self.name)
        middle = float(np.median(values[~absent])) if not np.all(absent) else 0.0
        centre, scale = _mean_and_scale(np.where(absent, middle, values))
        return dataclasses.replace(self, fill=middle if impute else None, centre=centre, scale=scale)

    def apply(self, table: Table) -> np.ndarray:
        fill = np.nan if self.fill is None else self.fill
        values = np.where(table.missing(self.name), fill, table.column(self.name)).astype(float)
        return ((values - self.centre) / self.scale)[None]

    def unreadable(self, table: Table, impute: bool) -> Problem | None:
        values, absent = table.numbers(self.name), table.missing(self.name)
        if values is None:
            texts = [str(t) for t in dict.fromkeys(table.text(self.name)[~absent])]
            held = "times of day" if self.unit == CLOCK else "numbers"
            return _unparsable_cells(table, self.name, held, self.odd(texts), impute) if texts else None
        if np.any(np.isinf(values)):
            row = int(table.lines[int(np.argmax(np.isinf(values)))])
            return Problem(f"column {self.name!r} holds infinity in row {row} of {table.name}; replace it")
        unit = table.readings.get(self.name, Reading()).unit
        mixed = unit != self.unit and (
            unit or self.unit in ("%", CLOCK)
        )  # cells without a unit may still have the old one
        if mixed and np.any(values[~absent] != 0):
            words = [f"the unit {u!r}" if u else "no unit" for u in (self.unit, unit)]
            return Problem(
                f"column {self.name!r} had {words[0]} when the model was fitted and has {words[1]} in {table.name}; "
                "write it as in the training table"
            )
        return None

    def odd(self, texts: list[str]) -> list[str]:
        """Return the strings that are not numbers with the unit of the training table."""
        best = texts
        for mark in ".,":
            cells = [parse_cell(t, mark) for t in texts]
            usual = {self.unit} if self.unit in ("%", CLOCK) else {self.unit, ""}
            odd = [t for t, cell in zip(texts, cells, strict=True) if cell is None or cell[1] not in usual]
            best = min(best, odd, key=len)
        return best or texts


@dataclasses.dataclass(frozen=True)
class Levels(Column):
    """A categorical column: one feature of 0 and 1 per category, or one feature for two categories.

    An unseen category equals no known category and has the same distance to all of them.  A stationary kernel then
    gives it the same covariance with every known category:

        three or more categories   0 in every feature: distance 1 to each category; categories have distance √2
        two categories             ½ in the single feature: distance ½ to both categories, which have distance 1

    On a line, the middle is the only point with equal distances to both categories.  The prediction there lies between
    the predictions of the two categories, and its standard deviation is smaller than with one feature per category.
    In return, the features of the training rows, and therefore all fitted models, do not depend on this choice.
    """

    kind = "levels"
    levels: tuple[str, ...] = ()

    @property
    def _encoded_levels(self) -> tuple[str, ...]:
        """The categories with a feature of their own: the second of two, otherwise all."""
        return self.levels if len(self.levels) != 2 else self.levels[1:]

    @property
    def features(self) -> list[str]:
        return [f"{self.name}={level}" for level in self._encoded_levels]

    @property
    def reading(self) -> Reading:
        return Reading("text")

    def learn(self, table: Table, impute: bool) -> Levels:
        texts, counts = np.unique(table.text(self.name)[~table.missing(self.name)].astype(str), return_counts=True)
        common = str(texts[np.argmax(counts)]) if len(texts) else self.levels[0]
        return dataclasses.replace(self, fill=common if impute else None)

    def labels(self, table: Table) -> np.ndarray:
        """Return the categories as strings; booleans that are written otherwise, as TRUE or 1, as in training."""
        texts = table.text(self.name)
        spelled = {level.casefold(): level for level in self.levels}
        if len(self.levels) != 2 or spelled.keys() != {"false", "true"}:
            return texts
        spelled |= {"0": spelled["false"], "1": spelled["true"]}
        return np.array([None if t is None else spelled.get(str(t).casefold(), t) for t in texts], object)

    def apply(self, table: Table) -> np.ndarray:
        texts = np.where(table.missing(self.name), np.asarray(self.fill, object), self.labels(table))
        features = np.stack([(texts == level).astype(float) for level in self._encoded_levels])
        if len(self.levels) == 2:
            features[:, ~np.isin(texts.astype(str), self.levels)] = 0.5
        return features

    @property
    def place_of_unseen(self) -> str:
        """How the model treats an unseen category, for a sentence."""
        if len(self.levels) == 2:
            return f"halfway between {self.levels[0]!r} and {self.levels[1]!r}"
        return "none of the known categories"


@dataclasses.dataclass(frozen=True)
class Group(Column):
    """A column whose values, numbers or strings, name groups of rows: one feature, the number of the group.

    A value that is not in `levels` is a new group, with a number beyond the known groups.
    """

    kind = "group"
    levels: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        return [self.name]

    @property
    def reading(self) -> Reading:
        return Reading("text")

    def learn(self, table: Table, impute: bool) -> Group:
        return self

    def apply(self, table: Table) -> np.ndarray:
        numbers = {level: k for k, level in enumerate(self.levels)}
        texts = [str(text) for text in table.text(self.name)]
        return np.array([[numbers.setdefault(text, len(numbers)) for text in texts]], float)


PARTS = ("year", "month", "weekday", "hour", "days")


def date_parts(dates: np.ndarray, origin: np.datetime64) -> dict[str, np.ndarray]:
    """Return year, month 1–12, weekday 1–7 (Monday is 1), hour 0–24 and days since the origin.

    Hours and days have fractions.
    """
    days, months = dates.astype("datetime64[D]"), dates.astype("datetime64[M]")
    seconds = (dates - days) / np.timedelta64(1, "s")
    return {
        "year": dates.astype("datetime64[Y]").astype(int) + 1970.0,
        "month": months.astype(int) % 12 + 1.0,
        "weekday": (days.astype(int) + 3) % 7 + 1.0,  # 1970-01-01 was a Thursday
        "hour": seconds / 3600,
        "days": (dates - origin) / np.timedelta64(1, "D"),
    }


@dataclasses.dataclass(frozen=True)
class Date(Column):
    """A column of dates; `parts` lists the parts that vary, `origin` is the first day of the training set."""

    kind = "date"
    order: str = ""
    parts: tuple[str, ...] = ()
    origin: str = "1970-01-01"
    centre: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    @property
    def features(self) -> list[str]:
        return [f"{self.name} ({part})" for part in self.parts]

    @property
    def reading(self) -> Reading:
        return Reading("date", order=self.order)

    def _values(self, dates: np.ndarray) -> np.ndarray:
        found = date_parts(dates, np.datetime64(self.origin, "s"))
        return np.stack([found[part] for part in self.parts])

    def learn(self, table: Table, impute: bool) -> Date:
        dates, absent = table.column(self.name), table.missing(self.name)
        there = dates[~absent] if not np.all(absent) else np.array([self.origin], "datetime64[s]")
        middle = np.sort(there)[len(there) // 2]
        new = dataclasses.replace(
            self, fill=str(middle) if impute else None, origin=str(there.min().astype("datetime64[D]"))
        )
        centre, scale = zip(*(_mean_and_scale(v) for v in new._values(np.where(absent, middle, dates))), strict=True)
        return dataclasses.replace(new, centre=centre, scale=scale)

    def apply(self, table: Table) -> np.ndarray:
        fill = np.datetime64("NaT" if self.fill is None else self.fill, "s")
        dates = np.where(table.missing(self.name), fill, table.column(self.name).astype("datetime64[s]"))
        return (self._values(dates) - np.array(self.centre)[:, None]) / np.array(self.scale)[:, None]

    def unreadable(self, table: Table, impute: bool) -> Problem | None:
        there = table.text(self.name)[~table.missing(self.name)]
        if table.dates(self.name) is not None or not len(there):
            return None
        texts = [str(t) for t in dict.fromkeys(there)]
        odd = [t for t in texts if parse_date(t, self.order or "dmy") is None and parse_digits(t) is None] or texts
        return _unparsable_cells(table, self.name, "dates", odd, impute)


KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Levels, Group, Date)}


def from_plain(plain: dict[str, Any]) -> Column:
    """Restore a column from `to_plain`; files of version 0.1 have no kind, and their numeric columns no levels."""
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}
    kind = fields.pop("kind", None)
    if kind is None:
        kind = "levels" if fields["levels"] else "number"
        for other in ("centre", "scale") if kind == "levels" else ("levels",):
            fields.pop(other)
    return KINDS[kind](**fields)
