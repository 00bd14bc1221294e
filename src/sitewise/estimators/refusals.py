"""Refuse strings and dates in X, and missing targets or several columns in y, each with a sentence on what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

_NUMERIC_KINDS = "biufcM"
_MAX_SHOWN_ROWS = 5  # in an error message


def refuse_dates_and_strings(X: Any, estimator: str) -> None:
    """Raise ValueError if X contains dates, which scikit-learn would convert to nanoseconds, or strings."""
    found: Any = getattr(X, "dtypes", getattr(X, "dtype", None))  # per column, or of the whole array
    kinds = [getattr(kind, "kind", "O") for kind in (found if hasattr(found, "__iter__") else [found])]
    if "M" in kinds:
        raise ValueError(
            "X holds dates; give numbers, such as the days since the first: (d - d.min()).dt.days, or use TableEncoder."
        )
    if hasattr(X, "tocsr") or all(kind in _NUMERIC_KINDS for kind in kinds):
        return
    strings = [cell for cell in np.asarray(X, object).ravel() if isinstance(cell, str) and not _is_number(cell)]
    if strings:
        raise ValueError(
            f"X holds strings such as {strings[0]!r}; use make_pipeline(TableEncoder(), {estimator}()), which encodes "
            "categories, dates and units."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def refuse_missing_targets(y: Any) -> None:
    """Raise ValueError if y contains None, NaN or pandas' NA, and name the rows."""
    if y is None or hasattr(y, "tocsr"):
        return
    numeric = isinstance(dtype := getattr(y, "dtype", None), np.dtype) and dtype.kind in _NUMERIC_KINDS
    values = np.asarray(y) if numeric else np.asarray(y, object)
    if values.ndim != 1 and values.shape[1:] != (1,):
        return
    absent = values != values if numeric else np.array([_is_missing(value) for value in values.ravel()], bool)
    rows = [str(k) for k in np.flatnonzero(absent)]
    if rows:
        one, this = ("row", "this row") if len(rows) == 1 else ("rows", "these rows")
        more = f" and {len(rows) - _MAX_SHOWN_ROWS} more" if len(rows) > _MAX_SHOWN_ROWS else ""
        raise ValueError(
            f"Input y contains NaN or None in {one} {', '.join(rows[:_MAX_SHOWN_ROWS])}{more}, counted from 0; leave "
            f"{this} out, or fill in the target."
        )


def _is_missing(value: Any) -> bool:
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def refuse_tables(y: Any) -> None:
    """Raise ValueError if y has several columns, and name the keywords for side information."""
    shape: tuple[int, ...] = getattr(y, "shape", None) or np.shape(y[:1] if isinstance(y, list | tuple) else 0.0)
    if len(shape) > 1 and shape[1] > 1:
        raise ValueError(
            f"y must be one number per row, but it has {shape[1]} columns; exposure, trials, bounds and error bars are "
            "keywords, as in fit(X, y, exposure=e), trials=n, event=d, lower=a, upper=b or noise=s."
        )
