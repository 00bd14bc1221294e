"""The recipe that encodes a table as the inputs of a model; a model file stores it as plain data."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from sitewise.errors import UserError
from sitewise.tables import columns as kinds
from sitewise.tables.columns import Column, Group, Levels
from sitewise.tables.problems import Problem
from sitewise.tables.table import Reading, Table, listed


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The encoded columns in order; `impute` fills missing values; `missing` lists codes for a missing value."""

    columns: tuple[Column, ...]
    impute: bool = False
    missing: tuple[str, ...] = ()

    @property
    def features(self) -> list[str]:
        return [feature for column in self.columns for feature in column.features]

    @property
    def readings(self) -> dict[str, Reading]:
        return {column.name: column.reading for column in self.columns}

    def learn(self, table: Table) -> Recipe:
        """Return the same columns with fill values and scales learned from these rows."""
        return dataclasses.replace(self, columns=tuple(c.learn(table, self.impute) for c in self.columns))

    def problems(self, table: Table) -> list[Problem]:
        """Return all problems that prevent encoding this table."""
        lacking = [c.name for c in self.columns if c.name not in table.columns]
        there = [c for c in self.columns if c.name in table.columns]
        own = {c.name for c in self.columns}
        found = [p for p in table.problems if not p.columns or own.intersection(p.columns)]
        if lacking:
            one, them = ("column", "it") if len(lacking) == 1 else ("columns", "them")
            what = f"{table.name} lacks the {one} {listed(lacking)}, which the model was fitted with; add {them}"
            found.append(Problem(what))
        found += [p for c in there if (p := c.unreadable(table, self.impute)) is not None]
        if not self.impute and (holes := missing_values(table, [c.name for c in there])):
            what = f"{holes}, and the model was fitted without filling them; fill them, or fit it again with impute"
            found.append(Problem(what))
        return found

    def inputs(self, table: Table) -> np.ndarray:
        """Return the inputs of a model, shape (rows, features); the table must be without `problems`."""
        return np.concatenate([c.apply(table) for c in self.columns]).T

    def unknown_levels(self, table: Table, groups: bool = True) -> list[str]:
        """Return notes on categories, and on `groups` if wanted, that do not occur in the training table."""
        notes = []
        for column in self.columns:
            if not isinstance(column, Levels | Group if groups else Levels):
                continue
            texts = column.labels(table) if isinstance(column, Levels) else table.text(column.name)
            rows = [i for i, v in enumerate(texts) if v is not None and v not in column.levels]
            if rows:
                new = dict.fromkeys(texts[i] for i in rows)
                group = isinstance(column, Group)
                one, several = ("group", "groups") if group else ("category", "categories")
                place = column.place_of_unseen if isinstance(column, Levels) else "a new group"
                notes.append(
                    f"column {column.name!r} has the unseen {one if len(new) == 1 else several} {listed(new, 5)} "
                    f"({'' if len(rows) == 1 else 'first '}in row {int(table.lines[rows[0]])}); "
                    f"the model treats {'it' if len(new) == 1 else 'each'} as {place}."
                )
        return notes

    def to_plain(self) -> dict[str, Any]:
        """Return the recipe as numbers, strings, lists and dicts."""
        columns = [column.to_plain() for column in self.columns]
        return {"columns": columns, "impute": self.impute, "missing": list(self.missing)}

    @staticmethod
    def from_plain(plain: Any) -> Recipe:
        """Restore a recipe from `to_plain`."""
        try:
            columns = tuple(kinds.from_plain(c) for c in plain["columns"])
            return Recipe(columns, bool(plain["impute"]), tuple(plain.get("missing", ())))
        except (AttributeError, TypeError, KeyError) as problem:
            raise UserError(f"the model's description of its table cannot be read ({problem}); fit it again.") from None


def missing_values(table: Table, names: list[str]) -> str:
    """Begin a sentence that lists the columns with missing values; empty without missing values."""
    holes = {name: int(np.sum(table.missing(name))) for name in names}
    shown = [f"{name!r} ({count} of {table.rows} rows)" for name, count in holes.items() if count]
    more = f" and {len(shown) - 8} more columns" if len(shown) > 8 else ""
    what = f"{table.name} has missing values (blank, NA, NaN, null or ?) in"
    return f"{what} {', '.join(shown[:8])}{more}" if shown else ""
