import numpy as np
import pytest

from sitewise.numerics.dense.whitening import whitening


@pytest.mark.parametrize("origin", [0.0, 2000.0])
def test_whitened_columns_are_orthonormal_over_weighted_rows(origin):
    rng = np.random.default_rng(0)
    x, weight = rng.normal(size=30) + origin, rng.integers(0, 3, 30).astype(float)
    table = np.column_stack([x, x**2, 1e6 * rng.normal(size=30)])
    centre = np.average(table, axis=0, weights=weight)
    z = (table - centre) @ whitening(table, centre, weight)
    np.testing.assert_allclose((z * weight[:, None]).T @ z / weight.sum(), np.eye(3), atol=1e-5)


def test_columns_that_other_columns_determine_keep_a_finite_prior():
    x = np.random.default_rng(0).normal(size=20)
    table = np.column_stack([x, 2 * x + 1, np.full(20, 0.1)])
    W = whitening(table, table.mean(axis=0))
    covariance = W @ W.T
    assert np.all(np.diag(covariance) < 3) and np.isclose(covariance[2, 2], 1.0)
    combined = np.array([1.0, 2.0, 0.0])  # the effect of x on x and 2 x + 1 has the variance 1
    moved = table - table.mean(axis=0)
    np.testing.assert_allclose(np.mean(np.einsum("ni,ij,nj->n", moved, covariance, moved)), 1.0)
    assert np.all(combined @ covariance @ combined > 0)


def test_more_columns_than_rows():
    table = np.random.default_rng(0).normal(size=(4, 7))
    W = whitening(table, table.mean(axis=0))
    assert W.shape == (7, 7) and np.all(np.isfinite(W)) and np.linalg.matrix_rank(W) == 7
