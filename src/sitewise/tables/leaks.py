"""Find columns that determine, or nearly determine, the target, and may not be known before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sitewise.tables.table import Table, listed

MIN_ROWS = 30  # with fewer rows, near agreement with the target may be chance
MIN_ROWS_PER_CATEGORY = 10  # with fewer rows, a rule of one class per category fits by chance
MAX_ERROR_SHARE = 0.02  # of the rows that a rule on one column gets wrong
MAX_ERROR_RATIO = 0.1  # errors of the rule over the errors of always predicting the most frequent class
MIN_RANK_CORRELATION = 0.999
MAX_COMBINED = 4  # columns in a linear combination
MIN_LINEAR_R2 = 0.9995  # of a linear combination of columns that reproduces the target up to rounding
MIN_ROWS_PER_COEFFICIENT = 5  # with fewer rows, a linear combination fits by chance
MAX_CLASSES = 20
MAX_COMPARED_ROWS = 2000  # evenly spaced rows of a longer table


class Leak(NamedTuple):
    """Columns that determine the target: in every row if `equal`, otherwise nearly."""

    columns: tuple[str, ...]
    what: str
    equal: bool = False

    def sentence(self, advice: str) -> str:
        """Return a sentence for the user; `advice` names the settings that leave the columns out or keep them."""
        those = "it is" if len(self.columns) == 1 else "these columns are"
        return f"{self.what}; if {those} computed from the target or known only after it, say {advice}."


def leaks(table: Table, names: Sequence[str], target: str, classifies: bool) -> list[Leak]:
    """Return the columns that determine the target alone, and the further columns that do so together."""
    found = []
    for name in names:
        if equals_target(table, name, target):
            found.append(Leak((name,), f"column {name!r} determines the target in every row", equal=True))
        elif how := nearly_determines(table, name, target, classifies):
            found.append(Leak((name,), f"column {name!r} {how}"))
    alone = {name for leak in found for name in leak.columns}
    rest = [name for name in names if name not in alone]
    if not classifies and (together := linear_combination(table, rest, target)):
        found.append(Leak(together, f"a linear combination of the columns {listed(together)} is nearly the target"))
    return found


def equals_target(table: Table, name: str, target: str) -> bool:
    """Whether the column equals the target or recodes its classes one to one, as 0 and 1 for no and yes."""
    some = _compared_rows(table, name, target)
    return _equals(some, name, target) and (some.rows == table.rows or _equals(table, name, target))


def _equals(table: Table, name: str, target: str) -> bool:
    one, other = table.column(name), table.column(target)
    if one.dtype.kind == other.dtype.kind and np.all(one == other):
        return True
    pairs = list(zip(table.text(name), table.text(target), strict=True))
    if all(a == b for a, b in pairs):
        return True
    if any(a is None or b is None for a, b in pairs):
        return False
    kinds = [len(set(column)) for column in (*zip(*pairs, strict=True), pairs)]
    return len(set(kinds)) == 1 and kinds[0] <= MAX_CLASSES < len(pairs)


def nearly_determines(table: Table, name: str, target: str, classifies: bool) -> str:
    """Return how the column nearly determines the target, to continue a sentence; empty if it does not."""
    some = _compared_rows(table, name, target)
    rows = some.take(np.flatnonzero(~some.missing(target)))
    if rows.rows < MIN_ROWS:
        return ""
    numbers, y = rows.numbers(name), rows.text(target).astype(str)
    if np.all(y == y[0]):
        return ""
    if classifies:
        counts = np.unique(y, return_counts=True)[1]
        wrong = _category_errors(rows, name, y) if numbers is None else _threshold_errors(numbers, y)
        if wrong > min(MAX_ERROR_SHARE * len(y), MAX_ERROR_RATIO * (len(y) - np.max(counts))):
            return ""
        compared = "compared rows" if some.rows < table.rows else "rows"
        return f"alone determines the class in {len(y) - wrong} of {len(y)} {compared}"
    values = rows.numbers(target)
    if numbers is None or values is None or np.any(np.isnan(numbers)):
        return ""
    rising, falling = _order_agreement(numbers, values), -_order_agreement(-numbers, values)
    correlation = max(rising, falling, key=abs)
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


def _compared_rows(table: Table, name: str, target: str) -> Table:
    """Return the two columns, with at most MAX_COMPARED_ROWS evenly spaced rows."""
    table = dataclasses.replace(table, columns={key: table.column(key) for key in (name, target)})
    if table.rows <= MAX_COMPARED_ROWS:
        return table
    return table.take(np.linspace(0, table.rows - 1, MAX_COMPARED_ROWS).astype(int))


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
    """Return the errors of the best thresholds on a numeric column, with one interval per class.

    The intervals are in the order of the classes' mean ranks, or reversed; a missing value is the lowest.  With the
    rows sorted by the column and W_k(i) the number of the first i rows that are not of class k, the fewest errors of
    the first i rows in the first k intervals are

        E_k(i) = min_{j ≤ i} [E_{k−1}(j) − W_k(j)] + W_k(i),     E_0(0) = 0.
    """
    filled = np.where(np.isnan(values), -np.inf, values)
    classes, labels = np.unique(y, return_inverse=True)
    ranks = _ranks(filled)
    order = np.argsort([np.mean(ranks[labels == k]) for k in range(len(classes))])
    rows = np.argsort(filled, kind="stable")
    ends = np.append(True, np.append(np.diff(ranks[rows]) > 0, True))  # a threshold does not divide equal values
    fewest = np.inf
    for intervals in (order, order[::-1]):
        errors = np.where(np.arange(int(np.sum(ends))) == 0, 0.0, np.inf)
        for k in intervals:
            others = np.append(0, np.cumsum(labels[rows] != k))[ends]
            errors = np.minimum.accumulate(errors - others) + others
        fewest = min(fewest, float(errors[-1]))
    return int(fewest)


def _order_agreement(numbers: np.ndarray, values: np.ndarray) -> float:
    """Return the correlation of the ranks of the values, in the order of the numbers, with the sorted ranks.

    Equal values may come in any order of the numbers.  Equal numbers take the values in falling order, so that they
    contribute no agreement.
    """
    ranks = _ranks(values)
    return float(np.corrcoef(ranks[np.lexsort((-ranks, numbers))], np.sort(ranks))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of the values; equal values share their average rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
