"""The columns of a fitted formula for displays and forecasts: names of levels, dates, and inputs of new tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sitewise.estimators.fitted_estimator import FittedEstimator
from sitewise.explain.table_columns import Explained, TableColumn, affine
from sitewise.formula.design import Design
from sitewise.formula.grammar import Name
from sitewise.formula.part_terms import AreaColumn, LevelColumn, NumberColumn, ScaledColumn
from sitewise.tables.table import Table, table_of


class FormulaInputs:
    """The step from a table to the inputs of the estimator, as the steps of a Pipeline before its estimator."""

    def __init__(self, design: Design) -> None:
        self.design = design

    def transform(self, new: Any) -> np.ndarray:
        table = new if isinstance(new, Table) else table_of(new, "the new table")
        return np.asarray(self.design.inputs(table))


def explained_formula(
    design: Design, estimator: FittedEstimator, side: Callable[[Any, dict[str, Any]], dict[str, Any]] | None = None
) -> Explained:
    """Return the estimator of a fitted formula with the columns of its inputs."""
    names = estimator._given_names()
    columns = [_column(design, name, place) for place, name in enumerate(names)]
    return Explained(estimator, columns, names, FormulaInputs(design), target=str(design.formula.response), side=side)


def _column(design: Design, name: str, place: int) -> TableColumn:
    found = design.columns.get(name)
    if isinstance(found, LevelColumn):
        labels = [":".join(level) for level in design.groups[name]]
        return _levels(":".join(found.names), place, labels)
    if isinstance(found, AreaColumn):
        return _levels(found.name, place, design.areas[found.name])
    if isinstance(found, ScaledColumn):
        mean, spread = design.coding.moments[name]
        return TableColumn(
            str(found.node), (place,), back=affine(spread, mean), forth=affine(1 / spread, -mean / spread)
        )
    dated = isinstance(found, NumberColumn) and isinstance(found.node, Name) and found.node.text in design.dates
    return TableColumn(name, (place,), dates=dated)


def _levels(name: str, place: int, labels: list[str]) -> TableColumn:
    return TableColumn(name, (place,), np.array(labels, object), np.arange(float(len(labels)))[:, None])
