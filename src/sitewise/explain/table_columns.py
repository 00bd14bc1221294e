"""The columns of the user's table in an explanation: names, levels and units, also before the steps of a Pipeline.

An estimator at the end of a Pipeline sees encoded columns.  Explanations are about the columns of the table: a
categorical column is varied over its categories, with all of its 0/1 columns at once, a group over its levels by name,
and a number in the units of the table.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sitewise.explain.fitted_model import Fitted, number_of
from sitewise.tables import Recipe
from sitewise.tables.columns import Column, Group, Levels
from sitewise.tables.table import Table

DAY_SECONDS = 86_400.0
# Explanations of models with two functions per row, and of formulas with a second one for a parameter.
OF_TWO_FUNCTIONS = "effect", "importance", "interaction"
OF_BOTH_FORMULAS = (
    *OF_TWO_FUNCTIONS, "EffectDisplay", "term_effects", "TermsDisplay", "MapDisplay", "forecast", "ForecastDisplay",
)  # fmt: skip
Convert = Callable[[np.ndarray], np.ndarray]


def _same(values: np.ndarray) -> np.ndarray:
    return values


class TableColumn(NamedTuple):
    """One column of the table, or one part of a date.

    places   the columns of the estimator's inputs that encode it
    levels   the names of its categories or groups (numbers if groups are numbers); None for a column of numbers
    codes    the encoding of every level, shape (levels, places)
    back     converts encoded numbers to the units of the table
    forth    converts numbers in the units of the table to encoded numbers
    dates    whether the numbers are days since 1970 of a column of dates
    """

    name: str
    places: tuple[int, ...]
    levels: np.ndarray | None = None
    codes: np.ndarray | None = None
    back: Convert = _same
    forth: Convert = _same
    dates: bool = False

    @property
    def named(self) -> bool:
        """Whether the levels are names and not numbers."""
        return self.levels is not None and self.levels.dtype.kind != "f"

    def shown(self, values: np.ndarray) -> np.ndarray:
        """Return numbers as they are, and days since 1970 as dates to the second."""
        if not self.dates:
            return values
        return np.round(np.asarray(values, float) * DAY_SECONDS).astype("datetime64[s]")

    def numbered(self, values: Any) -> np.ndarray:
        """Return numbers as they are, and dates as days since 1970."""
        given = np.asarray(values)
        if not self.dates or given.dtype.kind in "fiu":
            return np.asarray(given, float)
        return given.astype("datetime64[s]").astype(float) / DAY_SECONDS


class Explained(NamedTuple):
    """A fitted estimator with the columns of the table, and the steps before it in a Pipeline, or None.

    `features` are the names of the estimator's inputs.  `is_table` is False if the columns are these inputs because a
    step in between, such as PCA, has no inverse column by column.  `target` is the name of the response.  `side` adds
    the side information of a table, such as exposure or trials, to the given one, if the model knows its columns.
    """

    model: Fitted
    columns: list[TableColumn]
    features: list[str]
    before: Any = None
    is_table: bool = True
    target: str = "y"
    side: Callable[[Any, dict[str, Any]], dict[str, Any]] | None = None

    def inputs(self, X: Any) -> Any:
        """Return the estimator's inputs for rows of the table; None stays None."""
        return X if X is None or self.before is None else self.before.transform(X)

    def number(self, feature: Any) -> int:
        """Return the number of a column, given its name or number."""
        return number_of(feature, [column.name for column in self.columns])

    def column(self, feature: Any) -> TableColumn:
        """Return a column, given its name or number."""
        return self.columns[self.number(feature)]


def parts_of(model: Any, what: str) -> tuple[Fitted, Any]:
    """Return the estimator, and the preceding steps of a fitted Pipeline, or None."""
    steps = getattr(model, "steps", None)
    last = model if steps is None else steps[-1][1]
    if not isinstance(last, Fitted):
        raise ValueError(
            f"{what} is for a fitted estimator of sitewise, or a Pipeline that ends in one; got {type(last).__name__}."
        )
    return last, None if steps is None or len(steps) == 1 else model[:-1]


def explained(model: Any, what: str) -> Explained:
    """Return the estimator of a model or Pipeline with the columns of its table; `what` names the caller for errors."""
    if isinstance(model, Explained):
        return model
    if callable(own := getattr(model, "explained", None)):  # a fitted formula
        view = own()
        _refuse_two_functions(view.model, what, OF_BOTH_FORMULAS)
        return view
    estimator, before = parts_of(model, what)
    names = estimator._column_names()
    _refuse_two_functions(estimator, what, OF_TWO_FUNCTIONS)
    if before is None:
        return _with_levels(Explained(estimator, [TableColumn(name, (j,)) for j, name in enumerate(names)], names))
    try:
        features = [str(name) for name in before.get_feature_names_out()]
    except (AttributeError, ValueError):
        features = names
    first = before.steps[0][1]
    if isinstance(getattr(first, "recipe_", None), Recipe):  # a TableEncoder
        columns, rest, given = encoded_columns(first.recipe_.columns), before[1:], first.recipe_.features
    else:
        given = getattr(first, "feature_names_in_", [f"x{i}" for i in range(getattr(first, "n_features_in_", 0))])
        given = [str(name) for name in given]
        columns, rest = [TableColumn(name, (j,)) for j, name in enumerate(given)], before
    inverted = features == given and (not len(rest.steps) or hasattr(rest, "inverse_transform"))
    if not inverted:
        columns = [TableColumn(name, (j,)) for j, name in enumerate(features)]
    elif len(rest.steps):
        columns = [_through(rest, column, np.mean(estimator._X, axis=0)) for column in columns]
    return _with_levels(Explained(estimator, columns, features, before, inverted))


def _refuse_two_functions(estimator: Fitted, what: str, suited: Sequence[str]) -> None:
    """Raise ValueError if the model has two latent functions, and `what` is not among the suited explanations."""
    if what not in suited and estimator._latents[0].model.likelihood.functions:
        raise ValueError(
            f"{what} is for models with one latent function; effect(column, response=False) shows both functions of "
            "this model."
        )


def encoded_columns(columns: Sequence[Column]) -> list[TableColumn]:
    """Return the columns of a table that a recipe encodes; every part of a date counts as a column."""
    found: list[TableColumn] = []
    at = 0
    for column in columns:
        places = tuple(range(at, at + len(column.features)))
        if isinstance(column, Levels | Group):
            names = np.array(column.levels, object)
            codes = np.asarray(column.apply(Table("levels", {column.name: names}, np.arange(1, len(names) + 1)))).T
            found.append(TableColumn(column.name, places, names, codes))
        else:
            centre, scale = (np.atleast_1d(getattr(column, name)) for name in ("centre", "scale"))
            for name, place, c, s in zip(column.features, places, centre, scale, strict=True):
                found.append(TableColumn(name, (place,), back=affine(s, c), forth=affine(1 / s, -c / s)))
        at += len(column.features)
    return found


def affine(factor: float, shift: float) -> Convert:
    """Return the function that multiplies by `factor` and adds `shift`."""
    return lambda values: shift + factor * np.asarray(values, float)


def _through(rest: Any, column: TableColumn, typical: np.ndarray) -> TableColumn:
    """Return the column behind further steps that keep all columns and can be inverted, such as a scaler.

    `typical` is a row of the estimator's inputs, for the columns that are not converted.
    """

    def convert(step: Callable[[np.ndarray], Any], row: np.ndarray, values: np.ndarray) -> np.ndarray:
        rows = np.repeat(row[None], len(values), axis=0)
        rows[:, column.places] = values
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            return np.asarray(step(rows), float)[:, column.places]

    inner = np.asarray(rest.inverse_transform(typical[None]), float)[0]

    def back(values: np.ndarray) -> np.ndarray:
        return column.back(convert(rest.inverse_transform, typical, np.asarray(values, float)[:, None])[:, 0])

    def forth(values: np.ndarray) -> np.ndarray:
        return convert(rest.transform, inner, column.forth(np.asarray(values, float))[:, None])[:, 0]

    codes = None if column.codes is None else convert(rest.transform, inner, column.codes)
    return column._replace(codes=codes, back=back, forth=forth)


def _with_levels(view: Explained) -> Explained:
    """Return the view with levels for the numeric columns that the estimator reads as groups or series."""
    model, groups = view.model, view.model._level_columns()
    columns = []
    for column in view.columns:
        if column.levels is None and column.places[0] in groups:
            codes = np.unique(model._X[model._weight > 0, column.places[0]])
            levels = np.array([float(f"{value:.12g}") for value in column.back(codes)])
            column = column._replace(levels=levels, codes=codes[:, None])
        columns.append(column)
    return view._replace(columns=columns)


def frequent_levels(view: Explained, column: TableColumn, most: int) -> np.ndarray:
    """Return the numbers of the most frequent levels of a column in the training rows, at most `most`, in order."""
    assert column.codes is not None
    rows, weight = view.model._X[:, list(column.places)], view.model._weight
    count = np.array([np.sum(weight[np.all(np.isclose(rows, code), axis=1)]) for code in column.codes])
    return np.sort(np.argsort(-count, kind="stable")[:most])
