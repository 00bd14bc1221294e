"""The design of a formula: table → numeric inputs of an estimator, and its terms with their parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from sitewise.errors import UserError
from sitewise.formula.expansion import Formula, columns_of
from sitewise.formula.expressions import labels_of, moments_of
from sitewise.formula.grammar import Name, names_in, parse_expression
from sitewise.formula.linear_columns import Coding
from sitewise.formula.part_terms import AreaColumn, Columns, LevelColumn, NumberColumn, ScaledColumn, build, codes
from sitewise.numerics.dense.whitening import whitening
from sitewise.parts import Constant, Graph, Linear, Part
from sitewise.tables.named_array import NamedArray
from sitewise.tables.table import Table, listed

PRIOR_SD = 10.0  # of the coefficients of whitened columns, and of the intercept
LINEAR, INTERCEPT = "linear", "intercept"
OFFSETS = "offset", "offset of the second function"  # columns of inputs, per function


@dataclasses.dataclass(frozen=True)
class FormulaTerm:
    """One term of a formula.

    Attributes
    ----------
    name : str
        The term as in the formula; "linear" for all linear terms together, "intercept".  A term of a second function
        begins with the parameter, as in "scale: s(x)".
    kind : str
        "linear", "intercept", "spline", "splines" (one per level), "season", "tensor", "map", "area", "series" or
        "levels".
    columns : tuple of str
        The names of the inputs that the term uses.
    parts : tuple of int
        The numbers of its parts in the kernel of its function.
    centred : bool
        Whether predictions of the term are relative to its average over the training rows.
    function : int
        1 for a term of a second function, the parameter of the likelihood that varies; otherwise 0.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    parts: tuple[int, ...]
    centred: bool
    function: int = 0


@dataclasses.dataclass
class Design:
    """The conversion of a table to inputs, learned by `learn`; plain data except for the formula.

    groups        levels per column of levels
    areas         names of the areas of a graph, per column
    dates         columns that are dates in the table
    """

    formula: Formula
    coding: Coding = dataclasses.field(default_factory=Coding)
    groups: dict[str, list[tuple[str, ...]]] = dataclasses.field(default_factory=dict)
    areas: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    dates: list[str] = dataclasses.field(default_factory=list)
    terms: list[FormulaTerm] = dataclasses.field(default_factory=list)
    columns: Columns = dataclasses.field(default_factory=dict)

    @property
    def coefficients(self) -> list[str]:
        """The names of the columns of the linear terms of the response."""
        return list(self.linear_columns(0))

    def linear_columns(self, function: int) -> tuple[str, ...]:
        """Return the names of the columns of the linear terms of a function."""
        return next((one.columns for one in self.terms_of(function) if one.kind == LINEAR), ())

    @property
    def before(self) -> tuple[str, ...]:
        """The beginning of the names of terms per function: empty, then for example "scale: "."""
        return ("", *(f"{one.response}: " for one in self.formula.functions[1:]))

    def terms_of(self, function: int) -> list[FormulaTerm]:
        """Return the terms of a function."""
        return [term for term in self.terms if term.function == function]

    def levels_by_column(self) -> dict[str, set[str]]:
        """Return the levels of the categories, groups and areas per column of the table."""
        found = {name: set(areas) for name, areas in self.areas.items()}
        for text, levels in self.coding.levels.items():
            for name in names_in(parse_expression(text)):
                found.setdefault(name, set()).update(levels)
        for key, column in self.columns.items():
            if isinstance(column, LevelColumn):
                for name, labels in zip(column.names, zip(*self.groups[key], strict=True), strict=True):
                    found.setdefault(name, set()).update(labels)
        return found

    def learn(
        self, table: Table, graphs: Mapping[str, Any], cut_points: bool = False
    ) -> tuple[NamedArray, list[list[Part]]]:
        """Learn levels and means from the training rows; return the inputs and the parts of the kernel per function.

        With `cut_points`, the likelihood has its own intercepts.
        """
        graphs = {name: self._graph(name, graph) for name, graph in graphs.items()}
        linear = self._linear(table, fitting=True)
        parts = [self._parts(number, own, table, graphs, cut_points) for number, own in enumerate(linear)]
        self.dates = [name for name in columns_of(self.formula) if table.dates(name) is not None]
        return self._inputs(table, linear, fitting=True), parts

    def _linear(self, table: Table, fitting: bool) -> list[dict[str, np.ndarray]]:
        """Return the columns of the linear terms per function."""
        return [self.coding.columns(one.linear, one.intercept, table, fitting) for one in self.formula.functions]

    def _parts(
        self, number: int, linear: dict[str, np.ndarray], table: Table, graphs: Mapping[str, Any], cut_points: bool
    ) -> list[Part]:
        """Return the parts of a function, and add its terms and columns."""
        formula, parts = self.formula.functions[number], list[Part]()
        before = self.before[number]
        if linear:
            values, weight = np.column_stack(list(linear.values())), self.coding.weight
            # The prior of the intercept is for the average row: at zero it would shrink the slope of a year.  With the
            # covariance of whitened columns the prior does not shrink products and powers of such columns either.
            centre = np.average(values, axis=0, weights=weight) * formula.intercept
            whitened = whitening(values, centre, weight)
            parts.append(Linear(tuple(linear), variance=PRIOR_SD**2, centre=centre, whitening=whitened, name=LINEAR))
            self.terms.append(FormulaTerm(before + LINEAR, LINEAR, tuple(linear), (0,), False, number))
        for special in formula.special:
            found = build(special, table, graphs)
            where = tuple(range(len(parts), len(parts) + len(found.parts)))
            name = f"{before}{special}"
            self.terms.append(FormulaTerm(name, found.kind, tuple(found.columns), where, found.centred, number))
            self.columns |= found.columns
            parts += found.parts
        if formula.intercept and not cut_points:
            self.terms.append(FormulaTerm(before + INTERCEPT, INTERCEPT, (), (len(parts),), False, number))
            parts.append(Constant(variance=PRIOR_SD**2, name=INTERCEPT))
        if not parts and number:
            raise UserError(f"The formula has no term of {formula.response}; write {formula.response} ~ 1.")
        if not parts:
            if cut_points:
                raise UserError("The formula has no term besides the cut points of the labels; add a column.")
            raise UserError(f"The formula has no term; add a column, or write {formula.response} ~ 1.")
        return parts

    def inputs(self, table: Table) -> NamedArray:
        """Return the inputs of new rows."""
        return self._inputs(table, self._linear(table, fitting=False), fitting=False)

    def _inputs(self, table: Table, linear: list[dict[str, np.ndarray]], fitting: bool) -> NamedArray:
        # Columns of the same name are equal: both functions share levels, means and standard deviations.
        found = {name: values for one in linear for name, values in one.items()}
        for name, column in self.columns.items():
            if isinstance(column, NumberColumn):
                found[name] = self.coding.numbers(column.node, table, fitting)
            elif isinstance(column, ScaledColumn):
                found[name] = self._scaled(name, column, table, fitting)
            elif isinstance(column, LevelColumn):
                found[name] = self._levels(name, column, table, fitting)
            else:
                found[name] = self._areas(column, table)
        for name, formula in zip(OFFSETS, self.formula.functions, strict=False):
            if formula.offsets:
                found[name] = np.sum([self.coding.numbers(node, table, fitting) for node in formula.offsets], axis=0)
        if not found:  # an intercept alone
            found[INTERCEPT] = np.zeros(table.rows)
        return NamedArray.of(np.column_stack(list(found.values())), tuple(found))

    def _scaled(self, name: str, column: ScaledColumn, table: Table, fitting: bool) -> np.ndarray:
        values = self.coding.numbers(column.node, table, fitting)
        if fitting:
            mean, spread = moments_of(values, self.coding.weight)
            if column.about_zero:
                spread = float(np.hypot(mean, spread))
            if spread == 0 and column.about_zero:
                raise UserError(f"{column.node} is zero in all rows, and cannot multiply a function; leave it out.")
            if spread == 0:
                raise UserError(f"{column.node} is constant, so that its slopes cannot vary by group; leave it out.")
            self.coding.moments[name] = mean * column.centred, spread
        mean, spread = self.coding.moments[name]
        return (values - mean) / spread

    def _levels(self, name: str, column: LevelColumn, table: Table, fitting: bool) -> np.ndarray:
        each = [labels_of(Name(one), table) for one in column.names]
        labels = list(zip(*each, strict=True))
        if fitting:
            self.groups[name] = sorted(set(labels))
            if len(self.groups[name]) < 2:
                raise UserError(f"The column {':'.join(column.names)} has only one level; it cannot be a group.")
        return codes(labels, self.groups[name])

    def _areas(self, column: AreaColumn, table: Table) -> np.ndarray:
        labels = labels_of(Name(column.name), table)
        known = {area: k for k, area in enumerate(self.areas[column.name])}
        new = dict.fromkeys(label for label in labels if label not in known)
        if new:
            raise UserError(f"The graph of {column.name!r} has no area {listed(new, 3)}; add it with its neighbours.")
        return np.array([known[label] for label in labels], float)

    def _graph(self, name: str, graph: Any) -> Graph:
        """Return the graph with numbered areas, and keep their names."""
        if hasattr(graph, "index") and hasattr(graph, "to_numpy"):  # a data frame of neighbours
            names, graph = [str(one) for one in graph.index], graph.to_numpy()
        elif isinstance(graph, Mapping):
            names = [str(one) for one in graph]
            number = {one: k for k, one in enumerate(names)}
            odd = [str(near) for each in graph.values() for near in each if str(near) not in number]
            if odd:
                raise UserError(f"graphs: {odd[0]!r} is a neighbour in the graph of {name!r}, but no area of it.")
            graph = {number[str(one)]: [number[str(near)] for near in each] for one, each in graph.items()}
        else:
            names = [str(k) for k in range(Graph.of(graph).areas)]
        self.areas[name] = names
        return Graph.of(graph)
