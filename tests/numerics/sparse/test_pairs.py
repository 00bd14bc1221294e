"""Distinct pairs of variables."""

from __future__ import annotations

import numpy as np
import pytest

from sitewise.numerics.sparse.neighbours import coarse_to_fine
from sitewise.numerics.sparse.pairs import distinct_pairs


@pytest.mark.parametrize("count", [0, 1, 300])
def test_distinct_pairs_equal_unique(count: int) -> None:
    rng = np.random.default_rng(count)
    one, other = rng.integers(3, 40, (2, count))
    i, j, number = distinct_pairs(one, other, 50)
    keys = np.maximum(one, other) * 50 + np.minimum(one, other)
    want, place = np.unique(keys, return_inverse=True)
    np.testing.assert_array_equal(i * 50 + j, want)
    np.testing.assert_array_equal(number, place)


def test_the_first_places_of_the_order_lie_in_different_cells() -> None:
    at = np.random.default_rng(0).uniform(size=(500, 2))
    at = (at - at.min(axis=0)) / np.ptp(at, axis=0).max()
    order = coarse_to_fine(at)
    assert sorted(order) == list(range(500))
    for level in (1, 2, 3):
        cells = {tuple(cell) for cell in np.minimum(at * 2**level, 2**level - 1).astype(int)}
        first = np.minimum(at[order[: len(cells)]] * 2**level, 2**level - 1).astype(int)
        assert {tuple(cell) for cell in first} == cells
