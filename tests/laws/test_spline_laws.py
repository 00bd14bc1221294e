"""A spline with all knots is the smoothing spline; curves are orthogonal to lines, and straight beyond the knots."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import make_smoothing_spline

from sitewise import VI, Data, Model, likelihoods, parts, posterior
from sitewise.numerics.dense.cubic_splines import SplineBasis


def basis(seed: int = 0, count: int = 12) -> SplineBasis:
    return SplineBasis.of(np.sort(np.random.default_rng(seed).uniform(-3, 50, count)))


def test_the_roughness_is_a_sum_of_squares() -> None:
    found = basis()
    x = np.linspace(found.knots[0], found.knots[-1], 20_001)
    second = np.stack([np.interp(x, found.knots, column) for column in found.curvatures.T], axis=1)
    products = np.trapezoid(second[:, :, None] * second[:, None, :], x, axis=0)
    np.testing.assert_allclose(products / products[0, 0], np.eye(10), atol=1e-5)
    curve = found.at(x)
    by_differences = np.diff(curve, 2, axis=0) / (x[1] - x[0]) ** 2
    at_knots = np.searchsorted(found.knots, x[2:]) != np.searchsorted(found.knots, x[:-2])  # the slope of f'' jumps
    np.testing.assert_allclose(by_differences[~at_knots], second[1:-1][~at_knots], atol=1e-3 * np.abs(second).max())


def test_curves_are_orthogonal_to_straight_lines_and_have_variance_one() -> None:
    found = basis(1)
    np.testing.assert_allclose(found.at(found.knots), found.values, atol=1e-12)
    np.testing.assert_allclose(found.values.sum(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(found.knots @ found.values, 0.0, atol=1e-8)
    assert np.isclose(np.mean(np.sum(found.values**2, axis=1)), 1.0)
    beyond = found.at(found.knots[-1] + np.arange(4.0))
    np.testing.assert_allclose(np.diff(beyond, 2, axis=0), 0.0, atol=1e-10)


def test_the_posterior_mean_is_the_smoothing_spline() -> None:
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(0, 10, 40))
    y = np.sin(x) + 0.3 * rng.normal(size=40)
    part = parts.Spline(0, knots=tuple(x), variance=2.0, slope_variance=1e7)
    model = Model.latent([part, parts.Constant(variance=1e7)], likelihoods.Gaussian(0.3))
    data = Data.of(x[:, None], y)
    new = np.linspace(-2, 12, 30)
    found = posterior(model, data, VI().solve(model, data).sites).f(new[:, None])[0]
    own = SplineBasis.of(x)
    curvatures = own.curvatures[:, 0]
    h = np.diff(x)
    roughness = np.sum(h / 3 * (curvatures[:-1] ** 2 + curvatures[:-1] * curvatures[1:] + curvatures[1:] ** 2))
    want = make_smoothing_spline(x, y, lam=0.3**2 / (2.0 * roughness))
    inside = (new > x[0]) & (new < x[-1])
    np.testing.assert_allclose(found[inside], want(new[inside]), atol=1e-5)
    end = want(x[-1]) + want(x[-1], nu=1) * (new[new > x[-1]] - x[-1])
    np.testing.assert_allclose(found[new > x[-1]], end, atol=1e-4)
