"""Estimators with inducing inputs."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import sitewise
from sitewise import GPClassifier, GPRegressor, kernels


@pytest.fixture(scope="module")
def sparse(X, labels):
    return GPClassifier(n_inducing=12, random_state=0).fit(X, labels)


@pytest.mark.parametrize("inducing", ["kmeans", "greedy"])
def test_as_many_inducing_inputs_as_rows_give_the_full_gp(inducing, X, labels):
    kernel = kernels.Matern52(1.5, 2.0)
    full = GPClassifier(kernel, fixed="*", method="ep").fit(X, labels)
    model = GPClassifier(kernel, fixed="*", n_inducing=50, inducing=inducing).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X + 0.1), full.predict_proba(X + 0.1), atol=1e-6)
    np.testing.assert_allclose(model.loo_.log_density, full.loo_.log_density, atol=1e-5)
    for name, value in full.evidence_.items():
        np.testing.assert_allclose(model.evidence_[name], value, atol=1e-5)
    np.testing.assert_allclose(model.evidence_["collapsed"], full.evidence_["ep"], atol=1e-5)


def test_few_inducing_inputs_learn(sparse, classifier, X, labels):
    assert sparse.converged_
    assert sparse._latents[0].model.prior.inducing.shape == (12, 3)
    assert sparse.score(X, labels) >= 0.9
    assert sparse.evidence_["elbo"] < classifier.evidence_["elbo"]
    assert sparse.evidence_["elbo"] <= sparse.evidence_["tight"] < 0
    assert sparse.evidence_["elbo"] <= sparse.evidence_["collapsed"] < 0
    assert np.all(np.isfinite(sparse.influence_))
    assert sparse.sample_y(X[:3], 5, random_state=0).shape == (3, 5)


def test_saved_and_pickled_models_keep_their_inducing_inputs(sparse, X, tmp_path):
    sparse.save(tmp_path / "model")
    for again in (sitewise.load(tmp_path / "model"), pickle.loads(pickle.dumps(sparse))):
        np.testing.assert_array_equal(again.predict_proba(X), sparse.predict_proba(X))
        assert again.get_params()["n_inducing"] == 12


def test_rows_can_be_added_and_removed(X, labels):
    kernel, Z = kernels.Matern52(1.5, 2.0), X[:15]
    model = GPClassifier(kernel, fixed="*", inducing=Z).fit(X[:40], labels[:40])
    model.update(X[40:], labels[40:])
    whole = GPClassifier(kernel, fixed="*", inducing=Z).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-6)


def test_trained_inducing_inputs_raise_the_bound(X, values):
    settings = {"method": "vi", "inducing": X[:4], "max_iter": 30, "ard": False}
    held = GPRegressor(**settings).fit(X, values)
    with pytest.warns(ConvergenceWarning, match="cap on rounds"):
        moved = GPRegressor(train="inducing", **settings).fit(X, values)
    assert moved.evidence_["elbo"] > held.evidence_["elbo"] + 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_inducing": 0}, "n_inducing must be None or a whole number"),
        ({"n_inducing": 2.5}, "n_inducing must be None or a whole number"),
        ({"n_inducing": 5, "inducing": "best"}, "must be 'kmeans' or 'greedy'"),
        ({"inducing": "best"}, "must be 'kmeans' or 'greedy'"),
        ({"n_inducing": 5, "inducing": np.zeros((5, 3))}, "leave n_inducing at None"),
        ({"inducing": np.zeros((5, 2))}, "a table with 3 columns"),
    ],
)
def test_bad_settings_are_named(settings, message, X, labels):
    with pytest.raises(ValueError, match=message):
        GPClassifier(**settings).fit(X, labels)
