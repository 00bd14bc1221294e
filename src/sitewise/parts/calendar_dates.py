"""Continue dates by the calendar: months, quarters and years, and days of the week such as Monday to Friday."""

from __future__ import annotations

import numpy as np

DAY = np.timedelta64(1, "D")
LAST_DAY = 30  # of a month of 31 days, from 0
FIRST_MONDAY = np.datetime64("1970-01-05", "D")
MIN_DAYS = 14  # from the first to the last date: weekdays without a date are then missing more than once
MIN_COVERAGE = 0.8  # share of the dates on these weekdays that are in the table; holidays are missing


def following_dates(dates: np.ndarray, series: np.ndarray, count: int) -> list[np.ndarray] | None:
    """Return the next `count` dates of every series of months or of some days of the week; None for other dates."""
    found = following_months(dates, series, count)
    return following_weekdays(dates, series, count) if found is None else found


def following_months(dates: np.ndarray, series: np.ndarray, count: int) -> list[np.ndarray] | None:
    """Return the next `count` dates of every series of months, quarters or years; None if the dates are others.

    All dates of such a series are on the last day of their month, or on the same day, such as the 30th, or where the
    month is shorter on its last day; all at the same time of day.
    """
    month = dates.astype("datetime64[M]")
    steps = [np.diff(np.unique(month[series == name].astype(int))) for name in np.unique(series)]
    each = np.concatenate([np.empty(0), *steps])
    if not len(each) or np.median(each) % 1:
        return None
    out = []
    for name in np.unique(series):
        own = dates[series == name]
        days = _days_of_month(own)
        if days is None:
            return None
        ahead = month[series == name].max() + int(np.median(each)) * np.arange(1, count + 1)
        day, clock = days
        out.append(ahead.astype(dates.dtype) + np.minimum(day, _length(ahead) - 1) * DAY + clock)
    return out


def _days_of_month(dates: np.ndarray) -> tuple[int, np.timedelta64] | None:
    """Return the day of every month, from 0, with 30 for its last day, and the time of day; None if they differ."""
    month = dates.astype("datetime64[M]")
    start, length = month.astype(dates.dtype), _length(month)
    day = (dates - start) // DAY
    clock = dates - start - day * DAY
    if np.any(clock != clock[0]):
        return None
    if np.all(day == length - 1):
        return LAST_DAY, clock[0]
    return (int(day.max()), clock[0]) if np.all(day == np.minimum(day.max(), length - 1)) else None


def _length(month: np.ndarray) -> np.ndarray:
    """Return the number of days of months."""
    return ((month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")).astype(int)


def following_weekdays(dates: np.ndarray, series: np.ndarray, count: int) -> list[np.ndarray] | None:
    """Return the next `count` dates of every series on the days of the week that occur, such as Monday to Friday.

    None if all days of the week or a single day occur, if the dates have several times of day, or if a fifth of the
    dates on these days of the week is missing.
    """
    day = dates.astype("datetime64[D]")
    clock = dates - day.astype(dates.dtype)
    usual = np.unique(_weekday(day))
    if not 1 < len(usual) < 7 or np.any(clock != clock[0]) or day.max() - day.min() < MIN_DAYS * DAY:
        return None
    out, there, possible = [], 0, 0
    for name in np.unique(series):
        own = np.unique(day[series == name])
        span = np.arange(own[0], own[-1] + DAY)
        there += len(own)
        possible += int(np.sum(np.isin(_weekday(span), usual)))
        ahead = own[-1] + np.arange(1, 7 * count + 1) * DAY
        out.append(ahead[np.isin(_weekday(ahead), usual)][:count].astype(dates.dtype) + clock[0])
    return out if there >= MIN_COVERAGE * possible else None


def _weekday(day: np.ndarray) -> np.ndarray:
    """Return 0 for Monday … 6 for Sunday."""
    return (day - FIRST_MONDAY).astype(int) % 7
