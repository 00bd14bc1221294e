"""Estimators that average over their hyperparameters."""

import pickle

import numpy as np
import pytest
from scipy import special

from sitewise import GPClassifier, GPOrdinal, GPRegressor, Hyperparameters, Sparse, kernels, load
from sitewise.estimators import training
from sitewise.fitted.integrated import IntegratedLatent


@pytest.fixture(scope="module")
def classifier(X, labels):
    return GPClassifier(integrate=True).fit(X, labels)


@pytest.fixture(scope="module")
def regressor(X, values):
    return GPRegressor(likelihood="student_t", integrate="ccd").fit(X, values)


def _nodes(model):
    return model._latents[0].parts, model._latents[0].weight


def test_predictions_are_weighted_averages_over_the_nodes(classifier, regressor, X, labels, values):
    parts, weight = _nodes(classifier)
    assert len(parts) > 5 and weight.sum() == pytest.approx(1)
    each = [part.at(X).log_density(np.where(labels == classifier.classes_[1], 1.0, -1.0)) for part in parts]
    np.testing.assert_allclose(
        classifier.log_predictive_density(X, labels), special.logsumexp(each, axis=0, b=weight[:, None]), atol=1e-10
    )
    parts, weight = _nodes(regressor)
    unit = (values - regressor.y_mean_) / regressor.y_scale_
    np.testing.assert_allclose(regressor.predict_cdf(X, values), weight @ [part.at(X).cdf(unit) for part in parts])
    low, high = regressor.predict_interval(X, 0.8)
    np.testing.assert_allclose(regressor.predict_cdf(X, low), 0.1, atol=1e-6)
    np.testing.assert_allclose(regressor.predict_cdf(X, high), 0.9, atol=1e-6)


def test_joint_moments_are_those_of_the_mixture(regressor, X):
    mean, cov = regressor.predict_latent(X[:4], return_cov=True)
    marginal, sd = regressor.predict_latent(X[:4], return_std=True)
    np.testing.assert_allclose(mean, marginal)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), sd)
    parts, weight = _nodes(regressor)
    means = np.array([part.joint(X[:4])[0] for part in parts])
    spread = np.cov(means.T, aweights=weight, bias=True)
    within = sum(w * part.joint(X[:4])[1] for w, part in zip(weight, parts, strict=True))
    np.testing.assert_allclose(cov / regressor.y_scale_**2, within + spread)
    draws = regressor.sample_y(X[:4], 400, random_state=0)
    assert draws.shape == (4, 400) and np.all(np.isfinite(draws))


def test_it_is_less_sure_than_the_optimum_alone(X, values):
    few = slice(0, 15)
    plain, averaged = (GPRegressor("isotropic", integrate=how).fit(X[few], values[few]) for how in (False, True))
    widths = [np.mean(np.subtract(*model.predict_interval(X)[::-1])) for model in (plain, averaged)]
    assert widths[1] > widths[0]
    assert averaged.lengthscales()[0].error > 0
    bands = [np.mean(model.effect(0, points=5).sd) for model in (plain, averaged)]
    assert bands[1] > bands[0]
    assert "Integrated over 3 hyperparameters: lattice of" in averaged.fit_report_


def _integrates(model):
    return isinstance(model._latents[0], IntegratedLatent)


@pytest.mark.slow
def test_few_rows_with_a_kernel_by_name_are_integrated_by_default(X, labels, monkeypatch):
    assert all(_integrates(GPClassifier(name).fit(X, labels)) for name in ("shrunk", "isotropic"))
    for settings in (
        {"kernel": "shrunk", "integrate": False},
        {"kernel": kernels.Matern52()},
        {"kernel": "shrunk", "hyperparameters": Hyperparameters(fixed="*")},
        {"method": "hybrid-vem"},
        {"structure": Sparse(8)},
    ):
        assert not _integrates(GPClassifier(**settings).fit(X, labels)), settings
    monkeypatch.setattr(training, "MAX_INTEGRATED_ROWS", len(X) - 1)
    assert not _integrates(GPClassifier("shrunk").fit(X, labels))


def test_without_an_integral_the_default_predicts_at_the_optimum_and_says_so(X, labels, monkeypatch):
    def fails(*_):
        raise ValueError("Inference does not settle next to the optimum.")

    monkeypatch.setattr(training, "integrate", fails)
    model = GPClassifier("shrunk").fit(X, labels)
    assert not _integrates(model)
    assert "hyperparameters at the optimum, and bands are narrow. Inference does not" in model.fit_report_
    with pytest.raises(ValueError, match="does not settle"):
        GPClassifier(integrate=True).fit(X, labels)


def test_a_small_design_that_does_not_suit_gives_way_to_a_lattice(X, labels, monkeypatch):
    monkeypatch.setattr("sitewise.learning.integration.MIN_EFFECTIVE", 1.1)
    model = GPClassifier("isotropic").fit(X, labels)
    assert "Integrated over 2 hyperparameters: lattice of" in model.fit_report_


def test_saved_pickled_and_updated(classifier, X, labels, tmp_path):
    proba = classifier.predict_proba(X)
    classifier.save(tmp_path / "m.sitewise")
    for other in (load(tmp_path / "m.sitewise"), pickle.loads(pickle.dumps(classifier))):
        np.testing.assert_allclose(other.predict_proba(X), proba, atol=1e-12)
        np.testing.assert_allclose(other.importance().total, classifier.importance().total, atol=1e-9)
    half = GPClassifier(integrate=True).fit(X[:20], labels[:20])
    kept = [part.model for part in half._latents[0].parts]
    half.update(X[20:], labels[20:])
    for part, before in zip(half._latents[0].parts, kept, strict=True):
        np.testing.assert_array_equal(part.model.prior.kernel.lengthscale, before.prior.kernel.lengthscale)
    again = half._latents[0].parts[3]
    from sitewise.inference import VI
    from sitewise.inference.solve import solve

    np.testing.assert_allclose(again.sites.nat1, solve(VI(), again.model, again.data).sites.nat1, atol=1e-6)


@pytest.mark.slow
def test_classes_of_every_kind(X, signal):
    X, y = X[:24], np.digitize(signal, [-0.7, 0.7])[:24]
    joint, each = (GPClassifier(method="laplace", integrate=True, multi_class=how) for how in ("joint", "one_vs_rest"))
    for model in (joint, each, GPOrdinal(method="laplace", integrate=True)):
        proba = model.fit(X, y).predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        assert np.mean(model.predict(X) == y) > 0.7


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"integrate": "always"}, "integrate must be True, False"),
        ({"integrate": True, "method": "mcmc"}, "mcmc averages over the hyperparameters without integrate"),
        ({"integrate": True, "method": "hybrid-vem"}, "hybrid-vem has no setting integrate"),
    ],
)
def test_settings_that_contradict_each_other(X, labels, settings, words):
    with pytest.raises(ValueError, match=words):
        GPClassifier(**settings).fit(X, labels)
