"""Products of NumPy matrices of which only a part is computed."""

import numpy as np
import pytest

from sitewise.numerics.dense import lapack


@pytest.mark.parametrize("columns", [40, 600, 613])  # in one piece, and in blocks of equal and of unequal size
def test_symmetric_products_are_complete(columns):
    rng = np.random.default_rng(0)
    A, weight = rng.normal(size=(50, columns)), rng.normal(size=50)
    found = lapack.symmetric_product(A, weight[:, None] * A)
    np.testing.assert_allclose(found, A.T @ np.diag(weight) @ A, atol=1e-12)
