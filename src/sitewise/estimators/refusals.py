"""Refuse categories, strings, dates and missing values in X, and missing, labelled or several y, with advice."""

from __future__ import annotations

from typing import Any

import numpy as np

from sitewise.tables.table import refuse_duplicates

_NUMERIC_KINDS = "biufcM"
_MAX_SHOWN_ROWS = 5  # in an error message; also of columns
_MISSING_AS_STRING = ("nan", "NaN", "<NA>", "NaT")  # as astype(str) writes a missing value


def refuse_unusable_columns(X: Any, estimator: str) -> None:
    """Raise ValueError if X has no columns or columns of one name, or contains dates, durations or strings."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        refuse_duplicates(X.columns, "X")
        if len(X.columns) == 0:
            raise ValueError("X has no columns; give at least one.")
    found: Any = getattr(X, "dtypes", getattr(X, "dtype", None))  # per column, or of the whole array
    kinds = [getattr(kind, "kind", "O") for kind in (found if hasattr(found, "__iter__") else [found])]
    if "M" in kinds:
        raise ValueError(
            "X holds dates; give numbers, such as the days since the first: (d - d.min()).dt.days, or use TableEncoder."
        )
    if "m" in kinds:
        raise ValueError("X holds durations; give numbers, such as the days: d.dt.days.")
    if categories := [str(kind) for kind in np.atleast_1d(np.asarray(found, object)) if str(kind) == "category"]:
        raise ValueError(
            f"X holds {len(categories)} columns of type category, which would become numbers; use "
            f"make_pipeline(TableEncoder(), {estimator}()), or convert them to numbers."
        )
    if hasattr(X, "tocsr") or all(kind in _NUMERIC_KINDS for kind in kinds):
        return
    strings = [cell for cell in np.asarray(X, object).ravel() if isinstance(cell, str) and not _is_number(cell)]
    if strings:
        raise ValueError(
            f"X holds strings such as {strings[0]!r}; use make_pipeline(TableEncoder(), {estimator}()), which encodes "
            "categories, dates and units."
        )


def refuse_missing_inputs(X: Any, estimator: str) -> None:
    """Raise ValueError if X contains NaN, None or pandas' NA, and name the columns."""
    if hasattr(X, "isna"):
        absent = np.asarray(X.isna())
    elif isinstance(X, np.ndarray) and X.dtype.kind in "fO" and X.size:
        absent = np.isnan(X) if X.dtype.kind == "f" else np.vectorize(_is_missing, [bool])(X)
    else:  # scikit-learn refuses missing values in other tables
        return
    if absent.ndim == 2 and absent.any():
        names = [str(name) for name in getattr(X, "columns", range(absent.shape[1]))]
        columns = [repr(names[k]) if hasattr(X, "columns") else names[k] for k in np.flatnonzero(absent.any(axis=0))]
        more = f" and {len(columns) - _MAX_SHOWN_ROWS} more" if len(columns) > _MAX_SHOWN_ROWS else ""
        rows = f"{np.sum(absent.any(axis=1))} of {len(absent)} rows"
        raise ValueError(
            f"Input X contains NaN or None in column {', '.join(columns[:_MAX_SHOWN_ROWS])}{more}, in {rows}; use "
            f"make_pipeline(TableEncoder(impute=True), {estimator}()), or leave these rows out."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def refuse_missing_targets(y: Any) -> None:
    """Raise ValueError if y contains None, NaN or pandas' NA, also as the string "nan", and name the rows."""
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
    if isinstance(value, str):
        return value in _MISSING_AS_STRING
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def refuse_labels(y: Any) -> None:
    """Raise ValueError if y contains dates, durations, or strings that are no numbers, such as "3+"."""
    if getattr(getattr(y, "dtype", None), "kind", "") in ("M", "m"):
        raise ValueError(
            "y holds dates or durations, but GPRegressor needs numbers, such as the days since the first date: "
            "(d - d.min()).dt.days."
        )
    if isinstance(dtype := getattr(y, "dtype", None), np.dtype) and dtype.kind in _NUMERIC_KINDS:
        return
    labels = [value for value in np.ravel(np.asarray(y, object)) if isinstance(value, str) and not _is_number(value)]
    if labels:
        raise ValueError(
            f"y holds the label {str(labels[0])!r}, but GPRegressor needs numbers; use GPClassifier for classes, or "
            "GPOrdinal for ordered classes."
        )


def refuse_tables(y: Any) -> None:
    """Raise ValueError if y has several columns, and name the keywords for side information."""
    shape: tuple[int, ...] = getattr(y, "shape", None) or np.shape(y[:1] if isinstance(y, list | tuple) else 0.0)
    if len(shape) > 1 and shape[1] > 1:
        raise ValueError(
            f"y must be one number per row, but it has {shape[1]} columns; exposure, trials, bounds and error bars are "
            "keywords, as in fit(X, y, exposure=e), trials=n, event=d, lower=a, upper=b or noise=s."
        )
