"""An array of inputs that carries the names of its columns to the next step of a Pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class NamedArray(np.ndarray):
    """A NumPy array with the names of its columns, `column_names`; every array computed from it is without names.

    scikit-learn passes names between the steps of a Pipeline in data frames only.  This array needs no data frame
    library, is the same for every kind of table, and is an ordinary array to every other step.
    """

    column_names: tuple[str, ...]

    @classmethod
    def of(cls, values: np.ndarray, names: Sequence[str]) -> NamedArray:
        found = values.view(cls)
        found.column_names = tuple(names)
        return found


def names_of(X: Any) -> tuple[str, ...]:
    """Return the column names that a `NamedArray` carries; () for other data."""
    return getattr(X, "column_names", ()) if isinstance(X, NamedArray) else ()
