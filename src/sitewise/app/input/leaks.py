"""Find columns that determine, or nearly determine, the target, and may not be known before it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from sitewise.tables import Table

MIN_ROWS = 30  # with fewer rows, near agreement with the target may be chance
MIN_ROWS_PER_CATEGORY = 10  # with fewer rows, a rule of one class per category fits by chance
MAX_ERROR_SHARE = 0.02  # of the rows that a rule on one column gets wrong
MAX_ERROR_RATIO = 0.1  # errors of the rule over the errors of always predicting the most frequent class
MIN_RANK_CORRELATION = 0.999
MAX_COMBINED = 4  # columns in a linear combination
MIN_LINEAR_R2 = 0.9995  # of a linear combination of columns that reproduces the target up to rounding
MIN_ROWS_PER_COEFFICIENT = 5  # with fewer rows, a linear combination fits by chance


def equals_target(table: Table, name: str, target: str, max_classes: int) -> bool:
    """Whether the column equals the target or recodes its classes one to one, as 0 and 1 for no and yes."""
    one, other = table.column(name), table.column(target)
    if one.dtype.kind == other.dtype.kind and np.all(one == other):
        return True
    pairs = list(zip(table.text(name), table.text(target), strict=True))
    if all(a == b for a, b in pairs):
        return True
    if any(a is None or b is None for a, b in pairs):
        return False
    kinds = [len(set(column)) for column in (*zip(*pairs, strict=True), pairs)]
    return len(set(kinds)) == 1 and kinds[0] <= max_classes < len(pairs)


def nearly_determines(table: Table, name: str, target: str, classifies: bool) -> str:
    """Return how the column nearly determines the target, to continue a sentence; empty if it does not."""
    there = np.flatnonzero(~table.missing(target))
    if len(there) < MIN_ROWS:
        return ""
    rows = table.take(there)
    numbers, y = rows.numbers(name), rows.text(target).astype(str)
    if classifies:
        counts = np.unique(y, return_counts=True)[1]
        wrong = _category_errors(rows, name, y) if numbers is None else _threshold_errors(numbers, y)
        if wrong > min(MAX_ERROR_SHARE * len(y), MAX_ERROR_RATIO * (len(y) - np.max(counts))):
            return ""
        return f"alone determines the class in {len(y) - wrong} of {len(y)} rows"
    values = rows.numbers(target)
    if numbers is None or values is None or np.any(np.isnan(numbers)):
        return ""
    correlation = np.corrcoef(_ranks(numbers), _ranks(values))[0, 1]
    if not abs(correlation) > MIN_RANK_CORRELATION:
        return ""
    return f"puts the rows in the same order as the target (rank correlation {correlation:.4f})"


def linear_combination(table: Table, names: Sequence[str], target: str) -> tuple[str, ...]:
    """Return the fewest numeric columns of which a linear combination is nearly the target; empty if there is none.

    Columns are added one by one, each time the one that explains most of what is left.
    """
    values = table.numbers(target)
    columns = {name: table.numbers(name) for name in names}
    numeric = {name: x for name, x in columns.items() if x is not None and np.ptp(np.nan_to_num(x)) > 0}
    if values is None or len(numeric) < 2:
        return ()
    whole = ~np.isnan(values) & np.all([~np.isnan(x) for x in numeric.values()], axis=0)
    y = values[whole] - np.mean(values[whole])
    limit = len(y) // MIN_ROWS_PER_COEFFICIENT - 1
    if len(y) < MIN_ROWS or not np.any(y):
        return ()
    left = {name: x[whole] - np.mean(x[whole]) for name, x in numeric.items()}
    chosen: list[str] = []
    rest = y
    while left and len(chosen) < min(limit, MAX_COMBINED):
        # Remaining columns are kept orthogonal to those chosen, so that each product is a partial correlation.
        sizes = {name: float(x @ x) for name, x in left.items()}
        best = max(left, key=lambda name: (left[name] @ rest) ** 2 / sizes[name] if sizes[name] > 0 else 0.0)
        if not sizes[best] > 0:
            return ()
        x = left.pop(best) / np.sqrt(sizes[best])
        rest = rest - (x @ rest) * x
        left = {name: other - (x @ other) * x for name, other in left.items()}
        chosen.append(best)
        if rest @ rest <= (1 - MIN_LINEAR_R2) * (y @ y):
            return tuple(chosen)
    return ()


def _category_errors(table: Table, name: str, y: np.ndarray) -> float:
    """Return the errors of predicting the most frequent class per category; a missing value is a category."""
    texts = table.text(name).astype(str)
    levels, codes = np.unique(texts, return_inverse=True)
    if len(y) < MIN_ROWS_PER_CATEGORY * len(levels):
        return np.inf
    classes, labels = np.unique(y, return_inverse=True)
    counts = np.zeros((len(levels), len(classes)), int)
    np.add.at(counts, (codes, labels), 1)
    return int(np.sum(counts) - np.sum(np.max(counts, axis=1)))


def _threshold_errors(values: np.ndarray, y: np.ndarray) -> float:
    """Return the errors of the best threshold on a numeric column for two classes; a missing value is the lowest.

    For more classes: 0 if each class is one interval of values, otherwise infinity.
    """
    classes = np.unique(y)
    filled = np.where(np.isnan(values), -np.inf, values)
    order = np.argsort(filled, kind="stable")
    if len(classes) != 2:
        ranges = sorted((np.min(filled[y == label]), np.max(filled[y == label])) for label in classes)
        apart = all(one[1] < other[0] for one, other in itertools.pairwise(ranges))
        return 0 if apart and len(ranges) > 1 else np.inf
    first = np.cumsum(y[order] == classes[0])
    ends = np.append(filled[order][1:] != filled[order][:-1], True)  # a threshold does not divide equal values
    low, total = first[ends], first[-1]
    size = np.flatnonzero(ends) + 1
    wrong = (size - low) + (total - low)  # class 0 below the threshold, class 1 above
    return int(np.min(np.minimum(wrong, len(y) - wrong)))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of the values; equal values share their average rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
