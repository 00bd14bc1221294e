"""evidence_, sites_, loo_, influence_, and the calibration tools on top of them."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sitewise import GPClassifier, GPRegressor, Hyperparameters, Method, parts
from sitewise.estimators import decide, plot_cost, plot_loo
from sitewise.explain.calibration import calibration


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:96]
    return StandardScaler().fit_transform(X[rows]), y[rows]


@pytest.mark.parametrize("method", ["hybrid", "ep"])
def test_leave_one_out_against_twenty_refits(cancer, method):
    X, y = cancer
    model = GPClassifier(method=method).fit(X, y)
    claimed = model.loo_
    gaps = []
    for i in np.random.default_rng(1).permutation(len(y))[:20]:
        rest = np.arange(len(y)) != i
        refit = GPClassifier(model.kernel_, method=method, hyperparameters=Hyperparameters(fixed="*")).fit(
            X[rest], y[rest]
        )
        gaps.append(abs(refit.log_predictive_density(X[[i]], y[[i]])[0] - claimed.log_density[i]))
    assert np.mean(gaps) <= 0.02


def test_leave_one_out_of_gaussian_noise_is_exact(regressor, X, values):
    """With the same units, which `forget` keeps: removing a row and predicting it is what loo_ says."""
    for i in (0, 17):
        import copy

        without = copy.deepcopy(regressor).forget([i])
        mean, std = without.predict(X[[i]], return_std=True)
        np.testing.assert_allclose(regressor.loo_.mean[i], mean[0], rtol=1e-8)
        np.testing.assert_allclose(regressor.loo_.std[i], std[0], rtol=1e-8)
        np.testing.assert_allclose(
            regressor.loo_.log_density[i], without.log_predictive_density(X[[i]], values[[i]])[0], rtol=1e-8
        )


def test_evidence_has_its_four_keys_and_its_sum(classifier, regressor):
    for model in (classifier, regressor):
        assert list(model.evidence_) == ["laplace", "elbo", "ep", "loo"]
        np.testing.assert_allclose(model.evidence_["loo"], model.loo_.log_density.sum(), rtol=1e-10)
        assert model.evidence_["elbo"] <= model.evidence_["ep"] + 1e-9
        assert len(model.sites_.nat1) == 50


def test_influence_is_the_divergence_that_removing_the_site_causes(regressor, X):
    """Gaussian noise: q without row i is exact, and the divergence of the joint at all rows can be written out."""
    import copy

    i = 3
    mean, cov = regressor.predict_latent(X, return_cov=True)
    other_mean, other_cov = copy.deepcopy(regressor).forget([i]).predict_latent(X, return_cov=True)
    a, b = cov[i, i], other_cov[i, i]
    direct = 0.5 * ((mean[i] - other_mean[i]) ** 2 / b + a / b - 1 - np.log(a / b))
    np.testing.assert_allclose(regressor.influence_[i], direct, rtol=1e-6)
    # The whole joint, on a few rows that include i, has the same divergence.
    some = [i, 0, 9, 20]
    P, Q = cov[np.ix_(some, some)], other_cov[np.ix_(some, some)]
    gap = (mean - other_mean)[some]
    whole = 0.5 * (
        gap @ np.linalg.solve(Q, gap) + np.trace(np.linalg.solve(Q, P)) - 4
        - np.linalg.slogdet(P)[1] + np.linalg.slogdet(Q)[1]
    )  # fmt: skip
    np.testing.assert_allclose(regressor.influence_[i], whole, rtol=1e-5)


def test_an_odd_row_is_the_most_influential(X, labels):
    odd = labels.copy()
    i = int(
        np.argmax(np.abs(GPClassifier(hyperparameters=Hyperparameters(fixed="*")).fit(X, labels).predict_latent(X)))
    )
    odd[i] = "no" if labels[i] == "yes" else "yes"
    model = GPClassifier(hyperparameters=Hyperparameters(fixed="*")).fit(X, odd)
    assert np.argmin(model.loo_.log_density) == i


def test_calibration_from_loo_and_from_test_data(classifier, X, labels):
    left, tested = calibration(classifier), calibration(classifier, X, labels)
    assert (left.source, tested.source) == ("leave-one-out", "test data")
    np.testing.assert_allclose(left.log_loss, -classifier.loo_.log_density.mean(), rtol=1e-9)
    probability = classifier.predict_proba(X)
    np.testing.assert_allclose(tested.log_loss, log_loss(labels, probability), rtol=1e-9)
    np.testing.assert_allclose(tested.brier, brier_score_loss(labels == "yes", probability[:, 1]), rtol=1e-9)
    assert left.curve["count"].sum() == left.rows == 50
    assert 0 <= left.ece <= 1


def test_decisions_are_the_cheapest(classifier, X):
    probability = classifier.predict_proba(X)
    cost = [[0, 5], [1, 0]]  # a missed "yes" costs five times a false alarm
    assert np.array_equal(decide(probability, cost) == 1, probability[:, 1] > 1 / 6)
    with pytest.raises(ValueError, match="one column per class"):
        decide(probability, [[0, 1, 2]])
    with pytest.raises(ValueError, match="add up to 1"):
        decide(np.array([[0.5, 0.6]]), np.ones((2, 2)))


def test_plots_return_axes(classifier, regressor, X, labels):
    from matplotlib import pyplot
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    given = Figure().subplots()
    assert plot_loo(classifier, ax=given) is given
    for axes in (plot_cost(classifier, 1, 5), plot_cost(classifier, 1, 5, X, labels), plot_loo(regressor)):
        assert isinstance(axes, Axes)
        assert pyplot.fignum_exists(axes.figure.number), "a notebook shows the figures that pyplot knows"
        pyplot.close(axes.figure)


def test_diagnostics_take_pipelines(classifier, X, labels):
    from matplotlib.figure import Figure

    whole = make_pipeline(FunctionTransformer(), classifier)
    assert calibration(whole).log_loss == calibration(classifier).log_loss
    assert calibration(whole, X, labels).brier == calibration(classifier, X, labels).brier
    given, expected = Figure().subplots(1, 2)
    for model, ax in ((whole, given), (classifier, expected)):
        plot_cost(model, 1, 5, X, labels, ax=ax)
        plot_loo(model, ax=ax)
    np.testing.assert_array_equal(given.lines[0].get_ydata(), expected.lines[0].get_ydata())
    np.testing.assert_array_equal(given.collections[0].get_offsets(), expected.collections[0].get_offsets())


def test_rows_of_weight_zero_are_predicted_not_left_out(X, labels):
    weight = np.ones(50)
    weight[[4, 8]] = 0
    model = GPClassifier(hyperparameters=Hyperparameters(fixed="*")).fit(X, labels, weight)
    assert np.all(model.influence_[[4, 8]] == 0)
    np.testing.assert_allclose(
        model.loo_.log_density[[4, 8]], model.log_predictive_density(X[[4, 8]], labels[[4, 8]]), rtol=1e-10
    )


def test_regression_probabilities_are_uniform_when_the_model_is_right():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(120, 1))
    y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=120)
    level = GPRegressor().fit(X, y).loo_.probability
    assert 0.35 < np.mean(level) < 0.65
    assert 0.05 < np.std(level) < 0.4


def test_rows_without_a_cavity_are_a_warning() -> None:
    """Laplace of robust noise, stopped early: without row 14 the posterior of its level is not a Gaussian."""
    level = np.array([3.2, 2.2, 2.2, 3.0, 0.0, 1.1, 1.0, 2.0, 1.0, 3.1, 2.0, 0.0, 0.2, 3.2, 1.1])[:, None]
    y = np.array(
        [-2.289, -2.58, -1.284, 2.062, 2.143, 2.443, -2.765, -1.242, -2.1, -1.443, 1.382, 1.009, -1.53, -2.182, -2.267]
    )
    weight = np.array([2, 0, 1, 2, 0, 1, 2, 1, 0, 2, 0, 2, 3, 0, 1])
    structure = [parts.Levels(0, variance=24.8339), parts.Constant(variance=10.0)]
    model = GPRegressor(likelihood="student_t", structure=structure, method=Method("laplace", max_iter=3))
    with pytest.warns(ConvergenceWarning):
        model.fit(level, y, sample_weight=weight)
    with pytest.warns(UserWarning, match="Leave-one-out is NaN for 1 of 15 rows"):
        found = model.loo_
    assert np.flatnonzero(np.isnan(found.log_density)).tolist() == [14]
