"""Describe the inputs of a fitted formula as expressions of the columns of a table, for `sitewise.export`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from sitewise.errors import UserError
from sitewise.estimators.exporting import Tree, categories, numbers, step
from sitewise.formula.design import OFFSETS, Design
from sitewise.formula.expressions import CENTRED
from sitewise.formula.grammar import Binary, Call, Minus, Name, Node, Number, Text, names_in
from sitewise.formula.part_terms import AreaColumn, Column, LevelColumn, NumberColumn

OPERATORS: dict[str, Callable[[Tree, Tree], Tree]] = {
    "+": lambda a, b: ["add", a, b], "-": lambda a, b: ["add", a, _negative(b)], "*": lambda a, b: ["multiply", a, b],
    "/": lambda a, b: ["divide", a, b], "^": lambda a, b: ["power", a, b], "<": lambda a, b: ["less", a, b],
    ">": lambda a, b: ["less", b, a], "<=": lambda a, b: ["less_equal", a, b], ">=": lambda a, b: ["less_equal", b, a],
    "==": lambda a, b: ["equal", a, b], "!=": lambda a, b: ["add", 1.0, _negative(["equal", a, b])],
}  # fmt: skip
PER_BASE = {"log2": 2.0, "log10": 10.0}


def _negative(tree: Tree) -> Tree:
    return ["multiply", -1.0, tree]


def exported_inputs(design: Design) -> dict[str, Any]:
    """Return the step from a table to the inputs of the estimator (`Design.inputs`)."""
    return _Inputs(design).step()


class _Inputs:
    """The columns of the table that are read, and the inputs as expressions of them."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.read: dict[str, tuple[int, dict[str, Any]]] = {}

    def step(self) -> dict[str, Any]:
        design, found = self.design, dict[str, Tree]()
        for formula in design.formula.functions:
            for name, factors in design.coding.products(formula.linear, formula.intercept).items():
                trees = [self._factor(node, level) for node, level in factors]
                found[name] = functools.reduce(OPERATORS["*"], trees)
        for name, column in design.columns.items():
            found[name] = self._input(name, column)
        for name, formula in zip(OFFSETS, design.formula.functions, strict=False):
            if formula.offsets:
                found[name] = functools.reduce(OPERATORS["+"], map(self._number, formula.offsets))
        if not self.read:
            raise UserError("export holds no formulas without columns, whose prediction is one number; use model.save.")
        return step([description for _, description in self.read.values()], list(found.values()))

    def _column(self, key: str, description: dict[str, Any]) -> Tree:
        """Return the number of a column that is read."""
        return self.read.setdefault(key, (len(self.read), description))[0]

    def _factor(self, node: Node, level: str | None) -> Tree:
        """Return a factor of a linear term: an expression, or the indicator of a level."""
        if level is None:
            return self._number(node)
        levels = self.design.coding.levels[str(node)]
        column = self._levels(f"levels of {node}", names_in(node), [(one,) for one in levels], None)
        return ["equal", column, float(levels.index(level))]

    def _levels(
        self, key: str, names: Sequence[str], levels: Sequence[Sequence[str]], unseen: float | None = -1.0
    ) -> Tree:
        """Return the number of the level of columns of categories; UserError if the levels are dates."""
        if dates := [name for name in names if name in self.design.dates]:
            raise UserError(f"export holds no groups or categories that are dates, as in {dates[0]!r}; use model.save.")
        return self._column(key, categories(names, levels, unseen, unseen is None))

    def _input(self, name: str, column: Column) -> Tree:
        if isinstance(column, NumberColumn):
            return self._number(column.node)
        if isinstance(column, LevelColumn):
            return self._levels(name, column.names, self.design.groups[name])
        if isinstance(column, AreaColumn):
            return self._levels(name, [column.name], [(area,) for area in self.design.areas[column.name]], None)
        mean, spread = self.design.coding.moments[name]
        return ["divide", ["add", self._number(column.node), -mean], spread]

    def _number(self, node: Node) -> Tree:
        """Return an expression of numbers (`expressions.numbers_of`)."""
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Name):
            return self._column(f"numbers of {node}", numbers(node.text, dates=node.text in self.design.dates))
        if isinstance(node, Minus):
            return _negative(self._number(node.of))
        if isinstance(node, Binary):
            if isinstance(node.right, Text) and isinstance(node.left, Name):
                column = self._levels(f"{node.left} == {node.right}", [node.left.text], [(node.right.value,)])
                return OPERATORS[node.operator](column, 0.0)
            return OPERATORS[node.operator](self._number(node.left), self._number(node.right))
        assert isinstance(node, Call)
        inner = self._number(node.arguments[0])
        if node.function in CENTRED:
            mean, spread = self.design.coding.moments[str(node)]
            return ["divide", ["add", inner, -mean], spread if node.function == "scale" else 1.0]
        if node.function in PER_BASE:
            return ["divide", ["log", inner], ["log", PER_BASE[node.function]]]
        return inner if node.function == "I" else [node.function, inner]
