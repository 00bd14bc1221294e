"""Continue dates by the calendar: months, quarters and years, and days of the week such as Monday to Friday."""

from __future__ import annotations

import numpy as np

DAY = np.timedelta64(1, "D")
DAYS_OF_EVERY_MONTH = 28
FIRST_MONDAY = np.datetime64("1970-01-05", "D")
MIN_DAYS = 14  # from the first to the last date: weekdays without a date are then missing more than once
MIN_COVERAGE = 0.8  # share of the dates on these weekdays that are in the table; holidays are missing


def following_dates(dates: np.ndarray, series: np.ndarray, count: int) -> list[np.ndarray] | None:
    """Return the next `count` dates of every series of months or of some days of the week; None for other dates."""
    found = following_months(dates, series, count)
    return following_weekdays(dates, series, count) if found is None else found


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
