"""The content of a model file of a fitted formula: plain data around the fitted estimator (`estimators.model_file`)."""

from __future__ import annotations

import dataclasses
from typing import Any

from sitewise.formula.design import Design, FormulaTerm
from sitewise.formula.expansion import Formula
from sitewise.formula.grammar import parse_expression
from sitewise.formula.linear_columns import Coding
from sitewise.formula.part_terms import AreaColumn, Column, LevelColumn, NumberColumn, ScaledColumn


class StoredFormula:
    """A fitted formula in plain data: `state`, and the estimator `inner`."""

    def __init__(self, state: dict[str, Any], inner: Any) -> None:
        self.state, self.inner = state, inner

    @staticmethod
    def of(design: Design, inner: Any, more: dict[str, Any]) -> StoredFormula:
        """Return the stored form of a design and an estimator; `more` is plain data."""
        learned = {
            "formula": design.formula.text, "levels": design.coding.levels, "moments": design.coding.moments,
            "groups": design.groups, "areas": design.areas, "dates": design.dates,
            "terms": [dataclasses.astuple(term) for term in design.terms],
            "columns": {name: _plain(column) for name, column in design.columns.items()},
        }  # fmt: skip
        return StoredFormula({**learned, "more": more}, inner)

    @staticmethod
    def restored(state: dict[str, Any], inner: Any) -> StoredFormula:
        """Return the content of a file."""
        return StoredFormula(state, inner)

    def design(self) -> Design:
        """Return the design."""
        state = self.state
        return Design(
            Formula.of(state["formula"]), coding=Coding(state["levels"], state["moments"]),
            groups=state["groups"], areas=state["areas"], dates=state["dates"],
            terms=[FormulaTerm(*term) for term in state["terms"]],
            columns={name: _column(plain) for name, plain in state["columns"].items()},
        )  # fmt: skip


def _plain(column: Column) -> list[Any]:
    if isinstance(column, NumberColumn):
        return ["number", str(column.node)]
    if isinstance(column, ScaledColumn):
        return ["scaled", str(column.node), column.centred, column.about_zero]
    return ["levels", *column.names] if isinstance(column, LevelColumn) else ["area", column.name]


def _column(plain: list[Any]) -> Column:
    kind, *rest = plain
    if kind == "number":
        return NumberColumn(parse_expression(rest[0]))
    if kind == "scaled":
        return ScaledColumn(parse_expression(rest[0]), bool(rest[1]), about_zero=len(rest) > 2 and bool(rest[2]))
    return LevelColumn(tuple(rest)) if kind == "levels" else AreaColumn(rest[0])
