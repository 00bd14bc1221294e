"""Products of NumPy matrices of which only a part is computed."""

import numpy as np
import pytest
import scipy.linalg.lapack

from sitewise.numerics.dense import lapack


@pytest.mark.parametrize("columns", [40, 600, 613])  # in one piece, and in blocks of equal and of unequal size
def test_symmetric_products_are_complete(columns):
    rng = np.random.default_rng(0)
    A, weight = rng.normal(size=(50, columns)), rng.normal(size=50)
    found = lapack.symmetric_product(A, weight[:, None] * A)
    np.testing.assert_allclose(found, A.T @ np.diag(weight) @ A, atol=1e-12)


@pytest.mark.parametrize("rows", [1, 100, 300, 700])  # in one block, by LAPACK, and by products of blocks
def test_triangles_are_factorised_inverted_and_multiplied(rows):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(rows, rows))
    K = A @ A.T / rows + np.eye(rows)
    L = lapack.cholesky(K.copy())
    H = lapack.lower_inverse(L)
    for triangle in (L, H):
        np.testing.assert_array_equal(triangle, np.tril(triangle))
    np.testing.assert_allclose(L @ L.T, K, atol=1e-12)
    np.testing.assert_allclose(H @ L, np.eye(rows), atol=1e-12)
    gram = lapack.lower_gram(H)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(gram @ K, np.eye(rows), atol=1e-11)
    np.testing.assert_allclose(lapack.lower_times(H, A[:, :3]), H @ A[:, :3], atol=1e-12)


@pytest.mark.parametrize("rows", [100, 700])
@pytest.mark.parametrize("entry", [-1.0, np.nan])
def test_a_matrix_that_is_not_positive_definite_has_a_factor_of_nan(rows, entry):
    A = np.eye(rows)
    A[rows // 2, rows // 2] = entry
    assert np.isnan(lapack.cholesky(A)[-1, -1])


def test_large_matrices_are_left_to_numpy_which_releases_the_lock_of_python(monkeypatch):
    sizes = []

    class Watched:
        def __getattr__(self, name):
            routine = getattr(scipy.linalg.lapack, name)
            return lambda matrix, **kwargs: sizes.append(len(matrix)) or routine(matrix, **kwargs)

    monkeypatch.setattr(lapack, "lapack", Watched())
    K = np.eye(700) + 1 / 700
    lapack.lower_gram(lapack.lower_inverse(lapack.cholesky(K)))
    assert sizes and max(sizes) <= 64  # the blocks on the diagonal of the inverse
