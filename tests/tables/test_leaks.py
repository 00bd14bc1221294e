"""Columns that nearly determine the target are named; ordinary predictors are not."""

import numpy as np
import pytest

from sitewise.tables import table_of
from sitewise.tables.leaks import equals_target, linear_combination, nearly_determines

RNG = np.random.default_rng(8)
ROWS = 200
VALUES = RNG.normal(size=ROWS)
LABELS = np.where(RNG.uniform(size=ROWS) < 0.4, "yes", "no")
CLASSES = RNG.integers(0, 3, ROWS)
COUNTS = RNG.poisson(3, ROWS)
ZEROS = np.where(RNG.uniform(size=ROWS) < 0.6, 0, np.exp(VALUES))
NOISE = RNG.uniform(-0.1, 0.1, ROWS)
FLIPPED = np.where(np.arange(ROWS) == 5, "no", LABELS)


@pytest.mark.parametrize(
    ("column", "target", "classifies", "words"),
    [
        (np.exp(VALUES) + 3, VALUES, False, "rank correlation 1.0000"),
        (-2 * VALUES, VALUES, False, "rank correlation -1.0000"),
        (VALUES + 0.2 * RNG.normal(size=ROWS), VALUES, False, ""),
        (RNG.permutation(VALUES), VALUES, False, ""),
        (np.where(FLIPPED == "yes", "boat", "none"), LABELS, True, " of 200 rows"),
        ([None if v == "yes" else "C22" for v in LABELS], LABELS, True, "in 200 of 200 rows"),  # missing for a class
        (np.where(LABELS == "yes", 1.0, -1.0) * (1 + RNG.uniform(size=ROWS)), LABELS, True, "in 200 of 200 rows"),
        (np.where(LABELS == "yes", 1.0, -1.0) + RNG.normal(size=ROWS), LABELS, True, ""),
        ([f"n{k % 90}" for k in range(ROWS)], LABELS, True, ""),  # too few rows per category
        (VALUES, np.digitize(VALUES, [-0.5, 0.5]).astype(str), True, "in 200 of 200 rows"),  # ratings of a scale
        (VALUES + 0.3 * RNG.normal(size=ROWS), np.digitize(VALUES, [-0.5, 0.5]).astype(str), True, ""),
        (VALUES, np.where(np.arange(ROWS) == 7, "rare", "common"), True, ""),
        (CLASSES + NOISE, np.array(["a", "b", "c"])[CLASSES], True, "in 200 of 200 rows"),  # several classes
        (CLASSES + NOISE, np.array(["b", "c", "a"])[CLASSES], True, "in 200 of 200 rows"),  # in another order
        (CLASSES + 5 * NOISE + VALUES, np.array(["a", "b", "c"])[CLASSES], True, ""),
        (COUNTS + NOISE, COUNTS, False, "rank correlation 1.0000"),  # the target has ties
        (ZEROS + 0.001 * NOISE, ZEROS, False, "rank correlation 1.0000"),
        (VALUES, np.ones(ROWS), False, ""),  # nothing to determine
        (VALUES, np.full(ROWS, "a"), True, ""),
        (np.where(COUNTS > 3, 1, 0), COUNTS, False, ""),
    ],
)
def test_near_copies_are_named(column, target, classifies, words):
    found = nearly_determines(table_of({"c": column, "y": target}), "c", "y", classifies)
    assert words in found and bool(found) == bool(words)


def test_the_best_threshold_has_the_fewest_errors_of_all():
    numbers = RNG.integers(0, 30, 60).astype(float)
    for flip in (0.0, 0.02, 0.5):
        y = np.where((numbers > 12) ^ (RNG.uniform(size=60) < flip), "b", "a")
        by_hand = min(
            min(np.sum((numbers > cut) == (y == "b")), np.sum((numbers > cut) != (y == "b"))) for cut in range(-1, 30)
        )
        found = nearly_determines(table_of({"c": numbers, "y": y}), "c", "y", True)
        assert bool(found) == (by_hand <= min(1.2, 0.1 * min(np.sum(y == "a"), np.sum(y == "b"))))


def test_few_rows_prove_nothing():
    assert not nearly_determines(table_of({"c": VALUES[:20], "y": VALUES[:20]}), "c", "y", False)


def test_a_target_that_is_a_sum_of_columns_is_noticed():
    low, high, other = RNG.normal(size=(3, ROWS))
    middle = np.round((low + high) / 2, 2)
    table = table_of({"low": low, "high": high, "other": other, "colour": LABELS, "y": middle})
    assert set(linear_combination(table, ["low", "other", "high", "colour"], "y")) == {"low", "high"}
    noisy = table_of({"low": low, "high": high, "y": middle + 0.1 * RNG.normal(size=ROWS)})
    assert linear_combination(noisy, ["low", "high"], "y") == ()


def test_many_columns_of_noise_explain_few_rows_only_by_chance():
    noise = RNG.normal(size=(40, 35))
    columns = {f"c{k}": noise[:, k] for k in range(35)}
    assert linear_combination(table_of({**columns, "y": RNG.normal(size=40)}), list(columns), "y") == ()


def test_long_tables_are_compared_in_evenly_spaced_rows():
    values = RNG.normal(size=9000)
    labels = np.where(values > 0, "yes", "no")
    words = nearly_determines(table_of({"c": values, "y": labels}), "c", "y", True)
    assert words == "alone determines the class in 2000 of 2000 compared rows"
    copy = np.where(np.arange(9000) == 4, "other", labels)  # the first compared rows are 0 and 4
    assert not equals_target(table_of({"c": copy, "y": labels}), "c", "y")
    copy = np.where(np.arange(9000) == 1, "other", labels)  # not compared first
    assert not equals_target(table_of({"c": copy, "y": labels}), "c", "y")
    assert equals_target(table_of({"c": labels == "yes", "y": labels}), "c", "y")
