"""How a table becomes the inputs of a model, as plain data that a model file keeps."""

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
    """The columns in order; `impute` fills missing values; `missing` are further texts that mean a missing value."""

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
        """The same columns, filled and scaled by these rows."""
        return dataclasses.replace(self, columns=tuple(c.learn(table, self.impute) for c in self.columns))

    def problems(self, table: Table) -> list[Problem]:
        """All that keeps this table from becoming inputs."""
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
        """The inputs of a model, one row for each row of a table without `problems`."""
        return np.concatenate([c.apply(table) for c in self.columns]).T

    def unknown_levels(self, table: Table) -> list[str]:
        """Notes on texts that did not occur when the model was fitted."""
        notes = []
        for column in self.columns:
            if not isinstance(column, Levels | Group):
                continue
            texts = table.text(column.name)
            new = [i for i, v in enumerate(texts) if v is not None and v not in column.levels]
            if new:
                others = len({texts[i] for i in new}) - 1
                more = f" (and {others} other new texts)" if others else ""
                notes.append(
                    f"column {column.name!r} has {texts[new[0]]!r} in row {int(table.lines[new[0]])}{more}, which the "
                    "model does not know; it counts as "
                    + ("a new group." if isinstance(column, Group) else "none of the texts that it knows.")
                )
        return notes

    def to_plain(self) -> dict[str, Any]:
        """The same as numbers, text, lists and maps."""
        columns = [column.to_plain() for column in self.columns]
        return {"columns": columns, "impute": self.impute, "missing": list(self.missing)}

    @staticmethod
    def from_plain(plain: Any) -> Recipe:
        """The recipe that `to_plain` described."""
        try:
            columns = tuple(kinds.from_plain(c) for c in plain["columns"])
            return Recipe(columns, bool(plain["impute"]), tuple(plain.get("missing", ())))
        except (AttributeError, TypeError, KeyError) as problem:
            raise UserError(f"the model's description of its table cannot be read ({problem}); fit it again.") from None


def missing_values(table: Table, names: list[str]) -> str:
    """The beginning of a sentence on the columns with missing values; empty if there are none."""
    holes = {name: int(np.sum(table.missing(name))) for name in names}
    shown = [f"{name!r} ({count} of {table.rows} rows)" for name, count in holes.items() if count]
    more = f" and {len(shown) - 8} more columns" if len(shown) > 8 else ""
    return f"{table.name} has missing values (blank or NaN) in {', '.join(shown[:8])}{more}" if shown else ""
