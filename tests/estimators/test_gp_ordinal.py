"""GPOrdinal: any labels in order, their probabilities, and the words where there is no order."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_get_params_invariance, check_parameters_default_constructible

from sitewise import GPOrdinal, GPRegressor, Hyperparameters, load

SIZES = ["small", "middle", "large"]


@pytest.fixture(scope="module")
def codes(X, signal):
    return np.digitize(signal + 0.3 * np.random.default_rng(3).normal(size=50), [-0.7, 0.7])


@pytest.fixture(scope="module")
def model(X, codes):
    """Fitted; tests must not change it."""
    return GPOrdinal(order=SIZES).fit(X, np.array(SIZES)[codes])


def test_probabilities_are_those_of_the_numbered_classes(X, codes):
    model = GPOrdinal(order=SIZES, integrate=False).fit(X, np.array(SIZES)[codes])
    numbered = GPRegressor(likelihood="ordinal", integrate=False).fit(X, codes)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(proba @ np.arange(3), numbered.predict(X), atol=1e-6)
    np.testing.assert_allclose(
        model.log_predictive_density(X, np.array(SIZES)[codes]), numbered.log_predictive_density(X, codes), atol=1e-6
    )
    assert model.classes_.tolist() == SIZES
    assert np.array_equal(model.predict(X), np.array(SIZES)[np.argmax(proba, axis=1)])


def test_ratings_are_ordered_by_their_size(model, X, codes):
    rated = GPOrdinal().fit(X, np.array([10, 2.5, -1])[2 - codes])
    assert rated.classes_.tolist() == [-1, 2.5, 10]
    np.testing.assert_allclose(rated.predict_proba(X), model.predict_proba(X), atol=1e-6)
    assert (
        rated.score(X, np.array([10, 2.5, -1])[2 - codes]) == np.mean(rated.predict(X) == rated.classes_[codes]) > 0.7
    )


def test_an_interval_is_made_of_labels(model, X):
    low, high = model.predict_interval(X, 0.8)
    ranks = {name: k for k, name in enumerate(SIZES)}
    a, b = (np.array([ranks[label] for label in ends]) for ends in (low, high))
    held = [p[i : j + 1].sum() for p, i, j in zip(model.predict_proba(X), a, b, strict=True)]
    assert np.all(a <= b) and np.all(np.array(held) >= 0.8 - 1e-9)


def test_rows_left_out_and_drawn_and_saved(model, X, tmp_path):
    left = model.loo_
    assert left.probability.shape == (50, 3) and np.all(left.log_density < 0)
    drawn = model.sample_y(X[:2], 500, random_state=0)
    assert set(np.unique(drawn)) <= set(SIZES)
    shares = [np.mean(drawn[0] == name) for name in SIZES]
    np.testing.assert_allclose(shares, model.predict_proba(X[:1])[0], atol=0.08)
    model.save(tmp_path / "m.sitewise")
    again = load(tmp_path / "m.sitewise")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X)) and again.order == SIZES


def test_cross_validation_keeps_all_labels(X, codes):
    assert np.mean(cross_val_score(GPOrdinal(method="laplace"), X, codes, cv=3, error_score="raise")) > 0.5


def test_checks_of_scikit_learn():
    for check in (check_get_params_invariance, check_parameters_default_constructible):
        check("GPOrdinal", GPOrdinal())


@pytest.mark.parametrize(
    ("order", "y", "words"),
    [
        (None, ["a", "b", "c"], "Labels that are strings need an order; give order= with the labels .'a', 'b', 'c'."),
        (["a", "b", "a"], ["a", "b", "c"], "every label once"),
        (["a", "b", "d"], ["a", "b", "c"], "y holds 'c', which is not one of the labels 'a', 'b', 'd'"),
        (["a", "b", "c", "d"], ["a", "b", "c"], "No row has the label 'd'"),
        (None, np.linspace(0, 1, 60).tolist(), "60 different labels; use GPRegressor for numbers"),
        (None, [1, 2, 1], "at least three labels, got 2; use GPClassifier for two"),
    ],
)
def test_labels_that_are_in_no_order(order, y, words):
    with pytest.raises(ValueError, match=words):
        GPOrdinal(order=order).fit(np.arange(3.0 * len(y))[:, None], np.array(y * 3))


@pytest.mark.parametrize("series", [False, True])
def test_an_ordered_category_gives_the_order(series, X, codes):
    """Its order was ignored, and an alphabetical one was proposed."""
    pandas = pytest.importorskip("pandas")
    names = np.array(["low", "mid", "high"])[codes]
    y = pandas.Categorical(names, categories=["none", "low", "mid", "high"], ordered=True)
    model = GPOrdinal(method="laplace").fit(X, pandas.Series(y) if series else y)
    want = GPOrdinal(order=["low", "mid", "high"], method="laplace").fit(X, names)
    assert model.classes_.tolist() == ["low", "mid", "high"]
    assert np.array_equal(model.predict_proba(X), want.predict_proba(X))
    with pytest.raises(ValueError, match="from the lowest to the highest, or y as an ordered category"):
        GPOrdinal().fit(X, pandas.Categorical(names))


def test_numbers_with_gaps_are_sent_to_it(X, codes):
    with pytest.raises(ValueError, match="GPOrdinal takes any labels in order"):
        GPRegressor(likelihood="ordinal").fit(X, 1 + codes)


@pytest.mark.slow
@pytest.mark.parametrize("names", [[1, 2, 3], [1, 5, 20], ["low", "mid", "high"]])
def test_effects_are_averages_of_labels_or_ranks(names):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 2))
    y = np.array(names)[np.digitize(X[:, 0] + 0.1 * rng.normal(size=60), [-0.7, 0.7])]
    model = GPOrdinal(order=names, method="laplace", hyperparameters=Hyperparameters(fixed="likelihood.*")).fit(X, y)
    values = np.arange(1.0, 4.0) if names[0] == "low" else np.array(names, float)
    found = model.effect(0, grid=[-1.9, 1.9])
    np.testing.assert_allclose(found.mean, values[[0, 2]], atol=0.2 * np.ptp(values) / 2)
    for k, value in enumerate(found.grid):
        rows = X.copy()
        rows[:, 0] = value
        np.testing.assert_allclose(found.mean[k], np.mean(model.predict_proba(rows) @ values), rtol=1e-6)
        assert found.low[k] - 1e-5 <= found.mean[k] <= found.high[k] + 1e-5
    assert model.ranks_in_words_ == ("rank, from 1 (low) to 3 (high)" if names[0] == "low" else "")
