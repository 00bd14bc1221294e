"""What is known about a row besides its observation, as keywords of fit, predict and score.

    exposure   poisson, negative_binomial   time observed, area, people at risk: the mean count is exposure · rate
    trials     binomial                     of which y succeeded
    lower      censored_gaussian            y ≤ lower means: somewhere below lower; −inf for no such bound
    upper      censored_gaussian            y ≥ upper means: somewhere above upper; inf for no such bound
    noise      heteroscedastic_gaussian     standard deviation of the measurement error of this row, in the units of y

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
    "noise": _Fact(None, 0.0, "standard deviations of the rows' errors, which are positive"),
}
KEYWORDS = tuple(_FACTS)
# scikit-learn's metadata routing passes them on without being asked.
REQUESTS = dict.fromkeys(KEYWORDS, True)
PREDICT_REQUESTS = dict.fromkeys(("exposure", "trials", "noise"), True)


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
    if name == "trials":
        good &= column == np.floor(column)
    if not np.all(good):
        raise ValueError(f"{name} must hold {fact.about}; got {np.atleast_1d(column)[~np.atleast_1d(good)][0]:g}.")
    return np.broadcast_to(column, rows).copy()


def lacking(fitted: Side, given: Side) -> str | None:
    """Which keyword the model was fitted with that is not given, if there is one."""
    return next((name for name in fitted if name not in given), None)


def second_column(fitted: Side, given: Side, rows: int, needed: bool = True) -> tuple[np.ndarray, ...]:
    """The second column of the likelihood's table at new rows, in the units of `given`; empty where there is none.

    Predictions of a censored value are those of the value itself, which bounds say nothing about.
    """
    names = [name for name in fitted if name not in ("lower", "upper")]
    if not names:
        return ()
    (name,) = names
    if name not in given and _FACTS[name].plain is None and needed:
        raise ValueError(
            f"This needs {name}=, the standard deviation of the error of each new row; {name}=0 describes the function "
            "itself, without a measurement."
        )
    column = given.get(name, np.full(rows, _FACTS[name].plain or 0.0))
    return (column**2 if name == "noise" else column,)


def in_units(side: Side, centre: float, scale: float) -> Side:
    """Bounds and deviations in the units in which the model sees y."""
    return {
        name: (v - centre) / scale if name in ("lower", "upper") else v / scale if name == "noise" else v
        for name, v in side.items()
    }


def table(y: np.ndarray, side: Side) -> np.ndarray:
    """What the likelihood sees: y, or y with its second column; censored values are pairs of low and high."""
    if not side:
        return y
    if "lower" in side or "upper" in side:
        below, above = censored(y, side)
        low = np.where(below, -np.inf, np.where(above, side.get("upper", y), y))
        high = np.where(above, np.inf, np.where(below, side.get("lower", y), y))
        return np.column_stack([low, high])
    ((name, column),) = side.items()
    return np.column_stack([y, column**2 if name == "noise" else column])


def censored(y: np.ndarray, side: Side) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are only known to lie below their lower bound, and which above their upper one."""
    return y <= side.get("lower", np.full(len(y), -np.inf)), y >= side.get("upper", np.full(len(y), np.inf))


def within_bounds(values: np.ndarray, side: Side) -> np.ndarray:
    """Predictions cut off at the bounds, as the observations are."""
    return np.clip(values, side.get("lower", -np.inf), side.get("upper", np.inf))
