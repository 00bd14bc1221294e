import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from sitewise import GPRegressor, Hyperparameters, kernels, likelihoods, means
from sitewise.explain.calibration import calibration


def test_gaussian_noise_gives_the_exact_gaussian_process(regressor, X, values):
    """Same hyperparameters and units in scikit-learn: the same predictions, evidence and deviations."""
    k, s = regressor.kernel_, regressor.y_scale_
    kernel = ConstantKernel(s**2 * k.variance) * Matern(k.lengthscale, nu=2.5) + WhiteKernel(
        (s * regressor.likelihood_.scale) ** 2
    )
    reference = GaussianProcessRegressor(kernel, optimizer=None, alpha=0).fit(X, values - values.mean())
    new = X[:9] + 0.1
    mean, std = regressor.predict(new, return_std=True)
    their_mean, their_std = reference.predict(new, return_std=True)
    np.testing.assert_allclose(mean, their_mean + values.mean(), rtol=1e-9)
    np.testing.assert_allclose(std, their_std, rtol=1e-7)
    for name in ("laplace", "elbo", "ep"):
        np.testing.assert_allclose(regressor.evidence_[name], reference.log_marginal_likelihood(), rtol=1e-9)
    density = regressor.log_predictive_density(new, values[:9])
    np.testing.assert_allclose(density, norm.logpdf(values[:9], mean, std), rtol=1e-8)


def test_units_of_y_change_nothing_but_the_units(X, values, regressor):
    other = GPRegressor(integrate=False).fit(X, 1000 * values - 7)
    np.testing.assert_allclose(other.predict(X), 1000 * regressor.predict(X) - 7, rtol=1e-5)
    shift = 50 * np.log(1000)
    np.testing.assert_allclose(other.evidence_["ep"], regressor.evidence_["ep"] - shift, rtol=1e-6)
    density = regressor.log_predictive_density(X, values) - np.log(1000)
    np.testing.assert_allclose(other.log_predictive_density(X, 1000 * values - 7), density, atol=1e-4)


def test_without_normalisation_the_kernel_speaks_of_y_itself(X, values):
    model = GPRegressor(normalize_y=False, mean=means.Constant(100.0), kernel=kernels.Matern52(1.0, 400.0)).fit(
        X, values
    )
    assert (model.y_mean_, model.y_scale_) == (0.0, 1.0)
    assert model.score(X, values) > 0.9


@pytest.mark.parametrize("likelihood", ["student_t", "poisson"])
def test_other_noise(likelihood, X, signal):
    rng = np.random.default_rng(3)
    y = rng.poisson(np.exp(signal + 2)) if likelihood == "poisson" else 5 + signal + 0.1 * rng.standard_t(3, 50)
    model = GPRegressor(likelihood=likelihood).fit(X, y)
    assert model.converged_
    assert model.score(X, y) > 0.8
    mean, std = model.predict(X, return_std=True)
    draws = model.sample_y(X[:4], 4000, random_state=0)
    assert draws.shape == (4, 4000)
    np.testing.assert_allclose(draws.mean(axis=1), mean[:4], atol=6 * std[:4].max() / np.sqrt(4000) + 0.02)
    assert np.all(np.isfinite(model.log_predictive_density(X, y)))
    assert np.all((model.loo_.probability > 0) & (model.loo_.probability <= 1))
    if likelihood == "poisson":
        assert model.mean_.value != 0
        with pytest.raises(ValueError, match="counts"):
            model.log_predictive_density(X, y + 0.5)


@pytest.mark.slow
def test_scattered_counts_and_ordered_classes(X, signal):
    """Known parameters are found: a shape of 5, and cut points of the latent function at ±1."""
    rng = np.random.default_rng(4)
    counts = GPRegressor(likelihood="negative_binomial").fit(X, rng.poisson(np.exp(signal + 3) * rng.gamma(5, 0.2, 50)))
    assert counts.converged_
    assert 2.5 < counts.likelihood_.shape < 10
    assert counts.mean_.value == pytest.approx(3.0, abs=1.0)
    classes = GPRegressor(likelihood="ordinal").fit(X, np.digitize(3 * signal + rng.normal(size=50), [-3.0, 3.0]))
    assert classes.converged_
    assert np.shape(classes.likelihood_.gaps) == (1,)
    # In units of the noise the cut points are 6 apart and the latent function has deviation 3·std(signal).
    ratio = classes.likelihood_.gaps[0] / np.std(classes.predict_latent(X))
    assert ratio == pytest.approx(2 / np.std(signal), rel=0.3)
    assert np.all((classes.predict(X) >= 0) & (classes.predict(X) <= 2))


def test_outliers_are_named(X, signal, regressor):
    y = 5 + signal + 0.05 * np.random.default_rng(5).normal(size=50)
    wrong = [3, 17, 29]
    y[wrong] += [20.0, -9.0, 14.0]
    weight = np.ones(50)
    weight[40] = 0
    model = GPRegressor(likelihood="student_t").fit(X, y, weight)
    found = model.outliers_
    assert set(found.rows[:3]) == set(wrong)
    assert np.isnan(found.precision[40]) and 40 not in found.rows
    assert np.all(found.precision[found.rows] < 0.1)
    assert "treated as outliers (outliers_): " in model.fit_report_
    assert "loo_" in dir(regressor) and not hasattr(regressor, "outliers_")
    with pytest.raises(AttributeError, match="outliers_ is for robust noise"):
        _ = regressor.outliers_


def test_side_information_without_a_keyword_is_refused_in_words(X, values):
    class Pairs(likelihoods.Binomial):
        name, keywords = "", ()

    with pytest.raises(ValueError, match="needs the columns successes, trials in y; use Model and Data"):
        GPRegressor(likelihood=Pairs()).fit(X, values)


def test_a_likelihood_object(X, values):
    model = GPRegressor(
        likelihood=likelihoods.Gaussian(0.5), hyperparameters=Hyperparameters(fixed="likelihood.scale")
    ).fit(X, values)
    assert model.likelihood_.scale == 0.5


def test_samples_have_the_predictive_moments(regressor, X):
    mean, std = regressor.predict(X[:5], return_std=True)
    draws = regressor.sample_y(X[:5], 5000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5 * std.max() / np.sqrt(5000))
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.06)


def test_tiny_and_huge_targets(X, values):
    settings = {"hyperparameters": Hyperparameters(fixed="*"), "kernel": kernels.Matern52(1.5)}
    plain, tiny = (GPRegressor(**settings).fit(X, factor * values) for factor in (1.0, 1e-14))
    np.testing.assert_allclose(tiny.predict(X), 1e-14 * plain.predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match="divide y by a power of ten"):
        GPRegressor().fit(X, 1e200 * values)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"likelihood": "ordinal"}, "numbered 0, 1, 2, … without gaps"),
        ({"likelihood": "laplace_noise", "method": "laplace"}, "needs curvature"),
    ],
)
def test_what_does_not_go_together_is_named(settings, message, X, values):
    with pytest.raises(ValueError, match=message):
        GPRegressor(**settings).fit(X, np.round(values))


def test_calibration_is_for_classes(regressor):
    with pytest.raises(ValueError, match="calibration needs class probabilities"):
        calibration(regressor)


def test_rows_of_a_line_without_noise_are_not_called_uncorrelated():
    x = np.linspace(-1.7, 1.7, 60)[:, None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = GPRegressor().fit(x, x[:, 0])
    assert model.score(x, x[:, 0]) > 0.999
    assert not [w for w in caught if "uncorrelated" in str(w.message)]


def test_a_series_of_many_periods_is_found_from_the_default_start():
    """From the spread of the times the ascent would lead to a constant."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 150, 300))[:, None]
    model = GPRegressor().fit(x, np.sin(x[:, 0]) + 0.2 * rng.normal(size=300))
    assert 0.5 < model.kernel_.lengthscale < 5 and model.score(x, np.sin(x[:, 0])) > 0.95
