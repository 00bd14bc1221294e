"""Distances of columns of very different widths: accurate, exactly zero for equal rows, and by few matrix products."""

import numpy as np
import pytest

from sitewise.kernels import distances
from sitewise.kernels.distances import squared_distances


def exact(A, B):
    return np.sum((A[:, None].astype(np.longdouble) - B) ** 2, axis=2).astype(float)


@pytest.mark.parametrize("widths", [[1, 1e-6, 1e-7, 30, 0], [1, 1e-3, 1e-5], [1e-8] * 3, [1e2, 1, 1e-9, 1e-9]])
def test_narrow_columns_keep_their_digits(widths, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, len(widths))) * widths
    X[30:] = X[:30]
    X[30:45, widths.index(min(w for w in widths if w))] += min(w for w in widths if w)  # differs in a narrow column
    found, wanted = squared_distances(X, X), exact(X, X)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=0)
    assert np.all(np.diagonal(found) == 0) and np.all(found[np.arange(45, 60), np.arange(15, 30)] == 0)
    new = rng.normal(size=(7, len(widths)))  # also wide where the table is narrow or constant
    np.testing.assert_allclose(squared_distances(new, X), exact(new, X), rtol=1e-9)
    monkeypatch.setattr(distances, "_by_column", None)  # no pass over the matrix per column
    squared_distances(X, X)


def test_most_rows_equal_in_the_wide_columns(monkeypatch):
    """Binary columns: the median distance from the origin is that of narrow columns."""
    rng = np.random.default_rng(0)
    X = (rng.uniform(size=(80, 6)) < 0.2) * [2.0, 1e-3, 1e-3, 3e-3, 0.0, 1e-2]
    monkeypatch.setattr(distances, "_by_column", None)
    np.testing.assert_allclose(squared_distances(X, X), exact(X, X), rtol=1e-8, atol=1e-15)


def test_a_far_row_still_takes_differences_column_by_column():
    X = np.array([[0.0, 0.0], [1e-3, 0.0], [1e9, 0.0], [0.0, 1e-5]])
    np.testing.assert_allclose(squared_distances(X, X), exact(X, X), rtol=1e-9)
