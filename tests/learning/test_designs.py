"""Rules for the standard normal density."""

import numpy as np
import pytest

from sitewise.learning.designs import central_composite, grid


@pytest.mark.parametrize("dimensions", range(1, 9))
def test_moments_up_to_the_third_are_those_of_a_normal_vector(dimensions):
    z, w = central_composite(dimensions)
    assert np.isclose(w.sum(), 1) and np.all(w > 0) and np.all(z[0] == 0)
    np.testing.assert_allclose(w @ z, 0, atol=1e-12)
    np.testing.assert_allclose(np.einsum("k,ki,kj->ij", w, z, z), np.eye(dimensions), atol=1e-12)
    np.testing.assert_allclose(np.einsum("k,ki,kj,kl->ijl", w, z, z, z), 0, atol=1e-12)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_grid_is_exact_for_polynomials_of_degree_nine(dimensions):
    z, w = grid(dimensions)
    assert len(z) == 5**dimensions
    np.testing.assert_allclose(w @ z[:, 0] ** 8, 105)  # 7!!
    np.testing.assert_allclose(w @ z[:, -1] ** 9, 0, atol=1e-9)
