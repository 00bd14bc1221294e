import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from sitewise import METHODS, GPClassifier, GPRegressor, Hyperparameters, Method


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if not method.samples])
def test_weight_two_equals_duplicated_rows(method, X, labels):
    settings = {"method": Method(method, max_iter=5 if method == "hybrid-vem" else None)}
    twice = np.repeat(np.arange(50), np.where(np.arange(50) < 10, 2, 1))
    weighted = GPClassifier(**settings).fit(X, labels, np.where(np.arange(50) < 10, 2, 1))
    copied = GPClassifier(**settings).fit(X[twice], labels[twice])
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-6)
    for name, value in copied.evidence_.items():
        np.testing.assert_allclose(weighted.evidence_[name], value, atol=1e-6)
    np.testing.assert_allclose(weighted.loo_.log_density[twice], copied.loo_.log_density, atol=1e-6)


def test_all_weights_two_equals_the_table_twice(X, labels):
    weighted = GPClassifier().fit(X, labels, np.full(50, 2.0))
    copied = GPClassifier().fit(np.vstack([X, X]), np.concatenate([labels, labels]))
    np.testing.assert_allclose(weighted.predict_proba(X), copied.predict_proba(X), atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_regression_weight_two_equals_duplicated_rows(likelihood, X, values):
    twice = np.repeat(np.arange(50), np.where(np.arange(50) < 10, 2, 1))
    settings = {"likelihood": likelihood, "method": Method(max_iter=8)}
    weighted = GPRegressor(**settings).fit(X, values, np.where(np.arange(50) < 10, 2, 1))
    copied = GPRegressor(**settings).fit(X[twice], values[twice])
    np.testing.assert_allclose(weighted.predict(X), copied.predict(X), rtol=1e-6)
    np.testing.assert_allclose(weighted.evidence_["ep"], copied.evidence_["ep"], atol=1e-6)


def test_the_order_of_rows_does_not_matter(X, labels, classifier):
    order = np.random.default_rng(0).permutation(50)
    shuffled = GPClassifier(integrate=False).fit(X[order], labels[order])
    assert np.array_equal(shuffled.predict_proba(X), classifier.predict_proba(X))
    assert np.array_equal(shuffled.influence_, classifier.influence_[order])


def test_balanced_class_weight_is_the_sample_weight_of_scikit_learn(X, labels):
    rare = (labels == "no") | (np.arange(50) % 3 == 0)
    by_class = GPClassifier(class_weight="balanced").fit(X[rare], labels[rare])
    by_row = GPClassifier().fit(X[rare], labels[rare], compute_sample_weight("balanced", labels[rare]))
    np.testing.assert_allclose(by_class.predict_proba(X), by_row.predict_proba(X), atol=1e-9)
    plain = GPClassifier().fit(X[rare], labels[rare])
    assert by_class.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()


def test_class_weights_multiply_sample_weights(X, labels):
    weight = np.random.default_rng(0).integers(1, 3, 50).astype(float)
    both = GPClassifier(class_weight={"no": 2, "yes": 1}, hyperparameters=Hyperparameters(fixed="*")).fit(
        X, labels, weight
    )
    one = GPClassifier(hyperparameters=Hyperparameters(fixed="*")).fit(
        X, labels, weight * np.where(labels == "no", 2, 1)
    )
    assert np.array_equal(both.predict_proba(X), one.predict_proba(X))
