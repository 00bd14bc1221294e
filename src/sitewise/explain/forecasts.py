"""Forecasts of one or many time series by a fitted model: future rows, means and prediction intervals.

A forecast is the predictive distribution at times after the last training row of each series.  A `Series` part reverts
to its mean, f(t + h) → 0 as h grows beyond its lengthscale, so that a trend does not continue beyond the data; seasons
and linear effects continue.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from sitewise.checks import at_least
from sitewise.explain.table_columns import Explained, TableColumn, explained
from sitewise.explain.term_effects import views
from sitewise.parts.calendar_dates import following_dates
from sitewise.parts.calendar_seasons import spacing

LEVELS = (0.5, 0.9)


@dataclasses.dataclass(frozen=True)
class Forecast:
    """A forecast with prediction intervals; `print` shows a table.

    Attributes
    ----------
    time : array of shape (n_times,)
        The times of the rows: numbers, or dates.
    series : tuple of str
        The series per row; empty for one series.
    mean : array of shape (n_times,)
        The expected values; for two classes the probabilities of the second class.
    levels : tuple of float
        The levels of the intervals.
    low, high : array of shape (n_levels, n_times)
        The ends of the intervals: of a new observation, or for two classes of its probability.
    name : str
        The name of the column of time.
    """

    time: np.ndarray
    series: tuple[str, ...]
    mean: np.ndarray
    levels: tuple[float, ...]
    low: np.ndarray
    high: np.ndarray
    name: str = "time"

    def columns(self) -> dict[str, Any]:
        """Return the table as columns: pandas.DataFrame(forecast.columns()) is a data frame."""
        found: dict[str, Any] = {"series": list(self.series)} if self.series else {}
        found |= {self.name: self.time, "mean": self.mean}
        for k, level in enumerate(self.levels):
            found |= {f"low {100 * level:g} %": self.low[k], f"high {100 * level:g} %": self.high[k]}
        return found

    def __str__(self) -> str:
        table = self.columns()
        cells = [[name, *map(_shown, values)] for name, values in table.items()]
        width = [max(map(len, column)) for column in cells]
        rows = zip(*cells, strict=True)
        return "\n".join("  ".join(map(str.rjust, row, width)) for row in rows)


def _shown(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[s]")).replace("T00:00:00", "").replace("T", " ")
    return str(value)


def forecast(
    model: Any,
    horizon: int | None = None,
    *,
    times: ArrayLike | None = None,
    new: Any = None,
    levels: Sequence[float] | float = LEVELS,
    time: str | int | None = None,
    **side: Any,
) -> Forecast:
    """Forecast every series of a fitted model, with prediction intervals.

    Parameters
    ----------
    model : GPRegressor, GPClassifier, Pipeline or FormulaModel
        A fitted model of a time series: a column of time, and perhaps columns that name series or groups.
    horizon : int, default=None
        The number of steps after the last training time of each series; a step is the median spacing of the times.
        Dates on the same day of every month, or on the last day of shorter months, are continued by calendar months;
        daily dates that leave out some days of the week, such as weekends, are continued without these days.
    times : array of shape (n_times,), default=None
        The times, in place of `horizon`; the same for each series.
    new : table, default=None
        The future rows, in place of `horizon`: needed if the model has other columns, such as regressors or holidays.
    levels : float or sequence of float, default=(0.5, 0.9)
        The levels of the intervals.
    time : str or int, default=None
        The column of time; None finds it by the model: the column of a trend or a season, or the only column.
    **side
        exposure or trials of the future rows, as in `predict`.

    Returns
    -------
    forecast : Forecast
        Means and intervals per time and series.

    Examples
    --------
    >>> import numpy as np
    >>> from sitewise import GPRegressor, forecast
    >>> from sitewise.parts import Season, Series
    >>> t = np.arange(48.0)
    >>> counts = np.round(6 + 4 * np.sin(2 * np.pi * t / 12))
    >>> model = GPRegressor(likelihood="poisson", structure=[Series(0), Season(0, period=12)]).fit(t[:, None], counts)
    >>> forecast(model, 12).mean.shape
    (12,)
    """
    given = [name for name, value in (("horizon", horizon), ("times", times), ("new", new)) if value is not None]
    if len(given) != 1:
        raise ValueError(f"Give one of horizon, times and new; got {' and '.join(given) or 'nothing'}.")
    wanted = tuple(float(level) for level in np.atleast_1d(np.asarray(levels, float)))
    if not wanted or not all(0 < level < 1 for level in wanted):
        raise ValueError(f"levels must lie between 0 and 1, as in (0.5, 0.9); got {levels!r}.")
    view = explained(model, "forecast")
    column = time_column(view, time)
    if view.side is not None:
        side = view.side(new, side)
    rows = _rows(view, column, horizon, times) if new is None else np.asarray(view.model._new_rows(view.inputs(new)))
    mean, low, high = _predicted(view, rows, wanted, side)
    at = column.shown(column.back(rows[:, column.places[0]]))
    return Forecast(at, series_of(view, rows), mean, wanted, low, high, column.name)


def time_column(view: Explained, time: str | int | None = None) -> TableColumn:
    """Return the column of time: the given one, the one of a trend or season, or the only column of numbers.

    The only column of numbers of a formula is taken if it holds dates.
    """
    if time is not None:
        return view.column(time)
    numbers = [column for column in view.columns if column.levels is None]
    for term in views(view):
        if term.kind == "curve" and term.in_time:
            return term.numbers[0]
    if len(numbers) == 1 and (numbers[0].dates or view.side is None):
        return numbers[0]
    if len(numbers) == 1:
        name = numbers[0].name
        raise ValueError(
            f"It is not known whether {name} is a time, because the formula has no series or season; give "
            f"time={name!r} to forecast along it."
        )
    raise ValueError(f"The column of time is ambiguous; give time= with one of {', '.join(c.name for c in numbers)}.")


def series_of(view: Explained, rows: np.ndarray) -> tuple[str, ...]:
    """Return the names of the series per row: the levels of all columns of levels; empty without such columns."""
    each = [column for column in view.columns if column.levels is not None]
    if not each:
        return ()
    names = []
    for column in each:
        assert column.codes is not None and column.levels is not None
        own = rows[:, list(column.places)]
        where = [np.flatnonzero(np.all(column.codes == code, axis=1)) for code in own]
        names.append([_shown(column.levels[w[0]]) if len(w) else "new" for w in where])
    return tuple(" × ".join(one) for one in zip(*names, strict=True))


def _rows(view: Explained, column: TableColumn, horizon: int | None, times: Any) -> np.ndarray:
    """Return the future rows of every series, by series and time."""
    model, place = view.model, column.places[0]
    X = model._X[model._weight > 0]
    others = [c.name for c in view.columns if c is not column and c.levels is None]
    if others:
        raise ValueError(
            f"The model has further columns ({', '.join(others)}), whose future values must be known; give the future "
            "rows as new=."
        )
    labels = [p for p in range(X.shape[1]) if p != place]
    levels, name = np.unique(X[:, labels], axis=0, return_inverse=True)
    name = name.reshape(-1)
    if times is not None:
        asked = column.forth(column.numbered(times))
        future = [np.atleast_1d(asked)] * len(levels)
    else:
        assert horizon is not None
        at_least("horizon", horizon, 1)
        dates = column.shown(column.back(X[:, place]))
        found = following_dates(dates, name, horizon) if column.dates else None
        if found is not None:
            future = [column.forth(column.numbered(one)) for one in found]
        else:
            step = spacing(X[:, place], name)
            future = [np.max(X[name == k, place]) + step * np.arange(1, horizon + 1) for k in range(len(levels))]
    out = np.empty((sum(map(len, future)), X.shape[1]))
    out[:, place] = np.concatenate(future)
    out[:, labels] = np.repeat(levels, [len(one) for one in future], axis=0)
    return out


def _predicted(
    view: Explained, rows: np.ndarray, levels: tuple[float, ...], side: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return means, and lower and upper ends of intervals per level."""
    model: Any = view.model
    ends = np.array([[0.5 - level / 2, 0.5 + level / 2] for level in levels])
    if not hasattr(model, "_class_logs"):
        found = model.predict_quantiles(rows, np.unique(ends), **side).T
        low, high = (found[np.searchsorted(np.unique(ends), ends[:, k])] for k in (0, 1))
        return np.asarray(model.predict(rows, **side)), low, high
    likelihood = model._latents[0].model.likelihood
    if len(model._latents) > 1 or likelihood.latents > 1 or model._label_values() is not None:
        raise ValueError("Forecasts are for numbers and for two classes; use predict_proba for several classes.")
    f, sd = model.predict_latent(rows, return_std=True)
    chance = model.predict_proba(rows)[:, 1]
    low, high = (
        np.stack([np.exp(np.asarray(likelihood.log_prob(jnp.ones(len(f)), f + ndtri(end) * sd))) for end in ends[:, k]])
        for k in (0, 1)
    )
    return chance, low, high
