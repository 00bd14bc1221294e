"""Evaluate expressions of columns by a fixed list of functions: log(x), I(x^2), scale(x), …  No code is evaluated."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from sitewise.errors import UserError
from sitewise.formula.grammar import Binary, Call, Minus, Name, Node, Number, Text
from sitewise.tables.cells import parse_number
from sitewise.tables.dates import ORDERS, parse_date
from sitewise.tables.table import Table, listed

FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "exp": np.exp, "expm1": np.expm1,
    "sqrt": np.sqrt, "abs": np.abs, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "floor": np.floor, "I": np.asarray,
}  # fmt: skip
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": operator.pow,
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
CENTRED = ("scale", "center")  # depend on the mean of the training rows
CATEGORICAL = ("C", "factor")
KNOWN = (*FUNCTIONS, *CENTRED, *CATEGORICAL)
DAY = np.timedelta64(86_400, "s")
Moments = dict[str, tuple[float, float]]


def is_categorical(node: Node, table: Table) -> bool:
    """Return whether the expression is a column of categories, by its type or by C()."""
    if isinstance(node, Call) and node.function in CATEGORICAL:
        return True
    if not isinstance(node, Name):
        return False
    refuse_problems(table, node.text)
    return table.column(node.text).dtype.kind == "O"


def is_boolean(node: Node, table: Table) -> bool:
    """Return whether the expression is a column of true and false."""
    return isinstance(node, Name) and set(table.column(node.text).tolist()) <= {"True", "False", None}


def moments_of(values: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    """Return mean and standard deviation of training rows; a row of weight 2 is two rows."""
    values = values if weight is None else np.broadcast_to(values, weight.shape)
    mean = np.average(values, weights=weight)
    return float(mean), float(np.sqrt(np.average((values - mean) ** 2, weights=weight)))


def numbers_of(
    node: Node, table: Table, moments: Moments, fitting: bool = False, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return the values of an expression per row.

    Means and standard deviations of scale() and center(), of rows with these weights, are kept in `moments` when
    `fitting`.  A date is its number of days since 1970.
    """
    with np.errstate(all="ignore"):
        values = _value(node, table, moments, fitting, weight)
    values = np.broadcast_to(np.asarray(values, float), (table.rows,))
    odd = np.flatnonzero(~np.isfinite(values))
    if len(odd):
        inputs = f"of {node} " if not isinstance(node, Name) else ""
        raise UserError(
            f"The value {inputs}is not finite in row {table.lines[odd[0]]}{_of_column(node)}; remove the row, or "
            "change the expression."
        )
    return np.array(values)


def _of_column(node: Node) -> str:
    return f" of the column {node.text!r}" if isinstance(node, Name) else ""


def _value(node: Node, table: Table, moments: Moments, fitting: bool, weight: np.ndarray | None) -> Any:
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Name):
        return column_numbers(table, node.text)
    if isinstance(node, Minus):
        return -_value(node.of, table, moments, fitting, weight)
    if isinstance(node, Text):
        raise UserError(f"{node} in quotes is not a number; write the name of a column without quotes or in backticks.")
    if isinstance(node, Binary):
        return _of_binary(node, table, moments, fitting, weight)
    if node.function not in KNOWN:
        raise UserError(f"There is no function {node.function}() in formulas; there are {', '.join(KNOWN)}.")
    if len(node.arguments) != 1 or (node.options and node.function not in CATEGORICAL):
        raise UserError(f"{node} takes one column or expression, as in {node.function}(x).")
    if node.function in CATEGORICAL:
        raise UserError(f"{node} is a category, where a number is needed; write the column without {node.function}().")
    inner = np.asarray(_value(node.arguments[0], table, moments, fitting, weight), float)
    if node.function in CENTRED:
        return _centred(node, inner, moments, fitting, weight)
    return FUNCTIONS[node.function](inner)


def _of_binary(node: Binary, table: Table, moments: Moments, fitting: bool, weight: np.ndarray | None) -> Any:
    if node.operator not in OPERATORS:
        raise UserError(f"{node} cannot be computed; expressions have + - * / ^ and comparisons.")
    if node.operator in ("==", "!=") and isinstance(node.right, Text) and isinstance(node.left, Name):
        return np.asarray(OPERATORS[node.operator](labels_of(node.left, table), node.right.value), float)
    sides = (_value(side, table, moments, fitting, weight) for side in (node.left, node.right))
    return np.asarray(OPERATORS[node.operator](*sides), float)  # sums of comparisons count, as in R


def _centred(node: Call, inner: np.ndarray, moments: Moments, fitting: bool, weight: np.ndarray | None) -> np.ndarray:
    if fitting:
        mean, spread = moments_of(inner, weight)
        moments[str(node)] = mean, spread or 1.0
    mean, spread = moments[str(node)]
    return (inner - mean) / (spread if node.function == "scale" else 1.0)


def column_numbers(table: Table, name: str) -> np.ndarray:
    """Return a column of numbers or dates; UserError for categories and missing values."""
    values = table.column(name)
    refuse_problems(table, name)
    refuse_missing(table, name)
    if values.dtype.kind == "M":
        return (values - np.datetime64(0, "s")) / DAY
    if values.dtype.kind == "O":
        seen = dict.fromkeys(values.tolist())
        if set(seen) <= {"True", "False"}:
            return (values == "True").astype(float)
        instead = f"a category can be a term of its own, or a group, as in (1 | {Name(name)})"
        raise UserError(
            f"The column {name!r} holds categories ({listed(seen, 3)}), where numbers are needed; "
            f"{conversion(seen) or instead}."
        )
    return values


def conversion(texts: Collection[str]) -> str:
    """Return how to convert strings that are all numbers or all dates; empty for other strings."""
    if all(any(parse_date(text, order) for order in ORDERS) for text in texts):
        return "convert the strings to dates, as pandas.to_datetime does"
    return "convert the strings to numbers, as pandas.to_numeric does" if are_numbers(texts) else ""


def are_numbers(texts: Collection[str]) -> bool:
    """Return whether all strings are numbers."""
    return all(parse_number(text, ".") is not None for text in texts)


def labels_of(node: Name | Call, table: Table) -> np.ndarray:
    """Return a column as categories: strings per row."""
    name = _column_of(node)
    refuse_missing(table, name)
    return table.text(name)


def _column_of(node: Name | Call) -> str:
    if isinstance(node, Name):
        return node.text
    if len(node.arguments) != 1 or not isinstance(node.arguments[0], Name):
        raise UserError(f"{node} takes the name of one column, as in C(x).")
    return node.arguments[0].text


def refuse_problems(table: Table, name: str) -> None:
    """Raise UserError if the reading of the column is open, such as durations, or numbers mixed with other strings."""
    for problem in table.problems:
        if name in problem.columns:
            raise UserError(f"{problem.what.removesuffix(', or')}.")


def refuse_missing(table: Table, name: str) -> None:
    """Raise UserError if the column has missing values."""
    gone = np.flatnonzero(table.missing(name))
    if len(gone):
        others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise UserError(
            f"The column {name!r} is missing in row {table.lines[gone[0]]}{others}; remove or impute these rows first."
        )
