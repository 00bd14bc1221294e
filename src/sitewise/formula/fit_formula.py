"""`fit`: a formula and a table → a fitted model."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sitewise.errors import UserError
from sitewise.estimators.duration import LONG_FIT, LongFitWarning
from sitewise.estimators.training import FitWarning
from sitewise.formula.design import Design
from sitewise.formula.expansion import Formula, columns_of
from sitewise.formula.expressions import are_numbers, conversion, is_boolean, is_categorical, labels_of
from sitewise.formula.fit_warnings import in_words
from sitewise.formula.formula_estimator import fitted_estimator, kind_of, parameter_of
from sitewise.formula.formula_model import FormulaModel
from sitewise.formula.grammar import Name, names_in, parse_expression
from sitewise.formula.linear_columns import dependent, ordered
from sitewise.likelihoods import Likelihood
from sitewise.methods import Method
from sitewise.tables.cells import parse_number
from sitewise.tables.table import Table, has_names, listed, table_of

MIN_ROWS = 3
Given = str | ArrayLike | None


def fit(
    formula: str | Sequence[str],
    data: Any,
    likelihood: str | Likelihood = "gaussian",
    *,
    weights: Given = None,
    exposure: Given = None,
    trials: Given = None,
    event: Given = None,
    lower: Given = None,
    upper: Given = None,
    until: Given = None,
    noise: Given = None,
    graphs: Mapping[str, Any] | None = None,
    missing: str = "refuse",
    method: str | Method = "hybrid",
    integrate: bool | str = "auto",
    random_state: int = 0,
    verbose: bool = False,
) -> FormulaModel:
    """Fit a formula to a table: linear, smooth, spatial and group effects with any likelihood (GAM, GLMM).

    Parameters
    ----------
    formula : str or list of two str
        The response, ~, and the terms: `x`, `a:b`, `a*b`, `log(x)`, `C(x)`; `s(x)`, `s(x, z)`, `s(x, by=g)`,
        `s(month, period=12)`, `te(x, z)`; `(1 | g)`, `(1 + x | g)`; `map(lon, lat)`, `area(district)`,
        `series(time, by=sensor, season='week')`; `offset(log(n))`.  A second formula, as in "y ~ s(x); scale ~ z" or
        ["y ~ s(x)", "scale ~ z"], describes a parameter of the likelihood that depends on columns, on its log or
        log-odds scale.  See docs/how-to/formula.md.
    data : data frame, dict of columns, list of dicts or structured array
        The table.
    likelihood : str or Likelihood, default="gaussian"
        The distribution of the response: as in GPRegressor; "logit" (or "bernoulli") and "probit" for two classes;
        "ordinal" for ordered labels.
    weights : str or array, default=None
        Weight per row: the name of a column, an expression, or numbers.  Weight 2 is equivalent to duplicating the row.
    exposure, trials, event, lower, upper, until, noise : str or array, default=None
        Side information per row as in `GPRegressor.fit`: the name of a column, an expression, or numbers.
    graphs : dict, default=None
        For `area(column)`: the name of the column → its graph, a dict with the list of neighbours of every area, a
        data frame, or an adjacency matrix of areas that are numbered from 0.
    missing : str, default="refuse"
        "drop" leaves out the rows with missing values in the columns of the formula; "refuse" raises an error.
    method : str or Method, default="hybrid"
        The inference, as in GPRegressor.
    integrate : bool or str, default="auto"
        Whether predictions average over hyperparameters, as in GPRegressor; "auto" holds them at their maximum.
    random_state : int, default=0
        The seed.
    verbose : bool, default=False
        Whether to show progress.

    Returns
    -------
    model : FormulaModel
        With `summary()`, `predict(new, terms=…, interval=…)`, `simulate()`, `check()` and `save(path)`.

    Examples
    --------
    >>> import numpy as np
    >>> import sitewise
    >>> rng = np.random.default_rng(0)
    >>> x, group = rng.uniform(0, 3, 60), rng.integers(0, 5, 60)
    >>> table = {"x": x, "g": group.astype(str), "y": rng.poisson(np.exp(np.sin(x) + 0.5 * group))}
    >>> model = sitewise.fit("y ~ s(x) + (1 | g)", table, "poisson", integrate=False)
    >>> model.predict({"x": [1.0, 2.0], "g": ["0", "new"]}).shape
    (2,)

    See Also
    --------
    FormulaModel : the result.
    GPRegressor : the same models by parts, for scikit-learn.
    """
    start = time.perf_counter()
    if Method.of(method).definition.samples:
        raise UserError("Formulas have no mcmc; use 'hybrid', 'ep', 'vi' or 'laplace'.")
    design, kind = Design(Formula.of(formula)), kind_of(likelihood)
    varying = design.formula.varying
    parameter = None if varying is None else parameter_of(str(varying.response), likelihood)
    table = _table(data)
    given = {
        "exposure": exposure, "trials": trials, "event": event, "lower": lower, "upper": upper, "until": until,
        "noise": noise,
    }  # fmt: skip
    kept, notes = _complete(table, design.formula, (weights, *given.values()), missing)
    given = {name: _cut(value, kept) for name, value in given.items()}
    table, weights = table.take(np.flatnonzero(kept)), _cut(weights, kept)
    weight = None if weights is None else _column(design, table, "weights", weights)
    if weight is not None and np.all(weight >= 0):
        table, weight, given, left_out = _of_positive_weight(table, weight, given)
        notes += left_out
        design.coding.weight = weight
    y = _response(design, table, kind)
    X, parts = design.learn(table, graphs or {}, cut_points=kind == "labels")
    side, texts = {}, {}
    for name, value in given.items():
        if value is not None:
            side[name] = _column(design, table, name, value)
            if isinstance(value, str):
                texts[name] = value
    design.coding.weight = None
    options: dict[str, Any] = {
        "method": method,
        "integrate": integrate,
        "random_state": random_state,
        "verbose": verbose,
    }
    if kind == "labels" and y.dtype.kind not in "biuf":
        options["order"] = _order_of_labels(design, table)
    with _collected_warnings() as caught:
        estimator = fitted_estimator(X, y, parts, parameter, likelihood, side, weight, options)
    messages = tuple(dict.fromkeys(in_words(one, estimator) for one in caught))
    messages = (*_dependence(design, X), *_saturation(design, table.rows), *messages)
    for message in messages:
        warnings.warn(message, FitWarning, stacklevel=2)
    return FormulaModel(design, likelihood, estimator, texts, time.perf_counter() - start, (*notes, *messages))


@contextlib.contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of a fit, which are given in the words of the formula; announce a long fit at once."""
    caught: list[str] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("always", message=f"(?!{LONG_FIT})")  # for a long fit the caller's filters hold
        show = warnings.showwarning

        def collect(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, LongFitWarning):
                show(message, category, *where, **more)
            else:
                caught.append(str(message))

        warnings.showwarning = collect
        yield caught


def _table(data: Any) -> Table:
    if not (isinstance(data, Table) or has_names(data)):
        raise UserError("data must have named columns: a data frame, a dict of columns, or a list of dicts.")
    table = data if isinstance(data, Table) else table_of(data, "the table")
    if table.rows < MIN_ROWS:
        raise UserError(f"The table has {table.rows} rows; a fit needs at least {MIN_ROWS}.")
    return table


def _complete(table: Table, formula: Formula, side: Any, missing: str) -> tuple[np.ndarray, list[str]]:
    """Return a mask of the rows to fit, and a note on the rows that are left out."""
    if missing not in ("refuse", "drop"):
        raise UserError(f"missing must be 'refuse' or 'drop', got {missing!r}.")
    texts = [name for one in side if isinstance(one, str) for name in names_in(parse_expression(one))]
    names = [name for name in dict.fromkeys([*columns_of(formula), *texts]) if np.any(table.missing(name))]
    kept = ~np.any([np.zeros(table.rows, bool), *(table.missing(name) for name in names)], axis=0)
    if not names:
        return kept, []
    gone, shown = int(np.sum(~kept)), listed(names, 5)
    if missing == "refuse":
        more = f" and {gone - 1} more" if gone > 1 else ""
        raise UserError(
            f"The table has missing values in {shown}, in row {table.lines[np.argmin(kept)]}{more}; impute them, or "
            "leave these rows out by missing='drop' (--drop-missing)."
        )
    if np.sum(kept) < MIN_ROWS:
        raise UserError(f"Only {np.sum(kept)} rows have no missing values in {shown}; a fit needs {MIN_ROWS}.")
    return kept, [f"{gone} of {table.rows} rows have missing values in {shown} and are left out."]


def _of_positive_weight(
    table: Table, weight: np.ndarray, given: dict[str, Given]
) -> tuple[Table, np.ndarray, dict[str, Given], list[str]]:
    """Return the rows of positive weight, with a note: the other rows must not provide levels or a reference level."""
    positive = weight > 0
    if np.sum(positive) < MIN_ROWS:
        raise UserError(
            f"Only {np.sum(positive)} of {table.rows} weights are positive; a fit needs {MIN_ROWS} rows of positive "
            "weight."
        )
    if np.all(positive):
        return table, weight, given, []
    given = {name: _cut(value, positive) for name, value in given.items()}
    note = f"{np.sum(~positive)} of {table.rows} rows have weight 0 and are left out."
    return table.take(np.flatnonzero(positive)), weight[positive], given, [note]


def _cut(value: Given, kept: np.ndarray) -> Given:
    """Return the values of the rows that are fitted; names of columns and single numbers are unchanged."""
    if value is None or isinstance(value, str) or np.shape(value) != kept.shape:
        return value
    return np.asarray(value)[kept]


def _dependence(design: Design, X: Any) -> list[str]:
    """Return warnings if coefficients are not determined by the data."""
    found = []
    for number, formula in enumerate(design.formula.functions):
        named = design.linear_columns(number)
        columns = {name: np.asarray(X)[:, k] for k, name in enumerate(X.column_names) if name in named}
        found.append(dependent(columns, formula.intercept))
    return [
        f"Linear combinations of the intercept and earlier columns: {listed(one, 5)}; leave these columns out, "
        "because the data do not determine their coefficients."
        for one in filter(None, found)
    ]


def _saturation(design: Design, rows: int) -> list[str]:
    """Return warnings of categories with one coefficient per row, such as dates that are strings."""
    return [
        f"{name} is a category with a different level in every row, and its coefficients can reproduce every response; "
        f"{conversion(levels) or 'leave it out'}."
        for name, levels in design.coding.levels.items()
        if len(levels) == rows
    ]


def _order_of_labels(design: Design, table: Table) -> list[str]:
    """Return the labels from the lowest to the highest: in the order of an ordered category, or by their numbers."""
    node = design.formula.response
    assert isinstance(node, Name)
    labels = table.text(node.text)
    if node.text in table.ranked:
        return ordered(node, labels, table)
    if not are_numbers(present := dict.fromkeys(labels)):
        raise UserError(
            f"The response {node} holds strings without an order; make it an ordered category, as in "
            "pandas.Categorical(values, categories=[lowest, …, highest], ordered=True), or a column of numbers."
        )
    return sorted(present, key=lambda label: parse_number(label, ".") or 0.0)


def _response(design: Design, table: Table, kind: str) -> np.ndarray:
    """Return the response: numbers, or labels as in the table."""
    node = design.formula.response
    if kind == "values":
        if isinstance(node, Name) and is_categorical(node, table) and not is_boolean(node, table):
            seen = dict.fromkeys(labels_of(node, table))
            instead = "use likelihood='logit' for two classes, or 'ordinal' for ordered labels"
            raise UserError(
                f"The response {node} holds categories ({listed(seen, 3)}), where numbers are needed; "
                f"{conversion(seen) or instead}."
            )
        return design.coding.numbers(node, table, fitting=True)
    if not isinstance(node, Name):
        raise UserError(f"The response {node} must be the name of a column of labels.")
    labels = labels_of(node, table)
    numbers = table.numbers(node.text)
    return labels.astype(str) if numbers is None else numbers


def _column(design: Design, table: Table, name: str, value: Any) -> np.ndarray:
    """Return a column that is given by its name, by an expression or as numbers."""
    if isinstance(value, str):
        return design.coding.numbers(parse_expression(value), table, fitting=True)
    found = np.asarray(value, float)
    if found.shape not in ((), (table.rows,)):
        raise UserError(f"{name} has the shape {found.shape}; give the name of a column, or one number per row.")
    return np.array(np.broadcast_to(found, (table.rows,)))
