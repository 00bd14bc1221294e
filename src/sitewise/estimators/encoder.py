"""TableEncoder: a scikit-learn transformer for tables with numbers, units, categories and dates."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sitewise.errors import UserError
from sitewise.tables import Recipe, Table, describe, explain, table_of, understand
from sitewise.tables.leaks import leaks
from sitewise.tables.named_array import NamedArray
from sitewise.tables.problems import Settings
from sitewise.tables.table import has_names


def _spell(settings: Settings) -> str:
    """Return settings as arguments of Python."""
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table with categories, dates and missing values as numeric inputs, as a scikit-learn transformer.

    A table is a data frame, a list of dicts, a dict of columns, a structured array, or an array of rows.  The command
    `sitewise fit` encodes a file in the same way.

    - Numbers are standardised.  Strings such as "1,234.50", "12.5 %" (0.125), "€ 99", "70 kg" or a time of day ("14:30"
      is 14.5) are numbers too.
    - A categorical column becomes one column of 0 and 1 per category, or a single column for two categories.  Columns
      of type `category` and few whole numbers as strings ("1", "2") are categorical, also beside labels such as "3+".
    - Dates become year, month, weekday (Monday is 1), hour, and days since the first date, except parts that are
      constant.  Numbers of eight digits such as 20240331 are dates if all are valid dates and the name of the column
      says so, or if the column has at least ten distinct dates.
    - Columns that are empty, constant, or identifiers are left out.  Identifiers are strings that differ in every row,
      whole numbers that differ in every row under a name such as "id", and numbers 1 to n or 0 to n − 1 in any order,
      unless the name says that they are a time.

    Ambiguous columns and missing values raise one `UserError` that lists all problems and the parameters that solve
    them.  A column that alone determines the target, which `fit` may take too, raises a warning unless `use` names it.
    Later tables are encoded in the same way, by the names of their columns; they may have further columns, in
    any order.  An unseen category is encoded as none of the known categories, with a warning: 0 in the columns of all
    known categories, or ½, halfway, in the single column of two categories.

    Parameters
    ----------
    drop : sequence of str, default=()
        Columns to leave out.
    use : sequence of str, default=()
        Columns to use although they look like identifiers or determine the target.
    categorical : sequence of str, default=()
        Columns whose values, strings or numbers, are categories.
    impute : bool, default=False
        Whether to fill missing values with medians and most frequent categories.
    missing : sequence of str, default=()
        Codes for a missing value, in addition to blanks, "NA", "n/a", "NaN", "null" and "?".
    decimal : str, default=None
        The decimal mark, "." or ",", of numbers such as "1,234"; None detects it.
    dayfirst : bool, default=None
        Whether "3/4/2024" is the 3rd of April; None detects it.
    groups : sequence of str, default=()
        Columns whose values, strings or numbers, name groups of rows; each becomes one column of the same name
        with the number of the group, for `groups` of an estimator.  A value that did not occur in `fit` is a new group.

    Attributes
    ----------
    notes_ : list of str
        Sentences on columns that were left out and on how columns were parsed.
    recipe_ : Recipe
        The encoding of the columns, as plain values.
    n_features_in_ : int
        The number of columns of the table.
    feature_names_in_ : array of shape (n_columns,)
        The names of the columns, if the table has names.

    Examples
    --------
    >>> from sitewise import TableEncoder
    >>> rows = [{"price": "$1,200.50", "when": "31/1/2024"}, {"price": "$990.00", "when": "1/2/2024"}]
    >>> TableEncoder().fit(rows).get_feature_names_out().tolist()
    ['price', 'when (month)', 'when (weekday)', 'when (days)']

    See Also
    --------
    GPClassifier : `make_pipeline(TableEncoder(), GPClassifier())` takes tables.
    save : writes a pipeline of both to one file.
    """

    def __init__(
        self,
        *,
        drop: Sequence[str] = (),
        use: Sequence[str] = (),
        categorical: Sequence[str] = (),
        impute: bool = False,
        missing: Sequence[str] = (),
        decimal: str | None = None,
        dayfirst: bool | None = None,
        groups: Sequence[str] = (),
    ) -> None:
        self.drop = drop
        self.use = use
        self.categorical = categorical
        self.impute = impute
        self.missing = missing
        self.decimal = decimal
        self.dayfirst = dayfirst
        self.groups = groups

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the types, scales and fill values of the columns of a table.

        Parameters
        ----------
        X : data frame, list of dicts, dict of columns or array
            The table.
        y : array of shape (n_rows,), default=None
            The target.  It is only compared with the columns: a column that determines it raises a UserWarning.

        Returns
        -------
        self
        """
        if self.decimal not in (None, ".", ","):
            raise UserError(f"decimal must be '.', ',' or None, got {self.decimal!r}.")
        table = table_of(X, missing=self._list("missing"))
        _refuse_empty(table)
        names = list(table.columns)
        table = table.drop(table.named(self._list("drop")))
        categorical = table.named(self._list("categorical"))
        groups = table.named(self._list("groups"))
        labels = [*categorical, *groups]
        table = understand(table, decimal=self.decimal, dayfirst=self.dayfirst, categorical=labels, typed=True)
        use = [*table.named(self._list("use")), *categorical]
        recipe, notes, problems = describe(
            table, impute=self.impute, use=use, missing=self._list("missing"), groups=groups
        )
        problems = [*table.problems, *problems]
        if problems:
            raise explain(problems, _spell, self._ready)
        if not recipe.columns:
            raise UserError(
                f"the table has no column to learn from (n_samples = {table.rows}): "
                + (" ".join(notes) or "all columns are dropped.")
            )
        if found := _leaks(table, [c.name for c in recipe.columns if c.name not in use], y):
            warnings.warn(" ".join(found), UserWarning, stacklevel=2)
        self.recipe_, self.notes_, self.n_features_in_ = recipe, [*table.notes, *notes], len(names)
        if has_names(X):
            self.feature_names_in_ = np.array(names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the numeric inputs of a table.

        Categories that did not occur in `fit` raise one UserWarning, which names the columns and the categories. The
        array carries the names of its columns to the next step of a Pipeline: `groups="shop"` of an estimator finds
        its column.

        Parameters
        ----------
        X : data frame, list of dicts, dict of columns or array
            The table.

        Returns
        -------
        inputs : array of shape (n_rows, n_inputs)
            One column per entry of `get_feature_names_out()`.
        """
        check_is_fitted(self)
        table = table_of(X, missing=[*self.recipe_.missing, *self._list("missing")])
        _refuse_empty(table)
        if not has_names(X) and len(table.columns) != self.n_features_in_:
            raise ValueError(
                f"X has {len(table.columns)} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        if not has_names(X) and hasattr(self, "feature_names_in_"):
            columns = dict(zip(self.feature_names_in_, table.columns.values(), strict=True))
            table = Table(table.name, columns, table.lines)
        readings = self.recipe_.readings
        table = understand(table, decimal=self.decimal, dayfirst=self.dayfirst, known=readings)
        if problems := self.recipe_.problems(table):
            raise explain(problems, _spell, None, offered=("missing", "decimal", "dayfirst"))
        if unseen := self.recipe_.unknown_levels(table, groups=False):
            warnings.warn(" ".join(unseen), UserWarning, stacklevel=3)
        return NamedArray.of(self.recipe_.inputs(table), self.recipe_.features)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns that `transform` returns: "x", "colour=red", "when (month)".

        Parameters
        ----------
        input_features : None, default=None
            Not used; for scikit-learn's tools.
        """
        check_is_fitted(self)
        default = [f"x{k}" for k in range(self.n_features_in_)]
        own = list(getattr(self, "feature_names_in_", default))
        if input_features is None:
            return np.array(self.recipe_.features, object)
        given = [str(name) for name in input_features]
        if hasattr(self, "feature_names_in_") and given != own:
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(given) != len(own):
            raise ValueError(f"input_features should have length equal to number of features ({len(own)})")
        renamed = dict(zip(own, given, strict=True))
        return np.array([
            renamed[column.name] + feature[len(column.name) :]
            for column in self.recipe_.columns for feature in column.features
        ], object)  # fmt: skip

    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        """Return centre and scale per feature: 0 and 1 for categories."""

        def each(name: str, plain: float) -> np.ndarray:
            columns = self.recipe_.columns
            return np.concatenate([np.broadcast_to(getattr(c, name, plain), len(c.features)) for c in columns])

        return each("centre", 0.0), each("scale", 1.0)

    def _list(self, name: str) -> list[str]:
        given = getattr(self, name)
        return [given] if isinstance(given, str) else list(given)

    def _ready(self, settings: Settings) -> str:
        """Return the code of this encoder with further settings: lists are joined, other values replaced."""
        default = type(self)().get_params()
        given = {k: v for k, v in self.get_params().items() if v != default[k]}
        added = {k: [*self._list(k), *v] if isinstance(v, list) else v for k, v in settings.items()}
        return f"{type(self).__name__}({_spell({**given, **added})})"

    def _state(self) -> dict[str, Any]:
        """Return the fitted state as plain data for a model file."""
        names = list(getattr(self, "feature_names_in_", ()))
        return {"recipe": self.recipe_.to_plain(), "notes": self.notes_, "names": names, "columns": self.n_features_in_}

    def _restore(self, state: dict[str, Any]) -> Self:
        """Restore the fitted state from `_state`."""
        self.recipe_, self.notes_ = Recipe.from_plain(state["recipe"]), [str(n) for n in state["notes"]]
        self.n_features_in_ = int(state["columns"])
        if state["names"]:
            self.feature_names_in_ = np.array([str(n) for n in state["names"]], object)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.impute
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.dict = True
        return tags


def _refuse_empty(table: Table) -> None:
    if not table.rows:
        raise UserError("Found array with 0 sample(s) while a minimum of 1 is required: give a table with rows.")


def _leaks(table: Table, names: Sequence[str], y: Any) -> list[str]:
    """Return one sentence per column that equals the target y, recodes it or nearly determines it."""
    if y is None or (labels := np.asarray(y, None if hasattr(y, "dtype") else object)).shape not in (
        (table.rows,),
        (table.rows, 1),
    ):
        return []
    target = next(name for name in map(str, itertools.count()) if name not in table.columns)
    table = dataclasses.replace(table, columns={**table.columns, **table_of({target: labels.ravel()}).columns})
    classifies = table.numbers(target) is None or len(set(table.text(target))) <= 2
    found = []
    for leak in leaks(table, names, target, classifies):
        columns = list(leak.columns)
        found.append(leak.sentence(f"{_spell({'drop': columns})}, otherwise {_spell({'use': columns})}"))
    return found
