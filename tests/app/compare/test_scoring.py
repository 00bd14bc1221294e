"""The scores of one model on one fold."""

import time

import numpy as np
import pytest
from scipy import stats

from sitewise import GPRegressor, Hyperparameters
from sitewise.app.compare import scoring
from sitewise.likelihoods import BY_NAME


def test_the_ranked_probability_score_of_a_gaussian():
    """Its closed form is s (z (2Φ(z) − 1) + 2φ(z) − 1/√π), z = (y − m)/s."""
    y = np.array([-3.0, -0.2, 0.0, 1.0, 4.0])
    z = (y - 0.5) / 2.0
    wanted = 2.0 * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    found = scoring.of_law(stats.norm(0.5, 2.0), False, y)["crps"]
    np.testing.assert_allclose(found, wanted, atol=0.02)


def test_the_ranked_probability_score_of_trials_is_that_of_their_quantiles():
    rng = np.random.default_rng(0)
    trials, share = rng.integers(1, 60, 50), rng.uniform(size=50)
    y = rng.binomial(trials, 0.5)
    law = stats.binom(trials, share)
    found = scoring.of_law(law, True, y, {"trials": trials})["crps"]
    np.testing.assert_allclose(found, scoring.of_law(law, True, y)["crps"], atol=0.15, rtol=0.02)


def test_a_prediction_without_spread_has_the_absolute_error_as_its_score():
    y = np.array([1.0, 3.0])
    found = scoring.of_law(stats.norm(2.0, 1e-9), False, y)["crps"]
    np.testing.assert_allclose(found, [1.0, 1.0], atol=1e-6)


def test_censored_rows_have_no_ranked_probability_score():
    y, upper = np.array([1.0, 5.0, 2.0]), np.array([5.0, 5.0, 5.0])
    found = scoring.of_law(stats.norm(2.0, 1.0), False, y, {"upper": upper})
    assert len(found["crps"]) == 2 and found["up_to"][1] == 1.0
    assert found["log_density"][1] == pytest.approx(stats.norm.logsf(3.0))


def test_a_row_between_two_ends_has_their_probabilities():
    y, until = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, np.inf])
    law = stats.norm(2.0, 1.0)
    found = scoring.of_law(law, False, y, {"until": until})
    assert len(found["crps"]) == 1 and found["prediction"] == [1.0, 2.0, pytest.approx(2.0)]
    np.testing.assert_allclose(found["below"], law.cdf(y))
    np.testing.assert_allclose(found["up_to"], [0.5, 0.5, 1.0])
    wanted = [np.log(law.cdf(2) - law.cdf(1)), law.logpdf(2), law.logsf(3)]
    np.testing.assert_allclose(found["log_density"], wanted)


def test_amounts_have_a_baseline_with_zeros():
    """The distribution has a jump at 0 and a density that integrates to the remaining probability."""
    y = np.array([0.0, 0.0, 1.0, 2.0, 5.0])
    found = scoring.score_without_inputs("tweedie", y, np.array([0.0, 2.0]))
    assert found["below"][0] == 0 and found["up_to"][0] == pytest.approx(2.5 / 6) and found["below"][1] > 0.5
    law = BY_NAME["hurdle_gamma"].baseline(y)
    grid = np.linspace(1e-4, 60, 200_001)
    total = np.exp(law.logpdf(np.zeros(1)))[0] + np.sum(np.exp(law.logpdf(grid))) * (grid[1] - grid[0])
    assert total == pytest.approx(law.cdf(np.array([60.0]))[0], abs=1e-3) and law.ppf(0.3) == 0.0


def test_a_class_that_was_not_trained_on_has_probability_0():
    found = scoring.of_classes(np.array([[0.3, 0.7]]), np.array(["a", "b"]), np.array(["c"]))
    assert found["log_density"] == [-np.inf] and found["right"] == [False]


def test_scores_without_inputs_use_the_training_targets_only():
    classes = scoring.score_without_inputs("probit", np.array(["a", "a", "b", "a"]), np.array(["a", "b"]))
    assert np.allclose(classes["log_density"], np.log([0.75, 0.25])) and classes["right"] == [True, False]
    values = scoring.score_without_inputs("gaussian", np.array([0.0, 2.0]), np.array([1.0]))
    assert np.isclose(values["log_density"][0], stats.norm.logpdf(0)) and values["up_to"] == [0.5]
    counts = scoring.score_without_inputs("poisson", np.array([1.0, 3.0]), np.array([0.0]))
    assert np.isclose(counts["log_density"][0], -2) and counts["below"] == [0.0]


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial", "ordinal", "gamma", "log_normal", "beta"])
def test_predictions_without_inputs_are_distributions(likelihood):
    """Densities sum to one over the support, and partial sums equal the distribution function."""
    rng = np.random.default_rng(0)
    if likelihood in ("poisson", "negative_binomial", "ordinal"):
        y, grid = rng.poisson(rng.gamma(2.0, 1.0, 200)).astype(float), np.arange(200.0)
        width = 1.0
    else:
        y, end = rng.beta(2.0, 3.0, 200), 1.0 if likelihood == "beta" else 10.0
        width = end / 20000
        grid = np.arange(0.5 * width, end, width)
    found = scoring.score_without_inputs(likelihood, y, grid)
    p = width * np.exp(found["log_density"])
    assert np.isclose(p.sum(), 1, atol=1e-3)
    if likelihood == "ordinal":  # labels have no distribution function
        return
    np.testing.assert_allclose(np.cumsum(p), found["up_to"], atol=2e-3)
    if width == 1.0:
        np.testing.assert_allclose(np.subtract(found["up_to"], found["below"]), p, atol=1e-9)


def test_ordered_classes_are_scored_as_steps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    y = np.clip(np.round(X[:, 0] + 1), 0, 2)
    model = GPRegressor(method="laplace", likelihood="ordinal", hyperparameters=Hyperparameters(fixed="*"))
    found = scoring.score(model, X[:30], y[:30], X[30:], y[30:])
    step = np.subtract(found["up_to"], found["below"])
    np.testing.assert_allclose(step, np.exp(found["log_density"]), rtol=1e-6)
    base = scoring.score_without_inputs("ordinal", y[:30], y[30:])
    assert np.mean(found["log_density"]) > np.mean(base["log_density"])


def test_the_seconds_are_those_of_the_fit():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 1)), rng.normal(size=12)
    began = time.perf_counter()
    found = scoring.score(GPRegressor(hyperparameters=Hyperparameters(fixed="*")), X, y, X, y)
    assert 0 < found["seconds"] <= time.perf_counter() - began
