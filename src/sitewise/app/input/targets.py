"""Encode the target and the input columns of a table, and choose the likelihood for "auto".

The encoding is plain data in the model file (`table_`): `sitewise predict` encodes tables like `sitewise fit`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sitewise.app.input.advice import spell
from sitewise.errors import UserError
from sitewise.likelihoods import BY_NAME
from sitewise.tables import Problem, Reading, Recipe, Table, explain
from sitewise.tables import describe as describe_columns
from sitewise.tables.cells import CLOCK
from sitewise.tables.columns import Column, Group, Number
from sitewise.tables.leaks import MAX_CLASSES, leaks
from sitewise.tables.problems import Settings

CLASS_LIKELIHOODS = tuple(name for name, kind in BY_NAME.items() if kind.support in ("classes", "ranks"))
AUTO_CLASSES, AUTO_VALUES = "probit", "gaussian"  # likelihoods that "auto" chooses
MAX_AMBIGUOUS_VALUES = 10  # up to this number of distinct whole numbers the target may be classes, ratings or counts
MIN_ZERO_SHARE = 0.05  # share of zero rows from which a non-negative target suggests a likelihood for amounts
MIN_MEAN_OVER_MEDIAN = 1.25  # ratio from which a positive target has a long tail


@dataclasses.dataclass(frozen=True)
class Encoding:
    """The encoding of a table as inputs and targets; `reading` describes how the target is parsed.

    `side` names the columns of side information by the estimator's keywords: {"exposure": "months"}.
    """

    target: str
    likelihood: str
    recipe: Recipe
    reading: Reading = Reading()
    side: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.recipe.columns

    @property
    def features(self) -> list[str]:
        return self.recipe.features

    @property
    def readings(self) -> dict[str, Reading]:
        """How the columns of a later table are parsed; class labels are not parsed."""
        numbers = self.reading.kind == "number"
        side = dict.fromkeys(self.side.values(), Reading("number"))
        return {**self.recipe.readings, **side, **({self.target: self.reading} if numbers else {})}

    @property
    def classifies(self) -> bool:
        return self.likelihood in CLASS_LIKELIHOODS

    @property
    def groups(self) -> list[int]:
        """The indices of the features that name groups of rows."""
        places = [column for column in self.columns for _ in column.features]
        return [k for k, column in enumerate(places) if isinstance(column, Group)]

    def learn(self, table: Table) -> Encoding:
        """Return the same columns with fill values and scales learned from these rows."""
        return dataclasses.replace(self, recipe=self.recipe.learn(table))

    def inputs(self, table: Table) -> np.ndarray:
        """Return the inputs of a model, shape (rows, features)."""
        if problems := self.recipe.problems(table):
            raise explain(problems, spell, None, offered=())
        return self.recipe.inputs(table)

    def unknown_levels(self, table: Table) -> list[str]:
        """Return notes on categories and groups that do not occur in the training table."""
        return self.recipe.unknown_levels(table)

    def targets(self, table: Table) -> np.ndarray:
        """Return the target column: strings for classes, numbers otherwise."""
        if problems := _target_problems(table, self.target, self.likelihood):
            raise explain(problems, spell, None, offered=())
        if self.classifies:
            return table.text(self.target).astype(str)
        return table.column(self.target)

    def to_plain(self) -> dict[str, Any]:
        """Return the encoding as numbers, strings, lists and dicts, for a model file."""
        reading = dataclasses.asdict(self.reading)
        own = {"target": self.target, "likelihood": self.likelihood, "reading": reading, "side": dict(self.side)}
        return {**own, **self.recipe.to_plain()}

    @staticmethod
    def from_plain(plain: Any) -> Encoding:
        """Restore an encoding from `to_plain`; files of version 0.1 have no reading of the target."""
        recipe = Recipe.from_plain(plain)
        try:
            likelihood = plain["likelihood"]
            plainly = Reading("text" if likelihood in CLASS_LIKELIHOODS else "number")
            reading = Reading(**plain["reading"]) if "reading" in plain else plainly
            return Encoding(plain["target"], likelihood, recipe, reading, dict(plain.get("side", {})))
        except (TypeError, KeyError) as problem:
            raise UserError(f"the model's description of its table cannot be read ({problem}); fit it again.") from None


def _usual_likelihoods(support: str) -> list[str]:
    """Return two likelihoods for this kind of target that need no side information, the more usual one first."""
    plain = [name for name, kind in BY_NAME.items() if not isinstance(kind.columns, tuple) or len(kind.columns) == 1]
    # Likelihoods of lifetimes are not suggested: without censoring they have no advantage.
    names = [name for name in plain if BY_NAME[name].support == support and "event" not in BY_NAME[name].keywords]
    return sorted(names, key=lambda name: name not in (AUTO_CLASSES, AUTO_VALUES, "poisson"))[:2]


def describe(
    table: Table,
    target: str,
    likelihood: str,
    impute: bool,
    *,
    use: Sequence[str] = (),
    missing: Sequence[str] = (),
    side: Mapping[str, str] | None = None,
    groups: Sequence[str] = (),
) -> tuple[Encoding, list[str], list[Problem]]:
    """Return the encoding of this table, learned from all its rows, notes for the user, and open problems."""
    problems = [_of_target(p) if p.columns == (target,) else p for p in table.problems]
    asked, likelihood, found = likelihood, *_likelihood(table, target, likelihood)
    notes = list(table.notes)
    if found is not None and not any(p.columns == (target,) for p in problems):
        problems.append(found)
    if not any(p.columns == (target,) for p in problems):
        problems += _target_problems(table, target, likelihood)
    reading = table.readings.get(target, Reading("text" if table.numbers(target) is None else "number"))
    if asked == "auto" and likelihood == AUTO_VALUES and found is None:
        values = table.column(target)[~table.missing(target)]
        if np.all(np.mod(values, 1) == 0) and np.all(values >= 0):
            notes.append(
                f"the target {target!r} holds whole numbers; if they are counts, say --likelihood "
                f"{' or '.join(_usual_likelihoods('counts'))}."
            )
        elif np.all(values >= 0) and np.mean(values == 0) > MIN_ZERO_SHARE:
            notes.append(
                f"the target {target!r} is zero in {int(np.sum(values == 0))} rows and positive in the other rows; "
                f"--likelihood {' or '.join(_usual_likelihoods('amounts'))} models amounts with zeros."
            )
        elif np.all(values > 0) and np.mean(values) > MIN_MEAN_OVER_MEDIAN * np.median(values):
            notes.append(
                f"the target {target!r} holds positive values with a long tail; --likelihood "
                f"{' or '.join(_usual_likelihoods('positive'))} may suit it better."
            )
    side = dict(side or {})
    skip = [target, *side.values()]
    recipe, more, open_columns = describe_columns(
        table, skip=skip, impute=impute, use=use, missing=missing, groups=groups
    )
    problems += open_columns
    candidates = [c.name for c in recipe.columns if c.name not in use]
    for leak in leaks(table, candidates, target, likelihood in CLASS_LIKELIHOODS):
        if not leak.equal:
            notes.append(leak.sentence(spell({"drop": list(leak.columns)})))
            continue
        name = leak.columns[0]
        problems.append(Problem(
            f"column {name!r} determines the target {target!r} in every row, so the model would use no other "
            "column", (({"drop": [name]}, "to leave it out"), ({"use": [name]}, "to use it anyway")), (name,),
            recommended=True,
        ))  # fmt: skip
    if not recipe.columns and not open_columns:
        problems.append(Problem(f"{table.name} has no column besides {target!r} to predict from"))
    if reading.unit:
        words = {"%": "percentages: predictions are fractions, 0.125 for 12.5 %", CLOCK: "times: predictions are hours"}
        notes.append(f"the target {target!r} is in {words.get(reading.unit, reading.unit)}.")
    return Encoding(target, likelihood, recipe, reading, side), notes + more, problems


def _of_target(problem: Problem) -> Problem:
    """Adapt a problem to the target column, which cannot be dropped and whose missing values cannot be filled."""
    ways: list[tuple[Settings, str]] = []
    for settings, words in problem.ways:
        if "missing" in settings:
            settings = {"missing": settings["missing"], "skip_missing_target": True}
            ways.append((settings, "if that means a missing value, to leave those rows out"))
        elif "drop" not in settings:
            ways.append((settings, words))
    return dataclasses.replace(problem, ways=tuple(ways))


def _target_problems(table: Table, target: str, likelihood: str) -> list[Problem]:
    """Return the problems of the target column: missing values, strings where numbers are required, infinity."""
    numbers, absent = table.numbers(target), table.missing(target)
    found = []
    if np.any(absent):
        rows = "one row" if np.sum(absent) == 1 else f"{int(np.sum(absent))} rows"
        found.append(Problem(
            f"the target {target!r} is missing in {rows} of {table.name} (row "
            f"{int(table.lines[np.argmax(absent)])} is the first)",
            (({"skip_missing_target": True}, "to leave those rows out"),),
        ))  # fmt: skip
    if likelihood in CLASS_LIKELIHOODS:
        return found
    if numbers is None:
        texts = table.text(target)
        odd = Number(target).odd([str(t) for t in dict.fromkeys(texts[~absent])])[0]
        row = int(table.lines[int(np.argmax(texts == odd))])
        what = f"the target {target!r} holds {odd!r} (row {row}), but {likelihood} needs numbers"
        found.append(Problem(what, (({"likelihood": AUTO_CLASSES}, "if the values are classes"),)))
    elif np.any(np.isinf(numbers)):
        found.append(Problem(f"the target {target!r} holds infinity; remove those rows"))
    return found


def _likelihood(table: Table, target: str, likelihood: str) -> tuple[str, Problem | None]:
    """Return the likelihood's name and, for "auto", a problem if the target may be classes, ratings or counts."""
    if likelihood != "auto" and likelihood not in BY_NAME:
        raise UserError(f"--likelihood must be auto, {', '.join(BY_NAME)}, got {likelihood!r}.")
    if table.dates(target) is not None:
        what = f"the target {target!r} holds dates, which cannot be predicted; choose another column"
        return AUTO_VALUES, Problem(what, columns=(target,))
    numbers = table.numbers(target)
    distinct = len({v for v in table.text(target) if v is not None})
    if likelihood == "auto":
        whole = numbers is not None and np.all(np.mod(numbers[np.isfinite(numbers)], 1) == 0)
        if numbers is not None and 2 < distinct <= MAX_AMBIGUOUS_VALUES and whole:
            meanings = {
                "classes": "classes without an order, such as 0 = stayed, 1 = left, 2 = returned",
                "ranks": "ordered classes, such as ratings or stages",
                "counts": "counts of events, where 2 is twice 1",
                "real": "values on a scale, with Gaussian noise",
            }
            if np.nanmin(numbers) < 0:
                del meanings["counts"]
            ways = tuple(({"likelihood": _usual_likelihoods(support)[0]}, words) for support, words in meanings.items())
            shown = ", ".join(f"{v:.0f}" for v in np.unique(numbers[np.isfinite(numbers)]))
            return AUTO_CLASSES, Problem(f"the target {target!r} holds the whole numbers {shown}", ways)
        likelihood = AUTO_CLASSES if numbers is None or distinct <= 2 else AUTO_VALUES
    if distinct < 2:
        what = "only one class" if likelihood in CLASS_LIKELIHOODS else "the same value in every row"
        return likelihood, Problem(f"the target {target!r} holds {what}; there is nothing to learn")
    if likelihood in CLASS_LIKELIHOODS and distinct > MAX_CLASSES:
        return likelihood, Problem(
            f"the target {target!r} holds {distinct} different labels, and at most {MAX_CLASSES} classes are "
            "supported; choose another column, or correct the cells that are not numbers"
        )
    return likelihood, None
