"""What `n_inducing` and `inducing` of an estimator may be."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from sitewise.priors.inducing import SECONDS, SELECTIONS, how_many

REFRESHED, TRAINED = "refreshed", "trained"  # k-means, and then by learning
CHOICES = (*SELECTIONS, REFRESHED, TRAINED)
_WANTED = "a whole number of at least 1, 'auto', a time such as '60s', or None"


def check_choice(inducing: Any) -> bool:
    """Whether the inducing inputs are given as a table; ValueError for an unknown way of choosing them."""
    if isinstance(inducing, str) and inducing not in CHOICES:
        raise ValueError(f"inducing must be one of {', '.join(map(repr, CHOICES))}, or a table; got {inducing!r}.")
    return not isinstance(inducing, str)


def seconds_of(n_inducing: str) -> float:
    """The time that "auto", or a text such as "60s", allows for a fit."""
    if n_inducing == "auto":
        return SECONDS
    try:
        seconds = float(n_inducing.removesuffix("s")) if n_inducing.endswith("s") else np.nan
    except ValueError:
        seconds = np.nan
    if not 0 < seconds < np.inf:
        raise ValueError(f"n_inducing must be {_WANTED}; got {n_inducing!r}.")
    return seconds


def count_of(n_inducing: Any, rows: int, fits: int, classes: int, teaching: int | None = None) -> int | None:
    """The number of inducing inputs; None for the full GP.  `teaching` is that of `how_many`."""
    if n_inducing is None:
        return None
    if isinstance(n_inducing, str):
        return how_many(rows, seconds_of(n_inducing), fits=fits, classes=classes, teaching=teaching)
    if isinstance(n_inducing, bool) or not isinstance(n_inducing, numbers.Integral) or n_inducing < 1:
        raise ValueError(f"n_inducing must be {_WANTED}; got {n_inducing!r}.")
    return int(n_inducing)
