"""Baseline models: good fits where the truth is linear, calibrated predictive distributions, invalid targets."""

import numpy as np
import pytest
from scipy import special, stats

from sitewise.app.compare.baselines import _trials, _tuned, score_baseline_model, task_of
from sitewise.errors import UserError
from sitewise.likelihoods import BY_NAME

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 2))
F = X[:, 0] - 0.5 * X[:, 1]
TRAIN, TEST = slice(0, 160), slice(160, 240)
E = RNG.uniform(0.5, 3.0, 240)
TRIALS = RNG.integers(3, 15, 240).astype(float)
NOISE = RNG.uniform(0.1, 2.0, 240)
KINDS = {
    "probit": (np.where(RNG.uniform(size=240) < special.expit(2 * F), "yes", "no"), {}),
    "gaussian": (F + 0.5 * RNG.normal(size=240), {}),
    "student_t": (F + 0.3 * RNG.standard_t(2, size=240), {}),
    "poisson": (RNG.poisson(np.exp(0.5 * F)).astype(float), {}),
    "negative_binomial": (RNG.poisson(E * np.exp(0.5 * F)).astype(float), {"exposure": E}),
    "binomial": (RNG.binomial(TRIALS.astype(int), special.expit(F)).astype(float), {"trials": TRIALS}),
    "gamma": (np.exp(0.5 * F) * RNG.gamma(4.0, 0.25, 240), {}),
    "beta": (np.clip(special.expit(F + 0.5 * RNG.normal(size=240)), 1e-6, 1 - 1e-6), {}),
    "heteroscedastic_gaussian": (F + NOISE * RNG.normal(size=240), {"noise": NOISE}),
}


def _scored(name, likelihood, rows=TRAIN):
    y, side = KINDS[likelihood]
    sides = ({k: v[r] for k, v in side.items()} for r in (rows, TEST))
    return score_baseline_model(name, likelihood, X[rows], y[rows], X[TEST], y[TEST], *sides)


@pytest.mark.parametrize("likelihood", KINDS)
def test_a_linear_truth_is_found_by_the_linear_model(likelihood):
    found = _scored("linear", likelihood)
    y = KINDS[likelihood][0][TEST]
    if likelihood == "probit":
        assert np.mean(found["right"]) > 0.75
        assert np.mean(found["log_density"]) > np.log(0.5) + 0.1
        return
    assert stats.spearmanr(found["prediction"], y)[0] > 0.4
    inside = np.mean((np.array(found["up_to"]) >= 0.05) & (np.array(found["below"]) <= 0.95))
    assert 0.8 < inside <= (1.0 if BY_NAME[likelihood].discrete() else 0.99), likelihood
    assert len(found["crps"]) == len(y) and np.all(np.isfinite(found["log_density"]))


@pytest.mark.parametrize("likelihood", ["probit", "gaussian", "poisson"])
def test_boosted_trees_find_a_linear_truth(likelihood):
    found = _scored("trees", likelihood)
    if likelihood == "probit":
        assert np.mean(found["right"]) > 0.65
    else:
        assert stats.spearmanr(found["prediction"], KINDS[likelihood][0][TEST])[0] > 0.3
    assert found["seconds"] > 0 and found["evidence"] is None


def test_censored_targets_have_no_baseline_model():
    assert task_of("censored_gaussian", {"upper": NOISE}) is None
    assert task_of("weibull", {"event": NOISE}) is task_of("tweedie", {}) is task_of("von_mises", {}) is None
    assert [task_of(k, KINDS[k][1]) for k in ("probit", "binomial", "poisson", "gamma")] == [
        "classes", "classes", "counts", "values",
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "likelihood"), [("trees", "gaussian"), ("linear", "poisson")])
def test_the_order_of_the_rows_does_not_matter(name, likelihood):
    """With folds of consecutive rows, every held-out row of a sorted table would be an extrapolation."""
    y = KINDS[likelihood][0]
    order = np.argsort(F[TRAIN])
    mixed = score_baseline_model(name, likelihood, X[TRAIN], y[TRAIN], X[TEST], y[TEST], {}, {})
    ordered = score_baseline_model(name, likelihood, X[TRAIN][order], y[TRAIN][order], X[TEST], y[TEST], {}, {})
    assert np.mean(ordered["crps"]) < 1.1 * np.mean(mixed["crps"])
    inside = (np.array(ordered["up_to"]) >= 0.05) & (np.array(ordered["below"]) <= 0.95)
    assert 0.8 < np.mean(inside) < 0.99


def test_rare_classes_and_constant_targets():
    few = np.where(np.arange(160) == 0, "rare", np.where(F[TRAIN] > 0, "yes", "no"))
    found = score_baseline_model("linear", "probit", X[TRAIN], few, X[TEST], KINDS["probit"][0][TEST], {}, {})
    assert np.mean(found["right"]) > 0.7
    side = {"trials": TRIALS[TRAIN]}
    for name in ("linear", "trees"):  # every trial succeeded
        found = score_baseline_model(
            name, "binomial", X[TRAIN], TRIALS[TRAIN], X[TEST], TRIALS[TEST], side, {"trials": TRIALS[TEST]}
        )
        assert np.mean(found["log_density"]) > -0.1
    with pytest.raises(UserError, match="boosted trees cannot be fitted to these rows"):
        score_baseline_model("trees", "poisson", X[TRAIN], np.zeros(160), X[TEST], np.zeros(80), {}, {})


def test_the_regularization_of_a_classifier_is_cross_validated():
    """Labels that do not depend on the inputs are predicted best by the smallest coefficients."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 30)), np.repeat(["no", "yes"], 30)
    assert _tuned("linear", "classes", X, y).C == 0.01


def test_without_information_all_trials_count_equally():
    """For equal inputs the predicted share is that of all trials, not of the rows."""
    X, side = np.zeros((4, 1)), {"trials": np.array([90.0, 2.0, 2.0, 6.0])}
    law = _trials("linear", X, np.array([70.0, 0.0, 1.0, 4.0]), X[:1], side, {"trials": np.array([100.0])})
    assert law.mean()[0] == pytest.approx(75.0, abs=0.1)
