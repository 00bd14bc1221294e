"""Quantiles invert the distribution function, of one Gaussian and of mixtures; intervals hold their share."""

import numpy as np
import pytest

from sitewise import GPRegressor, Method, likelihoods
from sitewise.fitted.mixture import Mixture, repeated

LEVELS = np.array([0.05, 0.5, 0.95])
RNG = np.random.default_rng(1)


def mixture(likelihood, components, rows=4):
    side = (np.linspace(2, 9, rows),) if len(likelihood.columns) > 1 and likelihood.keywords[0] != "lower" else ()
    mean, var = RNG.normal(size=(rows, components)), RNG.uniform(0.1, 0.6, size=(rows, components))
    return Mixture(repeated(likelihood, components), mean, var, side)


@pytest.mark.parametrize(
    "likelihood",
    [
        likelihoods.StudentT(0.4), likelihoods.CensoredGaussian(0.4), likelihoods.HeteroscedasticGaussian(),
        likelihoods.Gamma(2.0),
    ],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
@pytest.mark.parametrize("components", [1, 3])
def test_a_quantile_is_where_the_distribution_function_has_its_level(likelihood, components):
    q = mixture(likelihood, components)
    for level, y in zip(LEVELS, q.quantiles(LEVELS), strict=True):
        np.testing.assert_allclose(q.cdf(y), level, atol=1e-7)


@pytest.mark.parametrize("components", [1, pytest.param(60, marks=pytest.mark.slow)])
def test_a_quantile_of_whole_numbers_is_the_first_that_reaches_the_level(components):
    q = mixture(likelihoods.Poisson(exposure=True), components)
    off = 0.0 if components == 1 else 0.01  # many components are not integrated one by one
    for level, y in zip(LEVELS, q.quantiles(LEVELS), strict=True):
        assert np.all(y == np.floor(y))
        assert np.all(q.cdf(y) >= level - off)
        assert np.all(np.where(y > 0, q.cdf(y - 1), 0.0) < level + off)


def test_many_components_have_the_quantiles_of_all_of_them():
    q = mixture(likelihoods.Gamma(2.0), 250)
    for level, y in zip(LEVELS, q.quantiles(LEVELS), strict=True):
        np.testing.assert_allclose(q.cdf(y), level, atol=0.012)


def test_intervals_in_the_units_of_y(regressor, X):
    low, high = regressor.predict_interval(X[:5], level=0.8)
    quantiles = regressor.predict_quantiles(X[:5], [0.1, 0.5, 0.9])
    assert quantiles.shape == (5, 3)
    np.testing.assert_allclose(quantiles[:, 0], low)
    np.testing.assert_allclose(quantiles[:, 2], high)
    np.testing.assert_allclose(regressor.predict_cdf(X[:5], high) - regressor.predict_cdf(X[:5], low), 0.8, rtol=1e-7)
    mean, std = regressor.predict(X[:5], return_std=True)
    np.testing.assert_allclose((high - mean) / std, 1.2815515655446004, rtol=1e-7)


def test_draws_of_mcmc_have_intervals_too(X, values):
    model = GPRegressor(method=Method("mcmc", draws=20, warmup=0, chains=2), random_state=0)
    with pytest.warns(match="have not converged"):
        model.fit(X[:20], values[:20])
    low, high = model.predict_interval(X[20:24])
    np.testing.assert_allclose(model.predict_cdf(X[20:24], high), 0.95, atol=1e-7)
    np.testing.assert_allclose(model.predict_cdf(X[20:24], low), 0.05, atol=1e-7)


@pytest.mark.parametrize("levels", [[0.0, 0.5], 1.0, [[0.1]], [np.nan]])
def test_levels_that_are_none(regressor, X, levels):
    with pytest.raises(ValueError, match="levels must lie between 0 and 1"):
        regressor.predict_quantiles(X[:2], levels)
    with pytest.raises(ValueError, match="level must be one number between 0 and 1"):
        regressor.predict_interval(X[:2], levels)
