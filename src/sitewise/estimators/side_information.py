"""What is known about a row besides its observation, as keywords of fit, predict and score.

    exposure   counts                       time observed, area, people at risk: the mean count is exposure · rate
    trials     binomial, beta_binomial      of which y succeeded
    lower      lifetimes, censored_gaussian y ≤ lower means: somewhere below lower; −inf for no such bound
    upper      lifetimes, censored_gaussian y ≥ upper means: somewhere above upper; inf for no such bound
    event      lifetimes, censored_gaussian 1 where the end was seen at y, 0 where it was still to come (right-censored)
    until      lifetimes, censored_gaussian the value lies between y and until: equal if it was seen, inf for no end
    noise      heteroscedastic_gaussian     standard deviation of the measurement error of this row, in the units of y
    output     Switched                     which of its likelihoods the row has: 0, 1, 2, …

Each is one number for all rows, or one per row.  The estimators keep them as given; `table` makes of them the columns
that the likelihood takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sitewise.likelihoods import BY_NAME, Likelihood

Side = Mapping[str, np.ndarray]


class _Fact(NamedTuple):
    """`plain` is the value for new rows of which it is not given; None where it must be."""

    plain: float | None
    least: float
    about: str


_FACTS = {
    "exposure": _Fact(1.0, 0.0, "positive numbers"),
    "trials": _Fact(1.0, 0.0, "whole numbers of at least 1"),
    "lower": _Fact(-np.inf, -np.inf, "numbers, or -inf where there is no bound"),
    "upper": _Fact(np.inf, -np.inf, "numbers, or inf where there is no bound"),
    "event": _Fact(1.0, -1.0, "1 where the end was seen and 0 where it was not"),
    "until": _Fact(np.inf, -np.inf, "numbers of at least y, or inf where the end was not seen"),
    "noise": _Fact(None, 0.0, "standard deviations of the rows' errors, which are positive"),
    "output": _Fact(None, -1.0, "whole numbers 0, 1, 2, …, the place of each row's likelihood"),
}
CENSORING = ("lower", "upper", "event", "until")  # what is said about observed rows, and is unknown of new ones
KEYWORDS = tuple(_FACTS)
# scikit-learn's metadata routing passes them on without being asked.
REQUESTS = dict.fromkeys(KEYWORDS, True)
PREDICT_REQUESTS = {name: True for name in KEYWORDS if name not in CENSORING}


def read(likelihood: Likelihood, rows: int, given: Mapping[str, Any], fitting: bool = False) -> Side:
    """The given side information as one array per keyword, with one number per row; ValueError where it cannot be."""
    given = {name: value for name, value in given.items() if value is not None}
    for name in given:
        if name not in likelihood.keywords:
            takers = " or ".join(repr(kind.name) for kind in BY_NAME.values() if name in kind.keywords)
            what = likelihood.name or type(likelihood).__name__
            raise ValueError(f"{name} is for likelihood={takers}, but the likelihood is {what!r}; leave it out.")
    found = {name: _column(name, value, rows, fitting) for name, value in given.items()}
    if "lower" in found and "upper" in found and np.any(found["lower"] >= found["upper"]):
        raise ValueError("lower must be less than upper in every row; use -inf or inf where there is no bound.")
    ways = [way for way in (("lower", "upper"), ("event",), ("until",)) if any(name in found for name in way)]
    if len(ways) > 1:
        raise ValueError(
            f"{ways[0][0]} and {ways[1][0]} both say what is known of a row; give one of them: bounds, event or until."
        )
    return found


def _column(name: str, value: Any, rows: int, fitting: bool) -> np.ndarray:
    fact = _FACTS[name]
    try:
        column = np.array(value, float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold {fact.about}.") from None
    if column.ndim > 1 or (column.ndim == 1 and len(column) != rows):
        raise ValueError(f"{name} must be one number, or one for each of the {rows} rows; got shape {column.shape}.")
    bound = fact.least == -np.inf
    good = ~np.isnan(column) if bound else np.isfinite(column) & (column > fact.least)
    if name == "noise" and not fitting:
        good |= column == 0  # the function itself, without a measurement
    if name in ("trials", "output"):
        good &= column == np.floor(column)
    if name == "event":
        good &= (column == 0) | (column == 1)
    if not np.all(good):
        raise ValueError(f"{name} must hold {fact.about}; got {np.atleast_1d(column)[~np.atleast_1d(good)][0]:g}.")
    return np.broadcast_to(column, rows).copy()


def lacking(fitted: Side, given: Side) -> str | None:
    """Which keyword the model was fitted with that is not given, if there is one."""
    return next((name for name in fitted if name not in given), None)


def second_column(fitted: Side, given: Side, rows: int, needed: bool = True) -> tuple[np.ndarray, ...]:
    """The columns of the likelihood's table after the first at new rows, in the units of `given`; empty without any.

    Predictions of a censored value are those of the value itself, which bounds say nothing about.
    """
    columns = []
    for name in _in_order(fitted):
        if name not in given and _FACTS[name].plain is None and needed:
            raise ValueError(_NEEDED[name])
        column = given.get(name, np.full(rows, _FACTS[name].plain or 0.0))
        columns.append(column**2 if name == "noise" else column)
    return tuple(columns)


_NEEDED = {
    "noise": "This needs noise=, the standard deviation of the error of each new row; noise=0 describes the function "
    "itself, without a measurement.",
    "output": "This needs output=, which of the outputs each new row is of: 0, 1, 2, …",
}


def _in_order(side: Side) -> list[str]:
    """The names of the columns after the first, in the order of the likelihood's table."""
    return sorted((name for name in side if name not in CENSORING), key=lambda name: name != "output")


def in_units(side: Side, centre: float, scale: float) -> Side:
    """Bounds and deviations in the units in which the model sees y."""
    return {
        name: (v - centre) / scale if name in ("lower", "upper", "until") else v / scale if name == "noise" else v
        for name, v in side.items()
    }


def table(y: np.ndarray, side: Side) -> np.ndarray:
    """What the likelihood sees: y, or y with its further columns; censored values are pairs of low and high."""
    if not side:
        return y
    if any(name in side for name in CENSORING):
        return np.column_stack(ends(y, side))
    return np.column_stack([y, *(side[name] ** 2 if name == "noise" else side[name] for name in _in_order(side))])


def ends(y: np.ndarray, side: Side) -> tuple[np.ndarray, np.ndarray]:
    """Between which values each row's lies: both are y where it was observed."""
    if "until" in side:
        return y, side["until"]
    if "event" in side:
        return y, np.where(side["event"] == 1, y, np.inf)
    lower, upper = (side.get(name, np.full(len(y), none)) for name, none in (("lower", -np.inf), ("upper", np.inf)))
    below, above = y <= lower, y >= upper
    low = np.where(below, -np.inf, np.where(above, upper, y))
    return low, np.where(above, np.inf, np.where(below, lower, y))


def censored(y: np.ndarray, side: Side) -> np.ndarray:
    """Which rows were not observed, but are only known to lie between two ends."""
    low, high = ends(y, side)
    return low != high


def within_bounds(values: np.ndarray, y: np.ndarray, side: Side) -> np.ndarray:
    """Predictions as the observations are: cut off at the bounds; of a censored row y itself if between its ends."""
    values = np.clip(values, side.get("lower", -np.inf), side.get("upper", np.inf))
    if "event" not in side and "until" not in side:
        return values
    return np.where(censored(y, side), y + values - np.clip(values, *ends(y, side)), values)
