"""Effects of the terms of a fitted function: curves, levels of groups, coefficients and maps, with credible bands.

The function is a sum of terms, f = μ + Σ_p f_p.  The effect of a term at the inputs v is

    F_p(v) = f_p(v) − Σ_r w_r f_p(x_r)

with the training rows x_r of weight w_r: an intercept and the level of a term cannot be separated.  A linear term has
coefficients, f_p(v) − f_p(0) = βᵀv.  The posterior of F_p is Gaussian, with the exact moments of
`LatentPosterior.sums`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.special import ndtri

from sitewise.explain.effects import Background, background, points_of, require_one_kernel, term_features
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.table_columns import Explained, TableColumn, explained, frequent_levels
from sitewise.kernels import terms
from sitewise.kernels.terms import Term
from sitewise.means import Zero
from sitewise.parts import Season, Series
from sitewise.predict import Posterior
from sitewise.priors.posterior import LatentPosterior
from sitewise.process.precision import working_precision

CENTRING_ROWS = 100  # training rows over which a term averages to zero
BLOCK_VALUES = 200  # values whose moments are computed together
MAX_CURVES = 6  # of a term with one function per series, the series with the most rows
CURVE_POINTS = 60  # at least, so that a curve has no kinks
MAP_POINTS = 40  # per axis


@dataclasses.dataclass(frozen=True)
class TermEffect:
    """The effect of one term of a fitted function on the latent scale, with a credible band.

    Attributes
    ----------
    name : str
        Name of the term.
    kind : str
        "curve" (a function of one column), "levels" (one effect per level of a group), "coefficients" (one per
        column) or "map" (a function of two columns).
    columns : tuple of str
        The columns of the table along which the effect is drawn; for coefficients, all columns of the term.
    values : array of shape (n_values,) or (n_values, 2)
        Values of the column, names of levels or of coefficients, or the two coordinates of places.
    mean, sd, low, high : array of shape (n_values,) or (n_series, n_values)
        Mean, standard deviation and pointwise band; for curves of several series, one row per series.
    level : float
        The level of the band.
    series : tuple of str
        The names of the series of a term with one curve per series, else empty.
    note : str
        Which levels or series are left out, or "".
    dates : bool
        Whether the values are days since 1970 of a column of dates.
    label : str
        What the effect is on, if it is not on the first latent function, such as "effect on the log scale"; else "".
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    values: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    level: float
    series: tuple[str, ...] = ()
    note: str = ""
    dates: bool = False
    label: str = ""


@dataclasses.dataclass(frozen=True)
class TermView:
    """One term with its columns: numbers along which it varies, levels, and columns in which it is linear.

    `in_time`: whether the term is a trend or a season; `function`: the number of its latent function.
    """

    index: int
    name: str
    numbers: tuple[TableColumn, ...]
    levels: tuple[TableColumn, ...]
    linear: tuple[TableColumn, ...]
    in_time: bool = False
    function: int = 0

    @property
    def kind(self) -> str:
        """The kind of picture, or "" if there is none."""
        if self.numbers:
            return {1: "curve", 2: "map"}.get(len(self.numbers), "")
        return "levels" if self.levels else "coefficients" if self.linear else ""


def term_effects(model: Any, level: float = 0.9, *, map_points: int = MAP_POINTS) -> list[TermEffect]:
    """Return the effect of every term of the fitted function that depends on at most two columns.

    Parameters
    ----------
    model : FormulaModel, GPClassifier, GPRegressor, GPOrdinal or Pipeline
        A fitted formula, a fitted estimator with one latent function, or a Pipeline that ends in one.  The terms of a
        second formula come last.
    level : float, default=0.9
        The level of the pointwise bands.
    map_points : int, default=40
        The number of values per axis of a term of two columns.

    Returns
    -------
    effects : list of TermEffect
        One entry per term, in the order of the model; constants and terms of more than two columns have none.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
    view = explained(model, "term_effects")
    found = [_effect(view, one, level, map_points) for one in views_of_all_functions(view) if one.kind]
    if not found:
        raise ValueError("No term of this model has a picture: every term is constant or depends on three columns.")
    return found


def views_of_all_functions(view: Explained) -> list[TermView]:
    """Return the terms of the fitted function, or of both functions of a model with a second formula."""
    functions = view.model._latents[0].model.likelihood.functions
    return [one for number in range(max(len(functions), 1)) for one in views(view, number)]


def views(view: Explained, function: int = 0) -> list[TermView]:
    """Return the terms of the fitted function, or of one of two functions, with their columns."""
    model = view.model
    require_one_kernel(model)
    likelihood = model._latents[0].model.likelihood
    if len(model._latents) > 1 or (likelihood.latents > 1 and not likelihood.functions):
        raise ValueError("Effects of terms are for models with one latent function; this model has one per class.")
    kernel = _function_of(model._latents[0].posteriors()[0][0], function).kernel
    return [_viewed(view, i, term, function) for i, term in enumerate(terms(kernel, term_features(view)))]


def _function_of(q: Posterior, number: int) -> LatentPosterior:
    """Return the posterior of the latent function, or of one of two functions."""
    return q.latent.function(number) if q.likelihood.functions else q.latent


def _viewed(view: Explained, index: int, term: Term, function: int) -> TermView:
    seen = view.model._kernel_columns()
    places = seen if term.columns is None else [seen[j] for j in term.columns]
    kernel = term.kernel
    if getattr(kernel, "used", None) == ():  # an intercept
        places = []
    levels, linear = kernel.level_dims(len(places)), kernel.linear_dims(len(places))
    owner = {place: column for column in view.columns for place in column.places}
    kinds: tuple[list[TableColumn], ...] = ([], [], [])
    for k, place in enumerate(places):
        column = owner[place]
        named = k in levels or (column.levels is not None and k not in linear)
        which = kinds[2 if k in linear else 1 if named else 0]
        if column not in which:
            which.append(column)
    numbers, named_columns, sloped = map(tuple, kinds)
    return TermView(index, term.name, numbers, named_columns, sloped, isinstance(kernel, Season | Series), function)


def _effect(view: Explained, term: TermView, level: float, map_points: int) -> TermEffect:
    draw = {"curve": _curve, "levels": _levels, "coefficients": _coefficients}.get(term.kind)
    found = _map(view, term, level, map_points) if draw is None else draw(view, term, level)
    if not term.function:
        return found
    name = view.model._latents[0].model.likelihood.functions[term.function]
    return dataclasses.replace(found, name=f"{name}: {found.name}", label=f"effect on the {name}")


def _banded(moments: tuple[np.ndarray, np.ndarray], level: float) -> dict[str, Any]:
    mean, sd = moments
    reach = ndtri(0.5 + level / 2) * sd
    return {"mean": mean, "sd": sd, "low": mean - reach, "high": mean + reach, "level": level}


def _curve(view: Explained, term: TermView, level: float) -> TermEffect:
    (column,) = term.numbers
    values, codes, listed = points_of(view, column, None, [term.index])
    if not listed and len(values) < CURVE_POINTS:
        values, codes, listed = points_of(view, column, CURVE_POINTS, [term.index])
    if listed:  # a function of numbers is a curve also where the table has few values
        values = column.back(codes[:, 0])
    rows = typical_rows(view.model, len(codes))
    rows[:, list(column.places)] = codes
    if not term.levels:
        found = centred(view.model, rows, (term.index,), function=term.function)
        return TermEffect(term.name, "curve", (column.name,), values, **_banded(found, level), dates=column.dates)
    (by,) = term.levels
    chosen, note = _most(view, by, MAX_CURVES)
    each = []
    assert by.codes is not None and by.levels is not None
    for code in by.codes[chosen]:
        rows[:, list(by.places)] = code
        each.append(centred(view.model, rows, (term.index,), function=term.function))
    moments = np.stack([mean for mean, _ in each]), np.stack([sd for _, sd in each])
    names = tuple(_shown(name) for name in by.levels[chosen])
    return TermEffect(
        term.name,
        "curve",
        (column.name,),
        values,
        **_banded(moments, level),
        series=names,
        note=note,
        dates=column.dates,
    )


def _levels(view: Explained, term: TermView, level: float) -> TermEffect:
    if len(term.levels) == 1:
        (column,) = term.levels
        assert column.codes is not None and column.levels is not None
        names, codes, places = column.levels, column.codes, list(column.places)
    else:  # combinations of the levels of several columns, as they occur
        places = [place for column in term.levels for place in column.places]
        codes = np.unique(view.model._X[:, places], axis=0)
        names = np.array([" × ".join(_of_codes(term.levels, places, code)) for code in codes], object)
    rows = typical_rows(view.model, len(codes))
    rows[:, places] = codes
    for column in term.linear:
        rows[:, list(column.places)] = 1.0
    found = centred(view.model, rows, (term.index,), None if term.linear else CENTRING_ROWS, term.function)
    name = term.name if not term.linear else f"slope of {', '.join(column.name for column in term.linear)}"
    shown = np.array([_shown(one) for one in names], object)
    return TermEffect(name, "levels", tuple(c.name for c in term.levels), shown, **_banded(found, level))


def _of_codes(columns: tuple[TableColumn, ...], places: list[int], code: np.ndarray) -> list[str]:
    value, found = dict(zip(places, code, strict=True)), []
    for column in columns:
        own = [value[place] for place in column.places]
        assert column.codes is not None and column.levels is not None
        where = np.flatnonzero(np.all(column.codes == own, axis=1))
        found.append(_shown(column.levels[where[0]]) if len(where) else "?")
    return found


def _coefficients(view: Explained, term: TermView, level: float) -> TermEffect:
    places = [place for column in term.linear for place in column.places]
    names = [view.features[place] for place in places]
    rows = np.zeros((len(places), view.model._X.shape[1]))
    rows[np.arange(len(places)), places] = 1.0
    zeros = Background(np.zeros_like(rows[:1]), np.ones(1))  # of columns with a centre, f_p(0) is not zero
    found = centred(view.model, rows, (term.index,), zeros, term.function)
    return TermEffect(term.name, "coefficients", tuple(names), np.array(names, object), **_banded(found, level))


def _map(view: Explained, term: TermView, level: float, points: int) -> TermEffect:
    first, second = term.numbers
    shown, rows = map_grid(view, first, second, points)
    for column in term.levels:
        assert column.codes is not None
        rows[:, list(column.places)] = column.codes[_most(view, column, 1)[0]]
    found = centred(view.model, rows, (term.index,), function=term.function)
    return TermEffect(term.name, "map", (first.name, second.name), shown, **_banded(found, level))


def map_grid(view: Explained, first: TableColumn, second: TableColumn, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid of places over the training rows, in the units of the table, and rows for the model.

    The second coordinate varies slowest.
    """
    model = view.model
    axes = []
    for column in (first, second):
        values = model._X[model._weight > 0, column.places[0]]
        axes.append(np.linspace(np.min(values), np.max(values), points))
    east, north = (a.ravel() for a in np.meshgrid(*axes))
    rows = typical_rows(model, len(east))
    rows[:, first.places[0]], rows[:, second.places[0]] = east, north
    return np.column_stack([first.back(east), second.back(north)]), rows


def typical_rows(model: Fitted, count: int) -> np.ndarray:
    """Return copies of one training row that is near the medians of all columns."""
    X = model._X[model._weight > 0]
    spread = np.ptp(X, axis=0)
    distance = np.abs(X - np.median(X, axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.repeat(X[[np.argmin(np.sum(distance, axis=1))]], count, axis=0)


def centred(
    model: Fitted,
    rows: np.ndarray,
    chosen: tuple[int, ...] | None,
    over: int | Background | None = CENTRING_ROWS,
    function: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of a sum of terms at rows, minus its average over training rows.

    `chosen` are the numbers of the terms, None for all of f; `over` is the number of training rows, or rows with their
    shares, or None for no centring; `function` is 1 for the second of two latent functions, which has no units.
    """
    if isinstance(over, int):
        over = background(model, None, over)
    level = over or Background(rows[:0], np.empty(0))
    starts = range(0, len(rows), BLOCK_VALUES)
    blocks = [_block(model, rows[at : at + BLOCK_VALUES], level, chosen, function) for at in starts]
    mean, sd = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return mean, sd


def _block(
    model: Fitted, rows: np.ndarray, over: Background, chosen: tuple[int, ...] | None, function: int
) -> tuple[np.ndarray, np.ndarray]:
    table = np.concatenate([rows, over.X])
    weight = np.concatenate([np.eye(len(rows)), np.broadcast_to(-over.share, (len(rows), len(over.X)))], axis=1)
    qs, share = model._latents[0].posteriors()

    def latent_of(q: Posterior) -> LatentPosterior:
        whole = _function_of(q, function)
        return whole if chosen is None else whole.part(chosen, Zero())

    with working_precision():
        found = [latent_of(q).sums(table[None], weight[:, None, None, :]) for q in qs]
    means, vars_ = (np.stack([np.asarray(one[k])[:, 0] for one in found]) for k in (0, 1))
    mean = share @ means  # moments of a mixture
    var = share @ (vars_ + (means - mean) ** 2)
    scale = 1.0 if function else model._y_units()[1]
    return scale * mean, scale * np.sqrt(np.maximum(var, 0.0))


def _most(view: Explained, column: TableColumn, most: int) -> tuple[np.ndarray, str]:
    """Return the numbers of the most frequent levels, and a note if some are left out."""
    assert column.levels is not None
    if len(column.levels) <= most:
        return np.arange(len(column.levels)), ""
    return frequent_levels(view, column, most), f"{column.name}: {most} of {len(column.levels)}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
