"""method="mcmc": predictions averaged over draws, files, seeds, and what it refuses."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import sitewise
from sitewise import GPClassifier, GPRegressor, Hyperparameters, Method, Sparse
from sitewise.hyperpriors import LogNormal

SHORT = {"draws": 40, "warmup": 5, "chains": 2}


@pytest.fixture(scope="module", autouse=True)
def few_draws_are_few():
    """So few draws are warned of, every time; here that is no news."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.fixture(scope="module")
def sampled_classes(X, labels):
    return GPClassifier(method=Method("mcmc", **SHORT), random_state=0).fit(X, labels)


@pytest.fixture(scope="module")
def sampled_values(X, values):
    return GPRegressor(method=Method("mcmc", **SHORT), random_state=0).fit(X, values)


@pytest.mark.slow
def test_predictions_are_averages_over_the_draws(sampled_classes, sampled_values, X, labels, values):
    samples = sampled_classes.samples_
    assert repr(samples).endswith("draws of kernel.lengthscale, kernel.variance)") and len(repr(samples)) < 100
    p = sampled_classes.predict_proba(X)
    np.testing.assert_allclose(p[:, 1], samples.probability(X), rtol=1e-9)
    assert sampled_classes.score(X, labels) > 0.9
    by_hand = samples.log_density(X, np.where(labels == "yes", 1.0, -1.0))
    np.testing.assert_allclose(sampled_classes.log_predictive_density(X, labels), by_hand, rtol=1e-9)
    scaled = (values - sampled_values.y_mean_) / sampled_values.y_scale_
    by_hand = sampled_values.samples_.log_density(X, scaled) - np.log(sampled_values.y_scale_)
    np.testing.assert_allclose(sampled_values.log_predictive_density(X, values), by_hand, rtol=1e-8)


def test_it_agrees_with_exact_regression(sampled_values, X, values):
    """Gaussian noise and well-determined hyperparameters: close to their maximum-likelihood values' predictions."""
    one, one_std = sampled_values.predict(X, return_std=True)
    other, other_std = GPRegressor("isotropic", method="ep").fit(X, values).predict(X, return_std=True)
    assert np.max(np.abs(one - other)) < 0.3 * np.mean(other_std)
    assert 0.8 < np.mean(one_std / other_std) < 1.5


def test_moments_of_the_latent_function(sampled_values, X):
    """Marginal deviations are the diagonal of the joint covariance, and joint draws have those moments."""
    new = X[:4] + 0.1
    mean, std = sampled_values.predict_latent(new, return_std=True)
    joint_mean, cov = sampled_values.predict_latent(new, return_cov=True)
    np.testing.assert_allclose(joint_mean, mean, rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-6)
    y = sampled_values.sample_y(new, 400, random_state=0)
    y_mean, y_std = sampled_values.predict(new, return_std=True)
    assert np.all(np.abs(y.mean(axis=1) - y_mean) < 4 * y_std / 20)
    assert np.all(np.abs(y.std(axis=1) / y_std - 1) < 0.25)


def test_labels_are_drawn(sampled_classes, X):
    drawn = sampled_classes.sample_y(X[:4], 200, random_state=0)
    share = np.mean(drawn == "yes", axis=1)
    np.testing.assert_allclose(share, sampled_classes.predict_proba(X[:4])[:, 1], atol=0.15)


def test_files_and_pickle_predict_the_same(sampled_classes, sampled_values, X, tmp_path):
    for model in (sampled_classes, sampled_values):
        model.save(tmp_path / "model")
        for again in (sitewise.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
            assert np.array_equal(again.predict_latent(X), model.predict_latent(X))
            assert np.array_equal(again.sample_y(X, 2, random_state=1), model.sample_y(X, 2, random_state=1))
            assert again.fit_report_ == model.fit_report_ and again.get_params() == model.get_params()
            assert again.samples_.summary() == model.samples_.summary()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers(sampled_classes, X, labels):
    again = clone(sampled_classes).fit(X, labels)
    assert np.array_equal(again.predict_proba(X), sampled_classes.predict_proba(X))
    other = clone(sampled_classes).set_params(random_state=1).fit(X, labels)
    assert not np.array_equal(other.predict_proba(X), sampled_classes.predict_proba(X))


@pytest.mark.slow
def test_the_report_and_the_warning_say_how_the_chains_did(X, labels):
    model = GPClassifier(method=Method("mcmc", **{**SHORT, "draws": 10, "warmup": 0}), random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"chains of GPClassifier .*Draw longer chains"):
        model.fit(X, labels)
    assert not model.converged_
    for word in ("R-hat", "bulk", "tail", "kernel.lengthscale", "2 chains of 10 draws"):
        assert word in model.fit_report_


def test_nothing_to_learn_is_sampling_of_the_latent_function(X, labels):
    model = GPClassifier(
        method=Method("mcmc", **SHORT), random_state=0, hyperparameters=Hyperparameters(fixed="*")
    ).fit(X, labels)
    close = GPClassifier("isotropic", method="ep", hyperparameters=Hyperparameters(fixed="*")).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X), close.predict_proba(X), atol=0.1)
    assert np.array_equal(model.kernel_.lengthscale, close.kernel_.lengthscale)


def test_what_has_no_meaning_is_refused(sampled_classes, X, labels):
    for name in ("evidence_", "sites_", "loo_", "influence_"):
        assert not hasattr(sampled_classes, name)
        with pytest.raises(AttributeError, match="mcmc does not have; use method='ep'"):
            getattr(sampled_classes, name)
    with pytest.raises(ValueError, match="call fit with all rows"):
        sampled_classes.update(X[:2], labels[:2])
    with pytest.raises(ValueError, match="call fit with all rows"):
        sampled_classes.forget([0])


TRAINED = "the trained parameters are kernel.lengthscale, kernel.variance"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"structure": Sparse(5)}, "mcmc samples the full GP"),
        ({"integrate": True}, "averages over the hyperparameters without integrate"),
        ({"hyperparameters": Hyperparameters(priors={"kernel.width": LogNormal()})}, TRAINED),
        ({"hyperparameters": Hyperparameters(bounds={"kernel.width": (1, 2)})}, TRAINED),
        ({"method": "magic"}, "hybrid-vem, mcmc"),
    ],
)
def test_settings_are_checked(settings, words, X, labels):
    with pytest.raises(ValueError, match=words):
        GPClassifier(**{"method": "mcmc", **settings}).fit(X, labels)


def test_samples_are_for_mcmc(classifier):
    with pytest.raises(AttributeError, match="samples_ is for method='mcmc'"):
        _ = classifier.samples_
