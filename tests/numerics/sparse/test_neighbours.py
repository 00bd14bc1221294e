"""Nearest places: the order does not depend on the tree, and equally near places come in their own order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import cKDTree

from sitewise.numerics.sparse.neighbours import nearest

RNG = np.random.default_rng(4)
GRID = np.stack(np.meshgrid(np.arange(9.0), np.arange(8.0)), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize("places", [RNG.normal(size=(60, 3)), RNG.permutation(GRID), np.repeat(GRID[:5], 12, axis=0)])
@pytest.mark.parametrize("count", [1, 4, 20, 60])
def test_nearest_places_are_those_of_a_stable_sort(places: np.ndarray, count: int) -> None:
    at = places[:10] + 0.5 * RNG.integers(0, 2, places[:10].shape)
    away = sum((places[:, j] - at[:, j, None]) ** 2 for j in range(places.shape[1]))
    expected = np.argsort(away, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(nearest(cKDTree(places), at, count), expected)
