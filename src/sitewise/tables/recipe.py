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

    def unknown_levels(self, table: Table) -> list[str]:
        """Return notes on categories and groups that do not occur in the training table."""
        notes = []
        for column in self.columns:
            if not isinstance(column, Levels | Group):
                continue
            texts = table.text(column.name)
            new = [i for i, v in enumerate(texts) if v is not None and v not in column.levels]
            if new:
                others = len({texts[i] for i in new}) - 1
                group = isinstance(column, Group)
                word = "group" if group else "category"
                more = f" and {others} other unseen {'groups' if group else 'categories'}" if others else ""
                two = not group and len(column.levels) == 2  # the single feature is then 0, as for the first category
                treated = (
                    "as a new group"
                    if group
                    else f"as {column.levels[0]!r}"
                    if two
                    else "as none of the known categories"
                )
                notes.append(
                    f"column {column.name!r} has the unseen {word} {texts[new[0]]!r} in row "
                    f"{int(table.lines[new[0]])}{more}; the model treats it {treated}."
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
    return f"{table.name} has missing values (blank or NaN) in {', '.join(shown[:8])}{more}" if shown else ""
