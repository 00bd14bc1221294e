"""A likelihood for each output: one of them is the plain model, and rows of several are each their own."""

import jax
import numpy as np
import pytest

from cases import METHODS
from sitewise import Data, GPRegressor, Model, evidence, kernels, likelihoods, predict

X = np.linspace(0, 3, 12)[:, None]
COUNTS = np.array([0, 1, 0, 2, 3, 2, 4, 3, 6, 5, 9, 7.0])
MATCHED = {"laplace": evidence.laplace, "vi": evidence.elbo, "ep": evidence.ep}


@pytest.mark.parametrize("method", METHODS)
def test_one_output_is_the_plain_model(method):
    kernel = kernels.Matern52(1.0, 1.5)
    plain = Model.full(kernel, likelihoods.NegativeBinomial(3.0)), Data.of(X, COUNTS)
    both = Model.full(kernel, likelihoods.Switched([likelihoods.NegativeBinomial(3.0)]))
    switched = both, Data.of(X, np.column_stack([COUNTS, np.zeros(12)]))
    found = []
    for model, data in (plain, switched):
        solution = METHODS[method].solve(model, data)
        assert solution.outcome.ok
        found.append([float(MATCHED[method](model, data, solution.sites)), *solution.sites.nat1, *solution.sites.prec])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10, atol=1e-10)


PARTS = [likelihoods.Gaussian(0.3), likelihoods.Poisson(exposure=True), likelihoods.BernoulliLogit()]


def test_predictions_are_those_of_each_rows_likelihood():
    several = likelihoods.Switched(PARTS)
    mean, var = np.array([0.3, 1.0, -0.5]), np.array([0.2, 0.1, 0.4])
    output, exposure = np.arange(3.0), np.array([1.0, 4.0, 1.0])
    centre, spread = predict.y_moments(several, mean, var, output, exposure)
    levels = np.array([0.1, 0.6])
    quantiles = predict.y_quantile(several, mean, var, levels, output, exposure)
    for k, part in enumerate(PARTS):
        side = (exposure[k : k + 1],) if k == 1 else ()
        own = predict.y_moments(part, mean[k : k + 1], var[k : k + 1], *side)
        np.testing.assert_allclose([centre[k], spread[k]], np.ravel(own), rtol=1e-10)
        if k < 2:
            want = predict.y_quantile(part, mean[k : k + 1], var[k : k + 1], levels, *side)
            np.testing.assert_allclose(quantiles[:, k], want[:, 0], rtol=1e-8)
    assert np.all(quantiles[:, 1] == np.floor(quantiles[:, 1]))


@pytest.fixture(scope="module")
def fitted():
    """Values, counts and labels of one function."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 4, 90)
    output = np.arange(90) % 3
    f = np.sin(2 * x)
    y = np.where(output == 0, f + 0.2 * rng.normal(size=90), 0.0)
    y = np.where(output == 1, rng.poisson(3 * np.exp(f)), y)
    y = np.where(output == 2, rng.uniform(size=90) < 1 / (1 + np.exp(-f)), y)
    several = likelihoods.Switched([likelihoods.Gaussian(0.5), likelihoods.Poisson(exposure=True), PARTS[2]])
    side = {"output": output, "exposure": np.where(output == 1, 3.0, 1.0)}
    return GPRegressor(likelihood=several).fit(x[:, None], y, **side), x, y, side


@pytest.mark.slow
def test_an_estimator_learns_from_all_outputs(fitted):
    model, x, y, side = fitted
    assert model.converged_ and float(model.likelihood_.parts[0].scale) == pytest.approx(0.2, abs=0.1)
    new = np.array([[0.8], [2.4]])
    np.testing.assert_allclose(model.predict(new, output=0), np.sin(2 * new[:, 0]), atol=0.3)
    rate = model.predict(new, output=1, exposure=10)
    np.testing.assert_allclose(rate, 10 * np.exp(np.sin(2 * new[:, 0])), rtol=0.35)
    low, high = model.predict_interval(new, output=1, exposure=10)
    assert np.all(low == np.floor(low)) and np.all(low < rate) and np.all(rate < high)
    assert set(np.unique(model.sample_y(new, 20, random_state=0, output=2, exposure=1))) <= {0.0, 1.0}
    assert np.mean(model.log_predictive_density(x[:, None], y, **side)) > -2


def test_the_output_of_new_rows_must_be_told(fitted):
    with pytest.raises(ValueError, match="needs output="):
        fitted[0].predict([[0.3]])
    with pytest.raises(ValueError, match="Switched needs output and one of exposure"):
        GPRegressor(likelihood=likelihoods.Switched(PARTS)).fit(X, COUNTS)
    with pytest.raises(ValueError, match="output must be 0 to 2"):
        likelihoods.Switched(PARTS).check(np.array([[1.0, 3.0, 1.0]]))


def test_draws_are_of_each_rows_likelihood():
    several = likelihoods.Switched(PARTS)
    f, output = np.full(4000, 0.4), np.repeat([0.0, 1.0], 2000)
    y = np.asarray(several.sample(jax.random.key(1), f, output, np.full(4000, 2.0)))
    assert y[:2000].mean() == pytest.approx(0.4, abs=0.03)
    assert y[2000:].mean() == pytest.approx(2 * np.exp(0.4), abs=0.15)
