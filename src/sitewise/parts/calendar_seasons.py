"""Seasons by one word, "day", "week", "year", or a number: parts with the harmonics that the spacing allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sitewise.parts.regressors import Season

DAYS = {"day": 1.0, "week": 7.0, "year": 365.2425}  # periods by name, in days
MIN_POINTS_PER_PERIOD = 3  # a shorter season cannot be seen at this spacing
DAY = np.timedelta64(1, "D")
DAYS_OF_EVERY_MONTH = 28
MAX_HARMONICS = 84  # an hourly profile of a week


def spacing(times: Any, series: Any = None) -> float:
    """Return the typical step between times: the median difference of distinct times within a series.

    Parameters
    ----------
    times : array of shape (n_rows,)
        The times.
    series : array of shape (n_rows,), default=None
        The series of each row; None for one series.
    """
    times = np.asarray(times, float)
    series = np.zeros(len(times)) if series is None else np.asarray(series)
    steps = [np.diff(np.unique(times[series == name])) for name in np.unique(series)]
    each = np.concatenate([*steps, np.empty(0)])
    if not len(each):
        raise ValueError("A series needs at least two distinct times.")
    return float(np.median(each))


def following_months(dates: np.ndarray, series: np.ndarray, count: int) -> list[np.ndarray] | None:
    """Return the next `count` dates of every series of months, quarters or years; None if the dates are others.

    All dates of such a series are on the same day of the month, or on its last day, at the same time of day.
    """
    month = dates.astype("datetime64[M]")
    after, before = dates - month.astype(dates.dtype), (month + 1).astype(dates.dtype) - dates
    steps, ends = [np.empty(0)], []
    for name in np.unique(series):
        one = series == name
        last = np.argmax(dates[one])
        steps.append(np.diff(np.unique(month[one].astype(int))))
        if np.all(before[one] == before[one][0]) and before[one][0] <= DAY:
            ends.append((month[one][last] + 1, -before[one][0]))
        elif np.all(after[one] == after[one][0]) and after[one][0] < DAYS_OF_EVERY_MONTH * DAY:
            ends.append((month[one][last], after[one][0]))
        else:
            return None
    each = np.concatenate(steps)
    if not len(each) or np.median(each) % 1:
        return None
    ahead = int(np.median(each)) * np.arange(1, count + 1)
    return [(at + ahead).astype(dates.dtype) + shift for at, shift in ends]


def seasons(
    column: int | str, season: Any, times: Any, *, day: float | None = None, series: Any = None
) -> list[Season]:
    """Return the parts of a season, which is given by a word, by its period, or by a list of these.

    "week" also has the season of the day, and "year" those of the week and the day, if the times are close enough to
    show them.  A part has as many harmonics as the spacing of the times allows, at most 84.

    Parameters
    ----------
    column : int or str
        The column of time.
    season : str, float or sequence of them
        "day", "week", "year", or a period in the unit of the column.
    times : array of shape (n_rows,)
        The training times, which decide how many harmonics there are.
    day : float, default=None
        The length of a day in the unit of the column, for words; None refuses words.
    series : array of shape (n_rows,), default=None
        The series of each row; None for one series.

    Returns
    -------
    parts : list of Season
        From the shortest period to the longest.
    """
    step = spacing(times, series)
    given = [season] if isinstance(season, str) or not isinstance(season, Sequence) else list(season)
    periods: dict[float, str] = {}
    for one in given:
        for period, name in _periods(one, step, day, alone=len(given) == 1).items():
            periods.setdefault(period, name)
    return [
        Season(column, period=period, harmonics=_harmonics(period, step), name=name)
        for period, name in sorted(periods.items())
    ]


def _periods(season: Any, step: float, day: float | None, alone: bool) -> dict[float, str]:
    if isinstance(season, str):
        if season not in DAYS:
            raise ValueError(
                f"season must be one of {', '.join(map(repr, DAYS))} or a period as a number, got {season!r}."
            )
        if day is None:
            raise ValueError(f"season={season!r} needs a column of dates; give the period as a number in its unit.")
        names = [name for name in DAYS if DAYS[name] <= DAYS[season]] if alone else [season]
        found = {DAYS[name] * day: name for name in names}
        seen = {p: name for p, name in found.items() if p >= MIN_POINTS_PER_PERIOD * step or name == season}
    elif isinstance(season, int | float | np.number) and not isinstance(season, bool) and 0 < season < np.inf:
        seen = {float(season): f"season of {season:g}"}
    else:
        raise ValueError(f"season must be one of {', '.join(map(repr, DAYS))} or a period as a number, got {season!r}.")
    short = [name for period, name in seen.items() if period < 2 * step]
    if short:
        raise ValueError(f"The times are {step:g} apart, too far for the season {short[0]!r}; leave it out.")
    return seen


def _harmonics(period: float, step: float) -> int:
    """Return the number of harmonics up to the Nyquist frequency of the spacing, at most `MAX_HARMONICS`."""
    return int(np.clip(np.floor(period / (2 * step) + 1e-6), 1, MAX_HARMONICS))
