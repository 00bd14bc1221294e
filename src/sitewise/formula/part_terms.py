"""The parts of special terms: s(), te(), map(), area(), series() and groups → `sitewise.parts` with named columns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sitewise.errors import UserError
from sitewise.formula.expansion import Grouping, Special
from sitewise.formula.expressions import conversion, is_boolean, is_categorical, labels_of, numbers_of
from sitewise.formula.grammar import Call, Name, Node, Number, Text, names_in
from sitewise.parts import (
    Area,
    Levels,
    Map,
    Part,
    Season,
    Series,
    Spline,
    SplineLevels,
    Tensor,
    VaryingCoefficients,
    seasons,
)  # fmt: skip
from sitewise.parts.splines import MIN_VALUES
from sitewise.tables.table import Table
from sitewise.types import replace

PERIODS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.436875, "year": 365.2425}  # days
OPTIONS = {
    "s": ("k", "by", "period"), "te": ("k",), "map": ("sphere", "neighbours"), "area": ("model",),
    "series": ("by", "season"),
}  # fmt: skip


class NumberColumn(NamedTuple):
    """A column of numbers: an expression."""

    node: Node


class ScaledColumn(NamedTuple):
    """A column of numbers divided by its standard deviation, after its mean is subtracted if `centred`.

    It is divided by its root mean square if `about_zero`.
    """

    node: Node
    centred: bool
    about_zero: bool = False


class LevelColumn(NamedTuple):
    """A column of levels: combinations of one or several columns of the table."""

    names: tuple[str, ...]


class AreaColumn(NamedTuple):
    """A column of areas of a graph."""

    name: str


Column = NumberColumn | ScaledColumn | LevelColumn | AreaColumn
Columns = dict[str, Column]


class Built(NamedTuple):
    """The parts of a term, and the columns of inputs that they use by name.

    centred  whether the term is reported minus its average over the training rows
    """

    kind: str
    parts: tuple[Part, ...]
    columns: Columns
    centred: bool


def build(term: Special, table: Table, graphs: Mapping[str, Any]) -> Built:
    """Return the parts of a special term."""
    if isinstance(term, Grouping):
        return _grouping(term, table)
    unknown = [name for name, _ in term.options if name not in OPTIONS[term.function]]
    if unknown:
        known = ", ".join(f"{name}=" for name in OPTIONS[term.function])
        raise UserError(f"{term} has the option {unknown[0]}=, but {term.function}() has only {known}.")
    if not term.arguments:
        raise UserError(f"{term} names no column; write {EXAMPLES[term.function]}.")
    return BUILDERS[term.function](term, table, graphs)


EXAMPLES = {
    "s": "s(x)", "te": "te(x, z)", "map": "map(lon, lat)", "area": "area(district)", "series": "series(time)",
}  # fmt: skip


def _expressions(term: Call, least: int, most: int) -> list[Node]:
    if not least <= len(term.arguments) <= most:
        raise UserError(f"{term} has {len(term.arguments)} columns; write {EXAMPLES[term.function]}.")
    return list(term.arguments)


def _numbers(nodes: list[Node], table: Table, term: Call) -> tuple[Columns, tuple[str, ...]]:
    for node in nodes:
        if is_categorical(node, table):
            hint = conversion(dict.fromkeys(labels_of(node, table))) if isinstance(node, Name) else ""
            raise UserError(
                f"{term} needs numbers, but {node} holds categories; {hint or f'write (1 | {node}) for a group'}."
            )
    names = tuple(map(str, nodes))
    if len(set(names)) < len(names):
        raise UserError(f"{term} names the column {names[0]} twice.")
    return dict(zip(names, map(NumberColumn, nodes), strict=True)), names


def _whole(term: Call, name: str, least: int) -> int | None:
    node = dict(term.options).get(name)
    if node is None:
        return None
    if not isinstance(node, Number) or node.value != int(node.value) or node.value < least:
        raise UserError(f"{term}: {name}= must be a whole number of at least {least}.")
    return int(node.value)


def _by(term: Call, table: Table) -> tuple[str, Columns, bool] | None:
    """Return the name of the column of by=, its column, and whether its values are levels."""
    node = dict(term.options).get("by")
    if node is None:
        return None
    if isinstance(node, Call) and node.function == "C" and node.arguments:
        node = node.arguments[0]
        if isinstance(node, Name):
            return (*_levels((node.text,)), True)
    if not isinstance(node, Name):
        raise UserError(f"{term}: by= must be the name of a column.")
    if is_categorical(node, table):
        return (*_levels((node.text,)), True)
    # The priors of a function that multiplies the column are in units of f: the column has to have no unit.
    name = f"{node} of {term}"
    return name, {name: ScaledColumn(node, centred=False, about_zero=True)}, False


def _levels(names: tuple[str, ...]) -> tuple[str, Columns]:
    name = f"levels of {':'.join(names)}"
    return name, {name: LevelColumn(names)}


def _smooth(term: Call, table: Table, graphs: Mapping[str, Any]) -> Built:
    nodes = _expressions(term, 1, 2)
    if len(nodes) == 2:
        if dict(term.options).keys() & {"by", "period"}:
            raise UserError(f"{term}: by= and period= are for a function of one column.")
        return _tensor(term, table, graphs)
    columns, (name,) = _numbers(nodes, table, term)
    count, by = _whole(term, "k", 4), _by(term, table)
    period = dict(term.options).get("period")
    distinct = len(np.unique(numbers_of(nodes[0], table, {}, fitting=True)))
    if period is None and distinct < MIN_VALUES:
        raise UserError(
            f"{term} needs at least {MIN_VALUES} distinct values of {name}, and there are {distinct}; write {name} for "
            f"a linear effect, or C({name}) for one effect per value."
        )
    if period is not None:
        if by is not None or count is not None:
            raise UserError(f"{term}: a season takes period= alone.")
        return Built("season", (Season(name, period=_period(term, period, table), name=str(term)),), columns, True)
    given: dict[str, Any] = {"name": str(term)} if count is None else {"name": str(term), "count": count}
    if by is None:
        return Built("spline", (Spline(name, **given),), columns, True)
    column, more, levels = by
    if not levels and str(dict(term.options)["by"]) == name:
        raise UserError(f"{term}: by= must be another column than {name}.")
    kind: Any = SplineLevels if levels else Spline
    return Built("splines" if levels else "spline", (kind(name, by=column, **given),), {**columns, **more}, levels)


def _period(term: Call, node: Node, table: Table) -> float:
    if isinstance(node, Number) and node.value > 0:
        return node.value
    if isinstance(node, Text) and node.value in PERIODS:
        name = term.arguments[0]
        if isinstance(name, Name) and table.dates(name.text) is None:
            raise UserError(f"{term}: period={node} needs a column of dates; give the period as a number for {name}.")
        return PERIODS[node.value]
    raise UserError(f"{term}: period= must be a positive number, or for dates one of {', '.join(map(repr, PERIODS))}.")


def _tensor(term: Call, table: Table, graphs: Mapping[str, Any]) -> Built:
    columns, names = _numbers(_expressions(term, 2, 2), table, term)
    count = _whole(term, "k", 4)
    given: dict[str, Any] = {} if count is None else {"count": count}
    return Built("tensor", (Tensor(names, name=str(term), **given),), columns, True)


def _map(term: Call, table: Table, graphs: Mapping[str, Any]) -> Built:
    columns, names = _numbers(_expressions(term, 2, 3), table, term)
    count = _whole(term, "neighbours", 1)
    sphere = dict(term.options).get("sphere")
    if sphere is not None and not (isinstance(sphere, Name) and sphere.text in ("True", "False", "TRUE", "FALSE")):
        raise UserError(f"{term}: sphere= must be True or False.")
    given: dict[str, Any] = {} if count is None else {"neighbours": count}
    round_earth = isinstance(sphere, Name) and sphere.text.lower() == "true"
    if round_earth and len(names) != 2:
        raise UserError(f"{term}: sphere=True takes two columns, longitude and latitude in degrees.")
    return Built("map", (Map(names, sphere=round_earth, name=str(term), **given),), columns, True)


def _series(term: Call, table: Table, graphs: Mapping[str, Any]) -> Built:
    nodes = _expressions(term, 1, 1)
    columns, (name,) = _numbers(nodes, table, term)
    by = _by(term, table)
    if by is None:
        return Built("series", (Series(name, name=str(term)), *_seasons(term, table, None)), columns, True)
    column, more, levels = by
    if not levels:  # numbers name the series
        column, more = _levels((str(dict(term.options)["by"]).strip("`"),))
    (own,) = (one.names for one in more.values() if isinstance(one, LevelColumn))
    parts = (Series(name, by=column, name=str(term)), *_seasons(term, table, own))
    return Built("series", parts, {**columns, **more}, True)


def _seasons(term: Call, table: Table, by: tuple[str, ...] | None) -> list[Season]:
    """Return the parts of season=: "day", "week" or "year" for dates, or a period; all series share them."""
    node = dict(term.options).get("season")
    if node is None:
        return []
    if not isinstance(node, Number | Text):
        raise UserError(f"{term}: season= must be 'day', 'week', 'year' or a number.")
    (time,) = term.arguments
    dates = isinstance(time, Name) and table.dates(time.text) is not None
    names = [np.array(list(zip(*(table.text(one) for one in by), strict=True)), str)] if by is not None else []
    series = [np.unique(each, axis=0, return_inverse=True)[1].reshape(-1) for each in names]
    times, day = numbers_of(time, table, {}, fitting=True), 1.0 if dates else None
    try:
        found = seasons(str(time), node.value, times, day=day, series=series[0] if series else None)
    except ValueError as error:
        raise UserError(f"{term}: {error}") from None
    return [replace(part, name=f"{term}: {part.name}") for part in found]


def _area(term: Call, table: Table, graphs: Mapping[str, Any]) -> Built:
    (node,) = _expressions(term, 1, 1)
    if not isinstance(node, Name):
        raise UserError(f"{term} needs the name of a column.")
    if node.text not in graphs:
        raise UserError(f"{term} needs the neighbours of every area: give graphs={{{node.text!r}: {{area: [areas]}}}}.")
    model = dict(term.options).get("model", Text("bym2"))
    if not isinstance(model, Text) or model.value not in ("bym2", "icar"):
        raise UserError(f"{term}: model= must be 'bym2' or 'icar'.")
    name = f"area of {node.text}"
    part = Area(name, graph=graphs[node.text], model=model.value, name=str(term))
    return Built("area", (part,), {name: AreaColumn(node.text)}, False)


BUILDERS: dict[str, Any] = {"s": _smooth, "te": _tensor, "map": _map, "series": _series, "area": _area}


def _grouping(term: Grouping, table: Table) -> Built:
    group, columns = _levels(tuple(name.text for name in term.group))
    correlated = term.correlated and len(term.linear) + term.intercept > 1
    slopes = []
    for product in term.linear:
        if len(product) != 1:
            raise UserError(f"{term} multiplies columns; write I(a*b) for the product of two numbers.")
        if is_categorical(product[0], table) and not is_boolean(product[0], table):
            group, column = ":".join(map(str, term.group)), names_in(product[0])[0]
            if column in [name.text for name in term.group]:
                raise UserError(f"{term}: effects of {column} cannot vary by {column} itself; write (1 | {group}).")
            raise UserError(
                f"{term}: {product[0]} holds categories, and slopes are for numbers; write (1 | {group}) + "
                f"(1 | {group}:{column}) for an effect of every combination."
            )
        slopes.append(f"{product[0]} of {term}")
        columns[slopes[-1]] = ScaledColumn(product[0], correlated and term.intercept)
    if correlated:
        part = VaryingCoefficients(group, slopes=tuple(slopes), intercept=term.intercept, name=str(term))
        return Built("levels", (part,), columns, False)
    parts = [Levels(group, name=str(term))] if term.intercept else []
    parts += [Levels(group, slope=slope, name=str(term) if not parts else slope) for slope in slopes]
    return Built("levels", tuple(parts), columns, False)


def codes(labels: list[tuple[str, ...]], known: list[tuple[str, ...]]) -> np.ndarray:
    """Return numbers of levels from 0; levels that are not known have −1, −2, …, the same for the same level."""
    number = {level: k for k, level in enumerate(known)}
    new: dict[tuple[str, ...], int] = {}
    out = [number[one] if one in number else new.setdefault(one, -1 - len(new)) for one in labels]
    _warn_of_spellings(list(new), known)
    return np.array(out, float)


def _warn_of_spellings(new: list[tuple[str, ...]], known: list[tuple[str, ...]]) -> None:
    """Warn of new levels that differ from a known one only in the format of a number or in capital letters."""
    alike = {tuple(map(_plain, level)): level for level in known} if new else {}
    for level in new:
        if (same := alike.get(tuple(map(_plain, level)))) is not None:
            warnings.warn(
                f"The level {':'.join(level)!r} of a group is predicted as a new level, although the fit has "
                f"{':'.join(same)!r}; write both alike if they are the same.",
                stacklevel=2,
            )
            return


def _plain(label: str) -> str:
    try:
        if label.isdecimal():
            return str(int(label))
        return f"{float(label):.12g}"
    except ValueError:
        return label.casefold()
