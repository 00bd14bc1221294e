"""Equal rows are merged."""

import numpy as np

from sitewise.estimators import distinct_rows


def test_equal_rows_become_one_with_their_weights_in_the_order_of_unique(monkeypatch):
    monkeypatch.setattr(distinct_rows, "ROWS_PER_BLOCK", 7)
    rng = np.random.default_rng(0)
    X, y = rng.integers(-1, 2, (60, 2)) * 1.0, rng.integers(0, 2, 60) * 1.0
    weight = rng.integers(0, 3, 60) * 1.0
    found, kept = distinct_rows.merge(X, y, weight), weight > 0
    table, inverse = np.unique(np.column_stack([X, y])[kept], axis=0, return_inverse=True)
    np.testing.assert_array_equal(np.column_stack([found.data.X, found.data.y]), table)
    np.testing.assert_array_equal(found.place[kept], inverse.ravel())
    np.testing.assert_array_equal(found.data.weight, np.bincount(inverse.ravel(), weight[kept]))
    assert np.all(found.place[~kept] == -1)
