"""Partial dependence: the average prediction as a function of one column, with credible bands, and interactions.

The effect of column j at the value v is the average of f over the rows, with column j replaced by v:

    F_j(v) = Σ_r w_r f(v, x_r,−j),     F_0 = Σ_r w_r f(x_r)

Averages are linear in f, so their posterior is Gaussian with the exact moments of `LatentPosterior.sums`.  On the
latent scale the effect is F_j(v) − F_0: for an additive f = Σ_j f_j it is f_j(v) minus the average of f_j over the
rows.  The interaction of two columns is F_jk(u, v) − F_j(u) − F_k(v) + F_0, which is 0 where f is additive in them.

On the scale of the response the effect is the average prediction Σ_r w_r E[h(f(v, x_r,−j))], h the mean of y (for
ordered labels: of their numeric values, or of their ranks from 1) or a class probability.  If h is a change of units,
the moments are exact again.  Otherwise the band consists of quantiles of Σ_r w_r h(f(v, x_r,−j)) over joint draws of f
at the rows, pointwise in v.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from sitewise.checks import at_least
from sitewise.explain.fitted_model import Fitted
from sitewise.explain.responses import responses
from sitewise.process.precision import working_precision

MAX_ROWS = 200  # over which effects are averaged
MAX_ROWS_SAMPLED = 60  # for method="mcmc", which has covariances per draw
MAX_ROWS_INTERACTION = 100  # for an interaction, which has one sum per pair of values
MIN_ROWS_OF_CLASSES = 30  # for a softmax of many classes
SHARE_BEYOND_GRID = 0.02  # of the rows, at either end


@dataclasses.dataclass(frozen=True)
class Effect:
    """The effect of one column at the values `grid`.

    mean, sd, low, high   one number per value; with several classes, one column per entry of `outputs`
    level                 of the pointwise band from `low` to `high`
    response              True: average predictions; False: the latent function minus its average
    outputs               the classes whose probabilities these are, or "" for y
    listed                whether `grid` lists all values of the column
    rows                  number of rows averaged over
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


@dataclasses.dataclass(frozen=True)
class Interaction:
    """The interaction of two columns on the latent scale: their joint effect minus the sum of their effects.

    mean, sd   shape (values of the first column, values of the second); with several classes, a third axis
    """

    names: tuple[str, str]
    columns: tuple[int, int]
    grids: tuple[np.ndarray, np.ndarray]
    mean: np.ndarray
    sd: np.ndarray
    outputs: tuple[str, ...]
    rows: int


class Background(NamedTuple):
    """The rows over which effects are averaged, and their weights, which add up to 1."""

    X: np.ndarray
    share: np.ndarray


def column_of(model: Fitted, feature: Any) -> int:
    """Return the number of a column, given its name or number."""
    names = model._column_names()
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and 0 <= feature < len(names):
        return int(feature)
    raise ValueError(f"There is no column {feature!r}; give one of {', '.join(names)}, or a number from 0.")


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


def grid_of(model: Fitted, column: int, points: int) -> tuple[np.ndarray, bool]:
    """Return all values of a column if they are few, else evenly spaced values over the middle 96 % of the rows."""
    at_least("points", points, 2)
    values = model._X[model._weight > 0, column]
    distinct = np.unique(values)
    if len(distinct) <= min(points, 10):
        return distinct, True
    low, high = np.quantile(values, [SHARE_BEYOND_GRID, 1 - SHARE_BEYOND_GRID])
    if low == high:
        low, high = distinct[[0, -1]]
    return np.linspace(low, high, points), False


def effect(
    model: Fitted,
    feature: Any,
    X: Any = None,
    *,
    response: bool = True,
    level: float = 0.9,
    points: int = 20,
    grid: Any = None,
    rows: int | None = None,
) -> Effect:
    """Compute the effect of one column; see `GPBase.effect`."""
    column = column_of(model, feature)
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}.")
    values, listed = grid_of(model, column, points) if grid is None else (_checked(grid), False)
    over = background(model, X, rows)
    found = average(model, moved(over.X, {column: values}), over, response=response, level=level)
    mean, sd, low, high = (a[:, 0] if a.shape[1] == 1 else a for a in found)
    return Effect(
        model._column_names()[column], column, values, mean, sd, low, high, level, response, outputs_of(model), listed,
        len(over.X),
    )  # fmt: skip


def average(
    model: Fitted, blocks: np.ndarray, over: Background, *, response: bool = True, level: float = 0.9
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, standard deviation and band of the average over the rows per block, shape (values, outputs).

    `blocks` are copies of `over.X` with some columns replaced, shape (values, rows, columns).  For the latent function
    the average over `over.X` is subtracted.
    """
    ends = [0.5 - level / 2, 0.5 + level / 2]
    with working_precision():
        if response and not model._latents[0].model.likelihood.location_scale:
            return responses(model, blocks, over.share, ends)
        weight, level_of_y = over.share, model._y_units()[0]
        if not response:
            blocks = np.concatenate([blocks, np.broadcast_to(over.X, blocks.shape)], axis=1)
            weight, level_of_y = np.concatenate([over.share, -over.share]), 0.0
        mean, sd = _latents(model, blocks, weight)
        mean = mean + level_of_y
        low, high = (mean + stats.norm.ppf(end) * sd for end in ends)
        return mean, sd, low, high


def interaction(
    model: Fitted, first: Any, second: Any, X: Any = None, *, points: int = 7, rows: int | None = None
) -> Interaction:
    """Compute the interaction of two columns; see `GPBase.interaction`."""
    pair = column_of(model, first), column_of(model, second)
    if pair[0] == pair[1]:
        raise ValueError(f"An interaction is of two columns, but {first!r} was given twice; name another column.")
    grids = [grid_of(model, column, points)[0] for column in pair]
    over = background(model, X, MAX_ROWS_INTERACTION if rows is None else rows)
    first_at, second_at = (a.ravel() for a in np.meshgrid(*grids, indexing="ij"))
    both = {pair[0]: first_at, pair[1]: second_at}
    moves = [moved(over.X, {c: both[c] for c in chosen}) for chosen in (pair, pair[:1], pair[1:])]
    blocks = np.concatenate([*moves, np.broadcast_to(over.X, moves[0].shape)], axis=1)
    with working_precision():
        found = _latents(model, blocks, np.concatenate([sign * over.share for sign in (1, -1, -1, 1)]))
    mean, sd = (np.squeeze(a.reshape(*map(len, grids), -1), axis=-1 if a.shape[1] == 1 else ()) for a in found)
    names = model._column_names()
    return Interaction(
        (names[pair[0]], names[pair[1]]), pair, (grids[0], grids[1]), mean, sd, outputs_of(model), len(over.X)
    )


def moved(table: np.ndarray, values: dict[int, np.ndarray]) -> np.ndarray:
    """Return one copy of the table per value, with these columns set to the value."""
    out = np.repeat(table[None], len(next(iter(values.values()))), axis=0)
    for column, each in values.items():
        out[:, :, column] = each[:, None]
    return out


def outputs_of(model: Fitted) -> tuple[str, ...]:
    """Return the names of the outputs of an effect: the second of two classes, every class of more, or "" for y."""
    return model._output_names()


def _checked(grid: Any) -> np.ndarray:
    values = np.asarray(grid, float)
    if values.ndim != 1 or not values.size or not np.all(np.isfinite(values)):
        raise ValueError(f"grid must be a list of finite numbers, got {grid!r}.")
    return values


def _latents(model: Fitted, blocks: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of sums of f, one column per latent function, on the scale of y.

    For a softmax it is f_c minus the mean over the classes, because a common shift changes no prediction.
    """
    found = []
    for latent in model._latents:
        classes = latent.model.likelihood.latents
        parts = np.eye(classes) - (1 / classes if classes > 1 else 0.0)
        weights = parts[:, :, None, None] * np.broadcast_to(weight, blocks.shape[:2])
        qs, share = latent.posteriors()
        means, vars_ = (np.stack(part) for part in zip(*(q.latent.sums(blocks, weights) for q in qs), strict=True))
        mean = np.einsum("k,k...->...", share, means)  # moments of a mixture
        found.append((mean, np.einsum("k,k...->...", share, vars_ + (means - mean) ** 2)))
    mean, var = (np.concatenate(part).T for part in zip(*found, strict=True))
    scale = model._y_units()[1]
    return scale * mean, scale * np.sqrt(var)
