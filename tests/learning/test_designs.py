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


def test_a_grid_of_one_dimension_is_exact_for_polynomials_of_degree_nine():
    z, w = grid(1)
    np.testing.assert_allclose(w @ z[:, 0] ** 8, 105)  # 7!!
    np.testing.assert_allclose(w @ z[:, 0] ** 9, 0, atol=1e-9)


def test_a_grid_of_two_dimensions_is_exact_for_polynomials_of_degree_seven():
    z, w = grid(2)
    moment = {0: 1, 2: 1, 4: 3, 6: 15}
    for i in range(8):
        for j in range(8 - i):
            exact = moment.get(i, 0) * moment.get(j, 0)
            np.testing.assert_allclose(w @ (z[:, 0] ** i * z[:, 1] ** j), exact, atol=1e-9)
