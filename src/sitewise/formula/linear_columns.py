"""Columns of the linear terms: categories by treatment coding, products of columns.

The columns span the same functions as products with all indicators, without redundancy (as in patsy): a product of
categories spans every subset of its factors in treatment coding, without the first level.  Subsets that an earlier term
spans are left out, and subsets {S, S ∪ {c}} become the one product of S with all levels of c.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from sitewise.errors import UserError
from sitewise.formula.expansion import Product
from sitewise.formula.expressions import Moments, is_categorical, labels_of, numbers_of
from sitewise.formula.grammar import Call, Name, Node, Number, Text
from sitewise.numerics.dense.dependence import dependent_columns
from sitewise.tables.table import Table, listed

MAX_LINEAR_LEVELS = 200  # of a category in a linear term


@dataclasses.dataclass
class Coding:
    """What the training rows determine about the columns: plain data.

    levels   categories per expression, the reference first
    moments  mean and standard deviation of scale() and center()
    weight   weights of the training rows while these are learned; None for equal weights
    """

    levels: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    moments: Moments = dataclasses.field(default_factory=dict)
    weight: np.ndarray | None = None

    def numbers(self, node: Node, table: Table, fitting: bool = False) -> np.ndarray:
        return numbers_of(node, table, self.moments, fitting, self.weight)

    def columns(
        self, terms: Sequence[Product], intercept: bool, table: Table, fitting: bool = False
    ) -> dict[str, np.ndarray]:
        """Return the columns of the terms by their names."""
        labels = {node: self._labels(node, table, fitting) for term in terms for node in term}

        def values(node: Node, level: str | None) -> np.ndarray:
            return self.numbers(node, table, fitting) if level is None else np.asarray(labels[node] == level, float)

        return {
            name: np.prod([np.ones(table.rows), *(values(*factor) for factor in factors)], axis=0)
            for name, factors in self.products(terms, intercept).items()
        }

    def _labels(self, node: Node, table: Table, fitting: bool) -> np.ndarray | None:
        """Return a column of categories, and learn its levels; None for numbers."""
        if not (is_categorical(node, table) if fitting else str(node) in self.levels):
            return None
        assert isinstance(node, Name | Call)
        labels = labels_of(node, table)
        if fitting:
            self.levels[str(node)] = _levels(node, labels, table)
        new = dict.fromkeys(label for label in labels if label not in self.levels[str(node)])
        if new:
            column = node if isinstance(node, Name) else node.arguments[0]
            raise UserError(
                f"{node} has levels that the fit did not have ({listed(new, 3)}); a group (1 | {column}) predicts new "
                "levels."
            )
        return labels

    def products(self, terms: Sequence[Product], intercept: bool) -> dict[str, list[tuple[Node, str | None]]]:
        """Return the factors of every column: an expression with None, or a category with a level."""
        out: dict[str, list[tuple[Node, str | None]]] = {}
        spanned: set[tuple[frozenset[Node], frozenset[Node]]] = {(frozenset(), frozenset())} if intercept else set()
        for term in terms:
            categories = [node for node in term if str(node) in self.levels]
            numeric = frozenset(term) - frozenset(categories)
            subsets = [
                frozenset(chosen)
                for count in range(len(categories) + 1)
                for chosen in itertools.combinations(categories, count)
                if (numeric, frozenset(chosen)) not in spanned
            ]
            spanned |= {(numeric, subset) for subset in subsets}
            for coded in _merged([dict.fromkeys(subset, False) for subset in subsets]):
                used = [node for node in term if node in numeric or node in coded]
                for factors in itertools.product(*(self._levels_of(node, coded.get(node)) for node in used)):
                    name = ":".join(f"{node}" if level is None else f"{node}[{level}]" for node, level in factors)
                    out[name or "1"] = list(factors)
        return out

    def _levels_of(self, node: Node, whole: bool | None) -> list[tuple[Node, str | None]]:
        """Return the columns of a factor: all levels if `whole`, all but the first if not, numbers if None."""
        if whole is None:
            return [(node, None)]
        return [(node, level) for level in self.levels[str(node)][0 if whole else 1 :]]


def _merged(subsets: list[dict[Node, bool]]) -> list[dict[Node, bool]]:
    """Join subsets of factors that differ by one factor in treatment coding; True is a factor with all levels."""
    for small, large in itertools.permutations(subsets, 2):
        more = large.keys() - small.keys()
        if len(more) == 1 and small.items() <= large.items():
            rest = [one for one in subsets if one is not small and one is not large]
            return _merged([*rest, {**large, more.pop(): True}])
    return subsets


def dependent(columns: dict[str, np.ndarray], intercept: bool) -> list[str]:
    """Return the columns that are linear combinations of the intercept and the columns before them."""
    if not columns:
        return []
    table = np.column_stack([np.ones(len(next(iter(columns.values()))))] * intercept + list(columns.values()))
    names = [""] * intercept + list(columns)
    return [name for name, odd in zip(names, dependent_columns(table), strict=True) if odd and name]


def ordered(node: Name | Call, labels: np.ndarray, table: Table) -> list[str]:
    """Return the levels that occur, in the order that the type of the column declares, else sorted."""
    name = node.text if isinstance(node, Name) else str(node.arguments[0]).strip("`")
    present = set(labels)
    declared = table.orders.get(name)
    return sorted(present, key=_order) if declared is None else [level for level in declared if level in present]


def _levels(node: Name | Call, labels: np.ndarray, table: Table) -> list[str]:
    """Return the levels in their order, the reference level first."""
    levels = ordered(node, labels, table)
    if len(levels) < 2:
        raise UserError(f"{node} has the same level {levels[0]!r} in all rows; leave it out.")
    if len(levels) > MAX_LINEAR_LEVELS:
        name = node if isinstance(node, Name) else node.arguments[0]
        raise UserError(
            f"{node} has {len(levels)} levels, too many for one coefficient per level; write (1 | {name}) for a group."
        )
    options = dict(node.options) if isinstance(node, Call) else {}
    first = options.pop("ref", None)
    if options:
        raise UserError(f"{node} has the option {next(iter(options))}=, but C() has only ref=, as in C(x, ref='a').")
    if first is None:
        return levels
    wanted = first.value if isinstance(first, Text) else str(first) if isinstance(first, Number | Name) else ""
    if wanted not in levels:
        raise UserError(f"{node}: there is no level {wanted!r}; the levels are {listed(levels)}.")
    return [wanted, *(level for level in levels if level != wanted)]


def _order(label: str) -> tuple[int, float, str]:
    """Sort numbers by their size, before other labels."""
    try:
        return 0, float(label), label
    except ValueError:
        return 1, 0.0, label
