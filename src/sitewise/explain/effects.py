"""Partial dependence: the average prediction as a function of one column of the table, with credible bands.

The effect of column j at the value v is the average of f over the rows, with column j replaced by v:

    F_j(v) = Σ_r w_r f(v, x_r,−j),     F_0 = Σ_r w_r f(x_r)

Averages are linear in f, so their posterior is Gaussian with the exact moments of `LatentPosterior.sums`.  On the
latent scale the effect is F_j(v) − F_0: for an additive f = Σ_j f_j it is f_j(v) minus the average of f_j over the
rows.  The effect of a term of the kernel, such as a season, or of a sum of terms, is the same with f_p for f.

On the scale of the response the effect is the average prediction Σ_r w_r E[h(f(v, x_r,−j))], h the mean of y (for
ordered labels: of their numeric values, or of their ranks from 1) or a class probability.  If h is a change of units,
the moments are exact again.  Otherwise the band consists of quantiles of Σ_r w_r h(f(v, x_r,−j)) over joint draws of f
at the rows, pointwise in v.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from sitewise.checks import at_least
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.responses import responses
from sitewise.explain.season_grid import season, season_points
from sitewise.explain.table_columns import Explained, TableColumn, explained
from sitewise.kernels import terms
from sitewise.predict import Posterior
from sitewise.priors.posterior import LatentPosterior
from sitewise.process.precision import working_precision

MAX_ROWS = 200  # over which effects are averaged
MAX_ROWS_SAMPLED = 60  # for method="mcmc", which has covariances per draw
MIN_ROWS_OF_CLASSES = 30  # for a softmax of many classes
SHARE_BEYOND_GRID = 0.02  # of the rows, at either end
POINTS = 20  # values of a column of numbers
MAX_LISTED_VALUES = 10  # a column with at most this number of distinct values is drawn at all of them

TermChoice = int | str | Sequence[int | str]


@dataclasses.dataclass(frozen=True)
class Effect:
    """The effect of one column (partial dependence) at the values `grid`; `print` shows a table.

    Attributes
    ----------
    name : str
        Name of the column.
    column : int
        Number of the column among the columns of the table.
    grid : array of shape (n_values,)
        Values in the units of the table; names of the levels of a categorical column or a group.
    mean, sd, low, high : array of shape (n_values,) or (n_values, n_outputs)
        Mean, standard deviation and ends of the band per value; with several classes, one column per entry of
        `outputs`.
    level : float
        Level of the pointwise band from `low` to `high`.
    response : bool
        True: average predictions; False: the latent function, or a term of it, minus its average.
    outputs : tuple of str
        The classes whose probabilities these are, or "" for y.
    listed : bool
        Whether `grid` lists single values, as levels, instead of points of a curve.
    rows : int
        Number of rows averaged over.
    term : str
        The terms of the kernel whose sum this is the effect of; "" for the whole function.
    """

    name: str
    column: int
    grid: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float
    response: bool
    outputs: tuple[str, ...]
    listed: bool
    rows: int
    term: str = ""

    def __str__(self) -> str:
        many = len(self.outputs) > 1
        kind = "class" if self.response or self.outputs[0] != "f" else "function"  # of two latent functions
        head = [self.name, *([kind] if many else []), "mean", "low", "high"]
        numbers = (np.atleast_2d(a.T).T for a in (self.mean, self.low, self.high))
        lines = [
            [shown_value(value), *([output] if many else []), *(f"{number:.4g}" for number in found)]
            for value, *each in zip(self.grid, *numbers, strict=True)
            for output, *found in zip(self.outputs, *each, strict=True)
        ]
        width = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        return "\n".join(
            "  ".join([line[0].ljust(width[0]), *map(str.rjust, line[1:], width[1:])]) for line in [head, *lines]
        )


def shown_value(value: Any) -> str:
    """Return a value of a column for a table or an axis: a name, or a number with six digits."""
    return value if isinstance(value, str) else f"{value:.6g}"


class Background(NamedTuple):
    """The rows over which effects are averaged, and their weights, which add up to 1."""

    X: np.ndarray
    share: np.ndarray


def background(model: Fitted, X: Any, rows: int | None) -> Background:
    """Return at most `rows` rows of X, or without X of the training rows by their weights."""
    if rows is None:
        latent = model._latents[0]
        rows = max(MIN_ROWS_OF_CLASSES, MAX_ROWS // latent.model.likelihood.latents)
        rows = rows if latent.has_sites else MAX_ROWS_SAMPLED
    at_least("rows", rows, 1)
    table = model._X if X is None else model._new_rows(X)
    weight = model._weight if X is None else np.ones(len(table))
    table, weight = table[weight > 0], weight[weight > 0]
    if len(table) <= rows:
        return Background(table, weight / np.sum(weight))
    # Evenly spaced in the sum of the weights, in a fixed random order.
    order = np.random.default_rng(0).permutation(len(table))
    passed = np.cumsum(weight[order]) / np.sum(weight)
    pick = order[np.minimum(np.searchsorted(passed, (np.arange(rows) + 0.5) / rows), len(order) - 1)]
    return Background(table[pick], np.full(rows, 1 / rows))


def points_of(
    view: Explained, column: TableColumn, points: int | None = None, chosen: Sequence[int] | None = None
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return values of a column, their encodings, and whether they are single values instead of points of a curve.

    These are the levels of a categorical column or a group, all values of a column with few values, and otherwise
    evenly spaced values over the middle 96 % of the rows.  A season is drawn over one period.  By default a function
    with a season has enough values to show it.  `chosen` are the numbers of the terms of the kernel.
    """
    if points is not None:
        at_least("points", points, 2)
    if column.levels is not None:
        assert column.codes is not None
        return column.levels, column.codes, True
    place, model = column.places[0], view.model
    values = model._X[model._weight > 0, place]
    distinct = np.unique(values)
    kernels, seen = model._latents[0].model.kernels, model._kernel_columns()
    kernel = kernels[0] if isinstance(kernels, list) else kernels
    if (period := season(kernel, seen, place, chosen)) is not None:
        start, end = column.back(distinct[0] + np.array([0.0, period]))
        # From a multiple of the period in the units of the table, such as midnight, if the rows contain one.
        first = (end - start) * np.ceil(start / (end - start) - 1e-9)
        start = first if first <= column.back(distinct[-1:])[0] else start
        shown = start + np.linspace(0, 1, points or POINTS + 1) * (end - column.back(distinct[:1])[0])
        return shown, column.forth(shown)[:, None], False
    if len(distinct) <= min(points or POINTS, MAX_LISTED_VALUES):
        return column.back(distinct), distinct[:, None], True
    low, high = np.quantile(values, [SHARE_BEYOND_GRID, 1 - SHARE_BEYOND_GRID])
    if low == high:
        low, high = distinct[[0, -1]]
    codes = np.linspace(low, high, points or max(POINTS, season_points(kernel, seen, place, high - low)))
    return column.back(codes), codes[:, None], False


def effect(
    model: Any,
    feature: Any,
    X: Any = None,
    *,
    term: TermChoice | None = None,
    response: bool | None = None,
    level: float = 0.9,
    points: int | None = None,
    grid: Any = None,
    rows: int | None = None,
) -> Effect:
    """Return the average prediction as a function of one column of the table (partial dependence), with a band.

    Parameters
    ----------
    model : GPClassifier, GPRegressor, GPOrdinal or Pipeline
        A fitted estimator, or a Pipeline that ends in one.
    feature, X, term, response, level, points, grid, rows : as in GPRegressor.effect
        With a Pipeline, the columns are the columns of the table.

    Returns
    -------
    effect : Effect
        Values of the column with mean, standard deviation and band.
    """
    view = explained(model, "effect")
    number = view.number(feature)
    column, estimator = view.columns[number], view.model
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
    if term is not None and response:
        raise ValueError("A term has an effect on the latent function only; leave response out, or set it to False.")
    chosen = None if term is None else _term_numbers(view, column, term)
    if grid is None:
        values, codes, listed = points_of(view, column, points, chosen)
    else:
        (values, codes), listed = _given(column, grid), column.levels is not None
    over = background(estimator, view.inputs(X), rows)
    response = term is None if response is None else response
    found = average(estimator, column.places, codes, over, response=response, level=level, chosen=chosen)
    mean, sd, low, high = (a[:, 0] if a.shape[1] == 1 else a for a in found)
    outputs = outputs_of(estimator) if response else estimator._latents[0].model.likelihood.functions
    return Effect(
        column.name, number, values, mean, sd, low, high, level, response, outputs or outputs_of(estimator), listed,
        len(over.X),
        "" if chosen is None else _term_names(view, chosen),
    )  # fmt: skip


def term_features(view: Explained) -> list[str]:
    """Return the names of the inputs that the kernel uses, for the names of its terms."""
    return [view.features[j] for j in view.model._kernel_columns()]


def _posterior(model: Fitted) -> Posterior:
    """Return one posterior of the first latent function, for the terms of its kernel."""
    require_one_kernel(model)
    return model._latents[0].posteriors()[0][0]


def require_one_kernel(model: Fitted) -> None:
    """Raise ValueError if the model averages over kernels."""
    if model._averages_kernels():
        raise ValueError("Kernels that are averaged have no terms in common; use kernel='additive', or one kernel.")


def _term_numbers(view: Explained, column: TableColumn, term: TermChoice) -> tuple[int, ...]:
    """Return the numbers of the chosen terms, each of which must depend on the column."""
    q, seen = _posterior(view.model), view.model._kernel_columns()
    _, chosen = q._parts_named(term, term_features(view))
    for i in chosen:
        one = terms(q.latent.kernel, term_features(view))[i]
        used = seen if one.columns is None else [seen[j] for j in one.columns]
        if not set(used) & set(column.places):
            raise ValueError(f"The term {one.name!r} does not depend on the column {column.name!r}; name another term.")
    if not chosen:
        raise ValueError("The mean has no effect with a band; name a term of the kernel.")
    return tuple(chosen)


def _term_names(view: Explained, chosen: Sequence[int]) -> str:
    names = [one.name for one in terms(_posterior(view.model).latent.kernel, term_features(view))]
    return " + ".join(names[i] for i in chosen)


def average(
    model: Fitted,
    places: Sequence[int],
    codes: np.ndarray,
    over: Background,
    *,
    response: bool = True,
    level: float = 0.9,
    chosen: tuple[int, ...] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, standard deviation and band of the average over the rows, shape (values, outputs).

    The columns `places` are replaced by each row of `codes`.  For the latent function the average over `over.X` is
    subtracted.  `chosen` are numbers of terms of the kernel; None means the whole function.
    """
    ends = [0.5 - level / 2, 0.5 + level / 2]
    # Rows that differ in the replaced columns only are equal afterwards.
    kept = np.array([j for j in range(over.X.shape[1]) if j not in places], int)
    _, first, place = np.unique(over.X[:, kept], axis=0, return_index=True, return_inverse=True)
    share = np.bincount(place.ravel(), over.share)
    blocks = moved(over.X[first], places, codes)
    with working_precision():
        if response and not model._latents[0].model.likelihood.location_scale:
            return responses(model, blocks, share, ends)
        level_of_y = model._y_units()[0]
        if not response:
            blocks = np.concatenate([blocks, np.broadcast_to(over.X, (len(codes), *over.X.shape))], axis=1)
            share, level_of_y = np.concatenate([share, -over.share]), 0.0
        mean, sd = latent_sums(model, blocks, share, chosen)
        if response:  # with two latent functions, the first is the mean of y
            mean, sd = mean[:, : len(outputs_of(model))], sd[:, : len(outputs_of(model))]
        mean = mean + level_of_y
        low, high = (mean + special.ndtri(end) * sd for end in ends)
        return mean, sd, low, high


def moved(table: np.ndarray, places: Sequence[int], codes: np.ndarray) -> np.ndarray:
    """Return one copy of the table per row of `codes`, with the columns `places` set to this row."""
    out = np.repeat(table[None], len(codes), axis=0)
    out[:, :, list(places)] = codes[:, None, :]
    return out


def outputs_of(model: Fitted) -> tuple[str, ...]:
    """Return the names of the outputs of an effect: the second of two classes, every class of more, or "" for y."""
    return model._output_names()


def _given(column: TableColumn, grid: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the values that the user gave, and their encodings."""
    if column.named:
        assert column.levels is not None and column.codes is not None
        known, wanted = list(column.levels), [grid] if isinstance(grid, str) else list(grid)
        if unknown := [one for one in wanted if one not in known]:
            raise ValueError(
                f"{column.name!r} has no level {unknown[0]!r}; give levels such as {', '.join(map(repr, known[:5]))}."
            )
        chosen = [known.index(one) for one in wanted]
        return column.levels[chosen], column.codes[chosen]
    try:
        values = np.asarray(grid, float)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.ndim != 1 or not values.size or not np.all(np.isfinite(values)):
        raise ValueError(f"grid must be a list of finite numbers, got {grid!r}.")
    return values, column.forth(values)[:, None]


def latent_sums(
    model: Fitted, blocks: np.ndarray, weight: np.ndarray, chosen: tuple[int, ...] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of sums of f, one column per latent function, on the scale of y.

    For a softmax it is f_c minus the mean over the classes, because a common shift changes no prediction.
    """

    def latent_of(q: Posterior) -> LatentPosterior:
        return q.latent if chosen is None else q.part(list(chosen)).latent

    found = []
    for latent in model._latents:
        classes = latent.model.likelihood.latents
        functions = latent.model.likelihood.functions
        parts = np.eye(classes) - (1 / classes if classes > 1 and not functions else 0.0)
        weights = parts[:, :, None, None] * np.broadcast_to(weight, blocks.shape[:2])
        qs, share = latent.posteriors()
        means, vars_ = (np.stack(part) for part in zip(*(latent_of(q).sums(blocks, weights) for q in qs), strict=True))
        mean = np.einsum("k,k...->...", share, means)  # moments of a mixture
        found.append((mean, np.einsum("k,k...->...", share, vars_ + (means - mean) ** 2)))
    mean, var = (np.concatenate(part).T for part in zip(*found, strict=True))
    scale = np.array([model._y_units()[1]])
    if model._latents[0].model.likelihood.functions:
        scale = np.append(scale, 1.0)  # the second function has no units
    return scale * mean, scale * np.sqrt(var)
