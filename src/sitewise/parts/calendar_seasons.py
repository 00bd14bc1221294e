"""Seasons by one word, "day", "week", "year", or a number: parts with the harmonics that the spacing allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sitewise.parts.regressors import Season

DAYS = {"day": 1.0, "week": 7.0, "year": 365.2425}  # periods by name, in days
MIN_POINTS_PER_PERIOD = 3  # a shorter season cannot be seen at this spacing
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
