"""The columns of a table as the numbers that a model takes, and new tables in the same way.

Numbers are centred and scaled; a text column becomes one 0/1 column per text (a single one for two texts).  The result
is plain data, kept in the model file (`table_`), so that `sitewise predict` does what `sitewise fit` did.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from sitewise.app.table import Table, parse_number
from sitewise.errors import UserError
from sitewise.likelihoods import BY_NAME

CLASS_LIKELIHOODS = tuple(name for name, kind in BY_NAME.items() if kind.support == "classes")
AUTO_CLASSES, AUTO_VALUES = "probit", "gaussian"  # what the likelihood auto stands for
_MOST_LEVELS = 30
_MOST_CLASSES = 20
_FEW_VALUES = 10


@dataclasses.dataclass(frozen=True)
class Column:
    """How a column is encoded: `levels` is empty for numbers; `fill` replaces missing values, unless it is None."""

    name: str
    levels: tuple[str, ...] = ()
    fill: float | str | None = None
    centre: float = 0.0
    scale: float = 1.0

    @property
    def features(self) -> list[str]:
        shown = self.levels if len(self.levels) != 2 else self.levels[1:]
        return [f"{self.name}={level}" for level in shown] or [self.name]

    def learn(self, table: Table, impute: bool) -> Column:
        """The column with fill and scale from these rows; the levels stay, so that all folds have the same columns."""
        there = ~table.missing(self.name)
        if self.levels:
            texts, counts = np.unique(table.text(self.name)[there].astype(str), return_counts=True)
            common = str(texts[np.argmax(counts)]) if len(texts) else self.levels[0]
            return dataclasses.replace(self, fill=common if impute else None)
        values = _numbers(table, self.name)[there]
        middle = float(np.median(values)) if len(values) else 0.0
        filled = np.append(values, np.full(int(np.sum(~there)), middle))
        spread = float(np.std(filled))
        return Column(self.name, (), middle if impute else None, float(np.mean(filled)), spread if spread > 0 else 1.0)

    def apply(self, table: Table) -> np.ndarray:
        """The values of the features, one row for each."""
        absent = table.missing(self.name)
        if self.levels:
            texts = np.where(absent, np.asarray(self.fill, object), table.text(self.name))
            shown = self.levels if len(self.levels) != 2 else self.levels[1:]
            return np.stack([(texts == level).astype(float) for level in shown])
        values = np.where(absent, np.nan if self.fill is None else self.fill, _numbers(table, self.name))
        return ((values - self.centre) / self.scale)[None]


def _numbers(table: Table, name: str) -> np.ndarray:
    numbers = table.numbers(name)
    if numbers is None:
        odd = next(v for v in table.column(name) if v is not None and parse_number(v, table.decimal) is None)
        raise UserError(f"column {name!r} held numbers when the model was fitted, but {table.name} has {odd!r} in it.")
    return numbers


@dataclasses.dataclass(frozen=True)
class Encoding:
    """How a table becomes inputs and targets."""

    target: str
    likelihood: str
    columns: tuple[Column, ...]
    impute: bool = False

    @property
    def features(self) -> list[str]:
        return [feature for column in self.columns for feature in column.features]

    @property
    def classifies(self) -> bool:
        return self.likelihood in CLASS_LIKELIHOODS

    def learn(self, table: Table) -> Encoding:
        """The same columns, filled and scaled by these rows."""
        return dataclasses.replace(self, columns=tuple(c.learn(table, self.impute) for c in self.columns))

    def inputs(self, table: Table) -> np.ndarray:
        """The inputs of a model, one row for each row of the table."""
        lacking = [c.name for c in self.columns if c.name not in table.columns]
        if lacking:
            raise UserError(f"{table.name} lacks the column {lacking[0]!r}, which the model was fitted with.")
        if not self.impute:
            refuse_missing(table, [c.name for c in self.columns])
        X = np.concatenate([c.apply(table) for c in self.columns]).T
        if np.any(np.isinf(X)):
            worst = self.features[int(np.argmax(np.any(np.isinf(X), axis=0)))]
            raise UserError(f"column {worst!r} holds infinity; replace it, or leave the column out with --drop.")
        return X

    def unknown_levels(self, table: Table) -> list[str]:
        """Notes on texts that did not occur when the model was fitted."""
        notes = []
        for column in self.columns:
            if column.levels:
                new = sorted({v for v in table.text(column.name) if v is not None} - set(column.levels))
                if new:
                    notes.append(f"column {column.name!r} has {new[0]!r}, which the model does not know.")
        return notes

    def targets(self, table: Table) -> np.ndarray:
        """The target column: text for classes, numbers otherwise."""
        absent = table.missing(self.target)
        if np.any(absent):
            raise UserError(
                f"the target {self.target!r} is missing in {int(np.sum(absent))} rows of {table.name} (row "
                f"{int(table.lines[np.argmax(absent)])} is the first); remove those rows."
            )
        if self.classifies:
            return table.text(self.target).astype(str)
        numbers = table.numbers(self.target)
        if numbers is None:
            raise UserError(
                f"the target {self.target!r} holds text, but {self.likelihood} needs numbers; use --likelihood "
                f"{AUTO_CLASSES}."
            )
        if not np.all(np.isfinite(numbers)):
            raise UserError(f"the target {self.target!r} holds infinity; remove those rows.")
        return numbers

    def to_plain(self) -> dict[str, Any]:
        """The same as numbers, text, lists and maps, which a model file can hold."""
        columns = [{**dataclasses.asdict(c), "levels": list(c.levels)} for c in self.columns]
        return {"target": self.target, "likelihood": self.likelihood, "impute": self.impute, "columns": columns}

    @staticmethod
    def from_plain(plain: Any) -> Encoding:
        """The encoding that `to_plain` described."""
        try:
            columns = tuple(Column(**{**c, "levels": tuple(c["levels"])}) for c in plain["columns"])
            return Encoding(plain["target"], plain["likelihood"], columns, plain["impute"])
        except (TypeError, KeyError) as problem:
            raise UserError(f"the model's description of its table cannot be read ({problem}); fit it again.") from None


def refuse_missing(table: Table, names: list[str]) -> None:
    """Raise if one of these columns has missing values."""
    holes = {name: int(np.sum(table.missing(name))) for name in names}
    holes = {name: count for name, count in holes.items() if count}
    if holes:
        listed = ", ".join(f"{name!r} ({count} of {table.rows} rows)" for name, count in list(holes.items())[:8])
        raise UserError(
            f"{table.name} has missing values in {listed}: say --impute to fill them with medians and most frequent "
            "texts, or --drop a column."
        )


def _names(*supports: str) -> str:
    """The likelihoods for targets of these kinds, for a sentence."""
    return " or ".join(name for name, kind in BY_NAME.items() if kind.support in supports)


def describe(table: Table, target: str, likelihood: str, impute: bool) -> tuple[Encoding, list[str]]:
    """The encoding of this table, learned from all its rows, with notes on what the user may not expect."""
    notes = list(table.notes)
    asked, likelihood = likelihood, _likelihood(table, target, likelihood)
    if asked == "auto" and likelihood == AUTO_VALUES:
        values = _numbers(table, target)
        if np.all(np.mod(values, 1) == 0) and np.all(values >= 0):
            notes.append(
                f"the target {target!r} holds whole numbers; if they are counts, say --likelihood {_names('counts')}."
            )
    columns = []
    for name in table.columns:
        if name == target:
            continue
        if np.all(table.missing(name)):
            notes.append(f"column {name!r} is empty and left out.")
            continue
        column = _column(table, name)
        if column is None:
            notes.append(f"column {name!r} has the same value in every row and is left out.")
            continue
        if column.levels:
            many = f"{len(column.features)} columns" if len(column.features) > 1 else "one column"
            notes.append(f"column {name!r} holds {len(column.levels)} texts and became {many} of 0 and 1.")
        else:
            values = _numbers(table, name)
            if len(values) > 2 and np.all(np.diff(values) == 1):
                notes.append(
                    f"column {name!r} counts the rows and is used as an input; leave it out with --drop {name!r}."
                )
        columns.append(column)
    if not columns:
        raise UserError(f"{table.name} has no column besides {target!r} to predict from.")
    if not impute:
        refuse_missing(table, [c.name for c in columns])
    else:
        for column in columns:
            if count := int(np.sum(table.missing(column.name))):
                notes.append(f"{count} missing values of {column.name!r} were filled.")
    return Encoding(target, likelihood, tuple(columns), impute).learn(table), notes


def _column(table: Table, name: str) -> Column | None:
    numbers = table.numbers(name)
    there = ~table.missing(name)
    if numbers is not None:
        if np.any(np.isinf(numbers)):
            raise UserError(
                f"column {name!r} holds infinity; replace it, or leave the column out with --drop {name!r}."
            )
        return Column(name) if len(np.unique(numbers[there])) > 1 else None
    texts = table.column(name)[there]
    odd = [t for t in texts if parse_number(t, table.decimal) is None]
    if 2 * len(odd) < len(texts):
        raise UserError(
            f"column {name!r} holds numbers, but also {odd[0]!r}: say --missing {odd[0]!r} if that means a missing "
            f"value, or --drop {name!r}."
        )
    levels = sorted(set(texts))
    if len(levels) == 1:
        return None
    if len(levels) > _MOST_LEVELS or 2 * len(levels) > len(texts) > 4:
        raise UserError(
            f"column {name!r} holds {len(levels)} different texts in {len(texts)} rows, such as {levels[0]!r}: that is "
            f"too many to tell apart, so leave it out with --drop {name!r}."
        )
    return Column(name, tuple(levels))


def _likelihood(table: Table, target: str, likelihood: str) -> str:
    """The name of the likelihood; for "auto" classes or values, and an error where the column may hold either."""
    if likelihood != "auto" and likelihood not in BY_NAME:
        raise UserError(f"--likelihood must be auto, {', '.join(BY_NAME)}, got {likelihood!r}.")
    numbers = table.numbers(target)
    distinct = len({v for v in table.text(target) if v is not None})
    if likelihood == "auto":
        whole = numbers is not None and np.all(np.mod(numbers[np.isfinite(numbers)], 1) == 0)
        if numbers is not None and 2 < distinct <= _FEW_VALUES and whole:
            raise UserError(
                f"the target {target!r} holds {distinct} different whole numbers: say --likelihood {_names('classes')} "
                f"if they are classes, {_names('ranks')} if these are in order, {_names('real')} if they are values, "
                f"or {_names('counts')} if they are counts."
            )
        likelihood = AUTO_CLASSES if numbers is None or distinct <= 2 else AUTO_VALUES
    if distinct < 2:
        what = "one class only" if likelihood in CLASS_LIKELIHOODS else "the same value in every row"
        raise UserError(f"the target {target!r} holds {what}; there is nothing to learn.")
    if likelihood in CLASS_LIKELIHOODS and distinct > _MOST_CLASSES:
        raise UserError(
            f"the target {target!r} holds {distinct} different labels, and at most {_MOST_CLASSES} classes are "
            "supported: is it the wrong column, or numbers with text in between?"
        )
    return likelihood
