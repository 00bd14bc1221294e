"""Splines and local fits of scattered points: against SciPy, and exact for linear functions."""

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator

from sitewise.numerics.dense.scattered_data import cubic_spline, local_linear_shares


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_spline_is_that_of_scipy(size):
    rng = np.random.default_rng(size)
    points, new = rng.normal(size=(40, size)), rng.normal(size=(9, size))
    values = np.sin(points.sum(axis=1))
    peer = RBFInterpolator(points, values, kernel="cubic", degree=1, smoothing=1e-6)
    spline = cubic_spline(points, values, 1e-6)
    np.testing.assert_allclose(spline.at(new), peer(new), rtol=0, atol=1e-6 * np.max(np.abs(values)))
    np.testing.assert_allclose(spline.at(points), values, rtol=0, atol=1e-4)


def test_too_few_points_and_equal_points():
    points = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert np.all(cubic_spline(points, np.ones(2), 1e-6).at(points) == 0)
    equal = np.concatenate([np.eye(2), np.eye(2), [[2.0, 2.0]]])
    assert np.all(np.isfinite(cubic_spline(equal, np.arange(5.0), 1e-6).at(equal)))


def test_a_local_fit_is_exact_for_linear_functions():
    rng = np.random.default_rng(0)
    points, place = rng.normal(size=(12, 3)), rng.normal(size=3)
    values = 2.0 + points @ [1.0, -3.0, 0.5]
    assert local_linear_shares(points - place, 0.05) @ values == pytest.approx(2.0 + place @ [1.0, -3.0, 0.5], rel=1e-6)
    on_a_line = np.outer(np.arange(12.0), [1.0, 2.0, 3.0])
    assert np.all(np.isfinite(local_linear_shares(on_a_line, 0.05)))
