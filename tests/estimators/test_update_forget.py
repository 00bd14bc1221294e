"""Both must equal a fresh inference at the same hyperparameters."""

import copy

import numpy as np
import pytest

from sitewise import GPClassifier, GPRegressor, Hyperparameters


def fresh(model, X, y, **settings):
    held = Hyperparameters(fixed="*")
    return type(model)(model.kernel_, hyperparameters=held, method=model.method, **settings).fit(X, y)


@pytest.mark.parametrize("method", ["hybrid", "ep", "laplace"])
def test_update_and_forget_equal_a_fresh_inference(method, X, labels):
    model = GPClassifier(method=method, integrate=False).fit(X[:40], labels[:40])
    kernel = model.kernel_
    grown = copy.deepcopy(model).update(X[40:], labels[40:])
    np.testing.assert_array_equal(grown.kernel_.lengthscale, kernel.lengthscale)
    np.testing.assert_allclose(grown.predict_proba(X), fresh(model, X, labels).predict_proba(X), atol=1e-8)
    np.testing.assert_allclose(grown.loo_.log_density, fresh(model, X, labels).loo_.log_density, atol=1e-7)
    shrunk = copy.deepcopy(grown).forget(np.arange(40, 50))
    np.testing.assert_allclose(shrunk.predict_proba(X), model.predict_proba(X), atol=1e-7)
    assert shrunk.converged_


def test_forgetting_by_mask_and_by_number_is_the_same(classifier, X):
    mask = np.zeros(50, bool)
    mask[[3, 9]] = True
    one, other = copy.deepcopy(classifier).forget(mask), copy.deepcopy(classifier).forget([9, 3])
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    assert len(one.loo_.log_density) == 48


def test_copies_are_added_and_removed_one_at_a_time(classifier, X, labels):
    again = copy.deepcopy(classifier).update(X[:1], labels[:1])
    assert not np.allclose(again.predict_proba(X[:1]), classifier.predict_proba(X[:1]), atol=1e-4)
    back = again.forget([50])
    np.testing.assert_allclose(back.predict_proba(X), classifier.predict_proba(X), atol=1e-7)


def test_regression_keeps_its_units(X, values):
    model = GPRegressor(normalize_y=False, integrate=False).fit(X[:40], values[:40])
    grown = copy.deepcopy(model).update(X[40:], values[40:])
    reference = GPRegressor(
        model.kernel_, likelihood=model.likelihood_, normalize_y=False, hyperparameters=Hyperparameters(fixed="*")
    ).fit(X, values)
    np.testing.assert_allclose(grown.predict(X), reference.predict(X), rtol=1e-8)
    normalised = GPRegressor().fit(X[:40], values[:40])
    assert copy.deepcopy(normalised).update(X[40:], values[40:]).y_mean_ == normalised.y_mean_


def test_mistakes_are_explained(classifier, X, labels):
    model = copy.deepcopy(classifier)
    with pytest.raises(ValueError, match="not one of the classes"):
        model.update(X[:1], ["maybe"])
    with pytest.raises(ValueError, match="one y per row"):
        model.update(X[:2], labels[:1])
    with pytest.raises(ValueError, match="below 50"):
        model.forget([50])
    with pytest.raises(ValueError, match="mask"):
        model.forget(np.ones(3, bool))
    with pytest.raises(ValueError, match="keep at least one"):
        model.forget(np.arange(50))
    assert np.array_equal(model.predict_proba(X), classifier.predict_proba(X))
