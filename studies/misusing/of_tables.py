"""Ten kinds of mistakes with tables, in several variants each.

A variant changes a correct sheet, and says which words a message on the mistake contains.  A ready command line or a
ready line of Python must not contain the settings of `NEVER_PROPOSED`, which would leak the target or erase rows or
labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from misusing.sheets import NEW_ROWS, ROWS, Sheet

NEVER_PROPOSED = ("--use", "--missing", "--skip-missing-target", "use=", "missing=")


class Variant(NamedTuple):
    """A mistake: where it is made, what it changes, and a pattern that a message on it contains."""

    door: str
    change: Callable[[Sheet, np.random.Generator], Sheet]
    about: str


def _both(change: Callable[[Sheet, np.random.Generator], Sheet], about: str) -> list[Variant]:
    return [Variant("python", change, about), Variant("command", change, about)]


def _in_new_rows(sheet: Sheet, name: str, cells: Any) -> Sheet:
    """Return the sheet with other values of a column in some new rows."""
    new = sheet.new.copy()
    new[name] = new[name].astype(object)
    new.loc[: len(cells) - 1, name] = cells
    return dataclasses.replace(sheet, new=new)


def _without(sheet: Sheet, **lists: str) -> Sheet:
    """Return the sheet without these columns in lists of settings."""
    return sheet.set(**{k: [name for name in sheet.settings[k] if name != v] for k, v in lists.items()})


# -- categories that did not occur in the training table ------------------------------------------------------------


def _unseen(role: str) -> Callable[[Sheet, np.random.Generator], Sheet]:
    def change(sheet: Sheet, rng: np.random.Generator) -> Sheet:
        name = getattr(sheet, role)
        known = str(sheet.new[name][0])
        words = ["unknown", "other", f"{known} or so", known.swapcase() + "_", "-1"]
        picked = [str(word) for word in rng.choice(words, rng.integers(1, 4))]
        return _in_new_rows(sheet, name, [99] * len(picked) if known.isdigit() else picked)

    return change


# -- categories that look like numbers -----------------------------------------------------------------------------


def _as_type(kind: Any) -> Callable[[Sheet, np.random.Generator], Sheet]:
    def change(sheet: Sheet, rng: np.random.Generator) -> Sheet:
        def convert(column: pd.Series) -> pd.Series:
            return column.astype(str).astype("category") if kind == "category of strings" else column.astype(kind)

        train = sheet.train.assign(**{sheet.code: convert(sheet.train[sheet.code])})
        new = sheet.new if rng.random() < 0.5 else sheet.new.assign(**{sheet.code: convert(sheet.new[sheet.code])})
        return _without(dataclasses.replace(sheet, train=train, new=new), categorical=sheet.code)

    return change


def _top_label(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    """Write the largest number of the categorical column as 3+."""
    top = sheet.train[sheet.code].max()
    label = str(rng.choice([f"{top}+", f"{top} or more", f">{top - 1}"]))

    def convert(column: pd.Series) -> pd.Series:
        return pd.Series([label if v == top else v for v in column], dtype=object)

    train, new = (part.assign(**{sheet.code: convert(part[sheet.code])}) for part in (sheet.train, sheet.new))
    return _without(dataclasses.replace(sheet, train=train, new=new), categorical=sheet.code)


def _label_among_numbers(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    """Write one number of a numeric column as 90+."""
    values = [None if v != v else v for v in sheet.train[sheet.number]]
    values[int(rng.integers(3, ROWS))] = str(rng.choice(["90+", "<5", "more than 80", "n.d.", "1O"]))
    return dataclasses.replace(sheet, train=sheet.train.assign(**{sheet.number: pd.Series(values, dtype=object)}))


def _label_in_target(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    """Write a number of the target as 3+; a target of classes gets a gap that became a string."""
    y = [str(v) for v in np.asarray(sheet.y)]
    y[int(rng.integers(ROWS))] = "nan" if sheet.classifies else "3+"
    return dataclasses.replace(sheet, y=y)


# -- names of columns ----------------------------------------------------------------------------------------------


def _renamed(table: pd.DataFrame, old: str, new: Any) -> pd.DataFrame:
    return table.set_axis([new if name == old else name for name in table.columns], axis=1)


def _duplicate(at: str) -> Callable[[Sheet, np.random.Generator], Sheet]:
    def change(sheet: Sheet, rng: np.random.Generator) -> Sheet:
        one, other = (str(name) for name in rng.permutation([sheet.two, sheet.several, sheet.number])[:2])
        if at == "both":
            train, new = _renamed(sheet.train, one, other), _renamed(sheet.new, one, other)
            settings = {k: [n for n in v if n != one] if k == "categorical" else v for k, v in sheet.settings.items()}
            return dataclasses.replace(sheet, train=train, new=new, settings=settings)
        if at == "new":
            return dataclasses.replace(sheet, new=pd.concat([sheet.new, sheet.new[[one]]], axis=1))
        train = sheet.with_column("1", rng.normal(size=ROWS), rng.normal(size=NEW_ROWS))
        train = train.with_column("2", rng.normal(size=ROWS), rng.normal(size=NEW_ROWS))
        names = {"1": 1, "2": "1"}  # different labels in pandas, the same name in a table
        return dataclasses.replace(train, train=train.train.rename(columns=names), new=train.new.rename(columns=names))

    return change


def _target_twice(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    return sheet.with_column(sheet.target, rng.normal(size=ROWS).round(2), rng.normal(size=NEW_ROWS).round(2))


# -- columns that count rows ---------------------------------------------------------------------------------------

_COUNTER_NAMES = ("rownames", "index", "id", "Unnamed: 0", "x", "case", "record_no", "obs", "sample", "number")


def _counter(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    name = str(rng.choice([n for n in _COUNTER_NAMES if n not in sheet.train]))
    count = np.arange(ROWS + NEW_ROWS)
    way = int(rng.integers(9))
    values: Any = [
        count, count + 1, count + 1001, np.append(rng.permutation(ROWS), count[ROWS:]) + 1,
        np.append(rng.permutation(ROWS), count[ROWS:]) + 5001, (count + 1).astype(str), [f"R{k}" for k in count],
        (count + 1).astype(float), np.cumsum(rng.integers(1, 3, len(count))),
    ][way]  # fmt: skip
    return sheet.with_column(name, values[:ROWS], values[ROWS:])


# -- columns that give the target away -----------------------------------------------------------------------------


def _later_values(values: Any, rng: np.random.Generator) -> Any:
    return rng.choice(np.asarray(values, object), NEW_ROWS)


def _copy(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    values = pd.Series(sheet.y)
    return sheet.with_column("outcome", values, _later_values(values, rng))


def _recoded(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    y = np.asarray(sheet.y)
    if sheet.classifies:
        levels, codes = np.unique(y, return_inverse=True)
        values = codes + 1 if rng.random() < 0.5 else np.array([f"result {k}" for k in range(len(levels))])[codes]
    else:
        values = 2.54 * y + 1 if rng.random() < 0.5 else np.log1p(y - y.min())
    return sheet.with_column("outcome", values, _later_values(values, rng))


def _near_copy(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    """Add a column with a little noise, or values of a class apart from those of the others."""
    codes = np.unique(sheet.y, return_inverse=True)[1] if sheet.classifies else np.asarray(sheet.y, float)
    scale = 0.1 if sheet.classifies else 0.002 * np.std(codes)
    values = codes + scale * rng.uniform(-1, 1, ROWS)
    return sheet.with_column("outcome", values, _later_values(values, rng))


def _known_for_one_class(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    """Add a column that is blank except in rows of one class; without two classes, a near copy."""
    labels = np.unique(sheet.y)
    if len(labels) != 2:
        return _near_copy(sheet, rng)
    values = np.where(np.asarray(sheet.y) == labels[1], rng.uniform(1, 20, ROWS).round(1), np.nan)
    return sheet.set(impute=True).with_column("boat", values, _later_values(values, rng).astype(float))


# -- targets that are missing or ambiguous -------------------------------------------------------------------------


def _missing_target(cells: tuple[Any, ...]) -> Callable[[Sheet, np.random.Generator], Sheet]:
    def change(sheet: Sheet, rng: np.random.Generator) -> Sheet:
        y: Any = list(np.asarray(sheet.y))
        for row in rng.permutation(ROWS)[: rng.integers(1, 4)]:
            y[row] = cells[int(rng.integers(len(cells)))]
        return dataclasses.replace(sheet, y=np.array(y) if len(cells) == 1 else y)

    return change


def _status(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    """Make a target of whole numbers, which may be classes, ratings or counts."""
    labels = [(0, 1, 2), (1, 2, 3), (0, 1, 2, 3, 4), (-1, 0, 1)][int(rng.integers(4))]
    y = rng.permutation(np.resize(labels, ROWS))
    return dataclasses.replace(sheet, y=y, likelihood="auto", side={})


# -- strings without a TableEncoder --------------------------------------------------------------------------------


def _raw(form: str) -> Callable[[Sheet, np.random.Generator], Sheet]:
    def change(sheet: Sheet, rng: np.random.Generator) -> Sheet:
        train = sheet.train.assign(remark=rng.choice(["good", "poor"], ROWS)).fillna(0)
        new = sheet.new.assign(remark="good")
        if form == "array":
            train, new = train.to_numpy(object), new.to_numpy(object)
        elif form == "strings":
            train, new = train.astype(str).to_numpy(str), new.astype(str).to_numpy(str)
        elif form == "list":
            train, new = train.to_numpy(object).tolist(), new.to_numpy(object).tolist()
        elif form in ("category", "dates"):
            kind = train[sheet.code].astype("category") if form == "category" else pd.Timestamp("2024-01-01")
            train, new = train[[sheet.number]].assign(c=kind), new[[sheet.number]].assign(c=1)
        elif form == "new rows":
            train = train.select_dtypes("number")
            new = new[train.columns].astype(object)
            new.iloc[0, 0] = "many"
        return dataclasses.replace(sheet, train=train, new=new, encode=False, model={})

    return change


# -- other columns at prediction -----------------------------------------------------------------------------------


def _at_prediction(what: str) -> Callable[[Sheet, np.random.Generator], Sheet]:
    def change(sheet: Sheet, rng: np.random.Generator) -> Sheet:
        new = sheet.new
        name = str(rng.choice([sheet.two, sheet.several, sheet.code, sheet.number]))
        changed = {
            "order": lambda: new[list(rng.permutation(new.columns))],
            "further": lambda: new.assign(remark="late", more=1.5)[["more", *new.columns, "remark"]],
            "missing": lambda: new.drop(columns=name),
            "renamed": lambda: new.rename(columns={name: str(rng.choice([name.upper(), f"{name}s", f"{name} 2"]))}),
            "text": lambda: _in_new_rows(sheet, sheet.number, ["high"]).new,
            "unit": lambda: new.assign(**{sheet.number: [f"{v} %" for v in new[sheet.number]]}),
            "hole": lambda: _in_new_rows(sheet, str(rng.choice([sheet.two, sheet.code])), [None]).new,
            "narrow": lambda: new.to_numpy(object)[:, 1:],
            "array": lambda: new.to_numpy(object),
        }[what]()
        return dataclasses.replace(sheet, new=changed)

    return change


# -- targets without information, and side information ------------------------------------------------------------


def _one_value(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    """Leave one class, or one value: zero for counts and amounts."""
    zero = sheet.likelihood in ("poisson", "tweedie")
    return dataclasses.replace(sheet, y=np.full(ROWS, 0 if zero else np.asarray(sheet.y)[0]))


def _no_information(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    """Leave no event, or one value."""
    if "event" in sheet.side:
        return dataclasses.replace(sheet, side={"event": np.zeros(ROWS, int)})
    return _one_value(sheet, rng)


def _side(sheet: Sheet, rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """Return the name and the values of the side information, or of a weight per row."""
    name = next(iter(sheet.side), "weight")
    return name, np.asarray(sheet.side.get(name, rng.integers(1, 4, ROWS).astype(float)), float)


def _given(sheet: Sheet, name: str, values: Any) -> Sheet:
    if name == "weight":
        return dataclasses.replace(sheet, weight=values)
    return dataclasses.replace(sheet, side={**sheet.side, name: values})


def _wrong_length(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    name, values = _side(sheet, rng)
    return _given(sheet, name, values[:-1] if rng.random() < 0.5 else np.append(values, 1.0))


def _wrong_values(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    name, values = _side(sheet, rng)
    spoilt = values.copy()
    spoilt[int(rng.integers(ROWS))] = rng.choice([-1.0, np.nan])
    return _given(sheet, name, values + 1 if name == "event" and rng.random() < 0.5 else spoilt)


def _left_among_columns(sheet: Sheet, rng: np.random.Generator) -> Sheet:
    """Pass the side information and leave its column in the table; pass the name of a column of weights."""
    name, values = _side(sheet, rng)
    if name == "weight":
        return dataclasses.replace(sheet, weight=name)
    return _given(sheet.with_column(name, values, _later_values(values, rng).astype(float)), name, values)


_EXPLAINED = "unseen categor"
_LABELS = "categorical|labels|holds numbers, but also|several units"
_COUNTS = "counts the rows|different whole number|whole numbers as strings|different text"
_LEAK = "determines the target|determines the class|same order as the target"
_NO_TARGET = "target .* is missing|contains NaN|contains infinity|holds infinity|NaN or None"
_STRINGS = "TableEncoder"
_COLUMNS = "lacks the column|held numbers|had no unit|missing values|features"

MISTAKES: dict[str, list[Variant]] = {
    "an unseen category of a column with two": _both(_unseen("two"), _EXPLAINED),
    "an unseen category of a column with several": _both(_unseen("several"), _EXPLAINED),
    "categories that look like numbers": [
        *(Variant("python", _as_type(kind), _LABELS) for kind in ("category", str, "string", "category of strings")),
        *_both(_top_label, _LABELS),
        *_both(_label_among_numbers, _LABELS),
        *_both(_label_in_target, r"3\+|NaN or None|is missing"),
    ],
    "two columns with one name": [
        *_both(_duplicate("both"), "named"),
        *_both(_duplicate("new"), "named"),
        *_both(_duplicate("text"), "named"),
        Variant("command", _target_twice, "named"),
    ],
    "a column that counts the rows": _both(_counter, _COUNTS),
    "a column that gives the target away": [
        v for change in (_copy, _recoded, _near_copy, _known_for_one_class) for v in _both(change, _LEAK)
    ],
    "a target that is missing or ambiguous": [
        Variant("python", _missing_target((None, np.nan)), _NO_TARGET),
        Variant("python", _missing_target((np.nan,)), _NO_TARGET),
        Variant("python", _missing_target((pd.NA, np.nan)), _NO_TARGET),
        Variant("command", _missing_target(("", "NA", "?")), _NO_TARGET),
        Variant("command", _status, "holds the whole numbers"),
    ],
    "strings without a TableEncoder": [
        Variant("python", _raw(form), _STRINGS)
        for form in ("frame", "array", "strings", "list", "category", "dates", "new rows")
    ],
    "other columns at prediction": [
        *(v for what in ("order", "further", "missing", "renamed", "text", "unit", "hole")
          for v in _both(_at_prediction(what), _COLUMNS)),
        *(Variant("python", _at_prediction(what), _COLUMNS) for what in ("narrow", "array")),
    ],
    "a target without information, or wrong side information": [
        Variant("python", _no_information, "one class|no event|All values|are 0|three labels"),
        Variant("command", _one_value, "only one class|same value in every row"),
        Variant("python", _wrong_length, "one for each|inconsistent|shape"),
        Variant("python", _wrong_values, "must hold|[Nn]egative|NaN|positive|infinite"),
        Variant("python", _left_among_columns, "repeats exposure|repeats event|sample_weight|weight"),
    ],
}  # fmt: skip
