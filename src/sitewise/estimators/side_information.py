"""Side information per row as keywords of fit, predict and score: exposure, trials, censoring, known noise, output.

    exposure   counts                       time observed, area, people at risk: the mean count is exposure · rate
    trials     binomial, beta_binomial      number of trials; y is the number of successes
    lower      lifetimes, censored_gaussian y ≤ lower is left-censored at lower; −inf without a bound
    upper      lifetimes, censored_gaussian y ≥ upper is right-censored at upper; inf without a bound
    event      lifetimes, censored_gaussian 1 if the event was observed at y, 0 if y is right-censored
    until      lifetimes, censored_gaussian the value lies between y and until: equal if observed, inf if right-censored
    noise      heteroscedastic_gaussian     standard deviation of the measurement error per row, in the units of y
    output     Switched                     index of the row's likelihood: 0, 1, 2, …

Each keyword takes one number for all rows, or one number per row.  The estimators keep the keywords as given; `table`
converts them to the columns that the likelihood takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sitewise.likelihoods import BY_NAME, Likelihood

Side = Mapping[str, np.ndarray]


class _Keyword(NamedTuple):
    """Rules of a keyword: `default` for new rows (None: required), valid values exceed `above`, `about` names them."""

    default: float | None
    above: float
    about: str


_KEYWORDS = {
    "exposure": _Keyword(1.0, 0.0, "positive numbers"),
    "trials": _Keyword(1.0, 0.0, "whole numbers of at least 1"),
    "lower": _Keyword(-np.inf, -np.inf, "numbers, or -inf for rows without a bound"),
    "upper": _Keyword(np.inf, -np.inf, "numbers, or inf for rows without a bound"),
    "event": _Keyword(1.0, -1.0, "1 for an observed event and 0 for a right-censored row"),
    "until": _Keyword(np.inf, -np.inf, "numbers of at least y, or inf for right-censored rows"),
    "noise": _Keyword(None, 0.0, "standard deviations of the measurement errors, which are positive"),
    "output": _Keyword(None, -1.0, "whole numbers 0, 1, 2, …, the index of each row's likelihood"),
}
_ROUNDING = 1e-12  # of a correlation of 1
CENSORING = ("lower", "upper", "event", "until")  # describe observed rows; unknown for new rows
KEYWORDS = tuple(_KEYWORDS)
# scikit-learn's metadata routing passes the keywords on without a request by the user.
REQUESTS = dict.fromkeys(KEYWORDS, True)
PREDICT_REQUESTS = {name: True for name in KEYWORDS if name not in CENSORING}


def read(likelihood: Likelihood, rows: int, given: Mapping[str, Any], fitting: bool = False) -> Side:
    """Return the side information as one array per keyword, with one number per row; raise ValueError if invalid."""
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in likelihood.keywords:
            takers = " or ".join(repr(kind.name) for kind in BY_NAME.values() if name in kind.keywords)
            one = likelihood.one_function()
            what = one.name or type(one).__name__
            raise ValueError(f"{name} is for likelihood={takers}, but the likelihood is {what!r}; leave it out.")
    found = {name: _column(name, value, rows, fitting) for name, value in given.items()}
    if "lower" in found and "upper" in found and np.any(found["lower"] >= found["upper"]):
        raise ValueError("lower must be less than upper in every row; use -inf or inf for rows without a bound.")
    ways = [way for way in (("lower", "upper"), ("event",), ("until",)) if any(name in found for name in way)]
    if len(ways) > 1:
        raise ValueError(
            f"{ways[0][0]} and {ways[1][0]} both describe censoring; give only one of bounds, event or until."
        )
    return found


def _column(name: str, value: Any, rows: int, fitting: bool) -> np.ndarray:
    """Return one keyword as an array with one number per row; raise ValueError if a value is invalid."""
    keyword = _KEYWORDS[name]
    try:
        column = np.array(value, float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold {keyword.about}.") from None
    if column.ndim > 1 or (column.ndim == 1 and len(column) != rows):
        raise ValueError(f"{name} must be one number, or one for each of the {rows} rows; got shape {column.shape}.")
    bound = keyword.above == -np.inf
    good = ~np.isnan(column) if bound else np.isfinite(column) & (column > keyword.above)
    if name == "noise" and not fitting:
        good |= column == 0  # predicts the function without measurement error
    if name in ("trials", "output"):
        good &= column == np.floor(column)
    if name == "event":
        good &= (column == 0) | (column == 1)
    if not np.all(good):
        raise ValueError(f"{name} must hold {keyword.about}; got {np.atleast_1d(column)[~np.atleast_1d(good)][0]:g}.")
    return np.broadcast_to(column, rows).copy()


def warn_of_copies(X: np.ndarray, names: Sequence[str], side: Side) -> None:
    """Warn if a column of X repeats exposure, trials or event, up to location and scale."""
    for keyword in ("exposure", "trials", "event"):
        values = side.get(keyword, np.zeros(len(X)))
        if np.ptp(values) == 0:
            continue
        for k, column in enumerate(X.T):
            if np.ptp(column) > 0 and abs(np.corrcoef(column, values)[0, 1]) > 1 - _ROUNDING:
                warnings.warn(
                    f"Column {repr(names[k]) if names else k} of X repeats {keyword}, which the likelihood uses "
                    "already; leave this column out of X.",
                    UserWarning,
                    stacklevel=3,
                )


def lacking(fitted: Side, given: Side) -> str | None:
    """Return the first keyword of the fit that is not given, or None."""
    return next((name for name in fitted if name not in given), None)


def second_column(fitted: Side, given: Side, rows: int, needed: bool = True) -> tuple[np.ndarray, ...]:
    """Return the columns after the first of the likelihood's table for new rows, in the units of `given`.

    Predictions refer to the uncensored value; censoring keywords are ignored.
    """
    columns = []
    for name in _in_order(fitted):
        if name not in given and _KEYWORDS[name].default is None and needed:
            raise ValueError(_REQUIRED[name])
        column = given.get(name, np.full(rows, _KEYWORDS[name].default or 0.0))
        columns.append(column**2 if name == "noise" else column)
    return tuple(columns)


_REQUIRED = {
    "noise": "This needs noise=, the standard deviation of the measurement error per new row; noise=0 predicts the "
    "function without measurement error.",
    "output": "This needs output=, the index of the output per new row: 0, 1, 2, …",
}


def _in_order(side: Side) -> list[str]:
    """Return the names of the columns after the first, in the order of the likelihood's table."""
    return sorted((name for name in side if name not in CENSORING), key=lambda name: name != "output")


def in_units(side: Side, centre: float, scale: float) -> Side:
    """Return bounds and noise standard deviations in the standardised units of y."""
    return {
        name: (v - centre) / scale if name in ("lower", "upper", "until") else v / scale if name == "noise" else v
        for name, v in side.items()
    }


def table(y: np.ndarray, side: Side) -> np.ndarray:
    """Return the likelihood's table: y, or y with further columns; censored values are pairs (low, high)."""
    if not side:
        return y
    if any(name in side for name in CENSORING):
        return np.column_stack(ends(y, side))
    return np.column_stack([y, *(side[name] ** 2 if name == "noise" else side[name] for name in _in_order(side))])


def ends(y: np.ndarray, side: Side) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval (low, high) that contains the value of each row; low = high = y for an observed row."""
    if "until" in side:
        return y, side["until"]
    if "event" in side:
        return y, np.where(side["event"] == 1, y, np.inf)
    lower, upper = (side.get(name, np.full(len(y), none)) for name, none in (("lower", -np.inf), ("upper", np.inf)))
    below, above = y <= lower, y >= upper
    low = np.where(below, -np.inf, np.where(above, upper, y))
    return low, np.where(above, np.inf, np.where(below, lower, y))


def censored(y: np.ndarray, side: Side) -> np.ndarray:
    """Return a mask of the censored rows, whose values are only known to lie in an interval."""
    low, high = ends(y, side)
    return low != high


def within_bounds(values: np.ndarray, y: np.ndarray, side: Side) -> np.ndarray:
    """Return predictions comparable with y: clipped at the bounds; y itself if a censored row's interval contains it.

    Outside this interval, a censored row's error is its distance to the interval.
    """
    values = np.clip(values, side.get("lower", -np.inf), side.get("upper", np.inf))
    if "event" not in side and "until" not in side:
        return values
    return np.where(censored(y, side), y + values - np.clip(values, *ends(y, side)), values)
