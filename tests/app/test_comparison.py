"""Scores, tests and words of a comparison."""

import numpy as np
import pytest
from scipy import stats

from sitewise import GPRegressor
from sitewise.app import comparison


def test_the_corrected_test_is_wider_than_the_plain_one_by_the_known_factor():
    d = np.array([0.02, 0.05, 0.01, 0.04, 0.03])
    plain = stats.ttest_1samp(d, 0.0)
    t = plain.statistic * np.sqrt((1 / 5) / (1 / 5 + 1 / 4))
    assert np.isclose(comparison.corrected_t_test(d, 5), 2 * stats.t.sf(t, 4))
    assert comparison.corrected_t_test(d, 5) > plain.pvalue
    assert comparison.corrected_t_test(np.zeros(5), 5) == 1.0


def test_folds_share_out_every_class():
    y = np.array(["a"] * 12 + ["b"] * 6)
    parts = comparison.split(y, 3, 0, classes=True)
    assert sorted(np.concatenate([test for _, test in parts])) == list(range(18))
    assert all(np.sum(y[test] == "b") == 2 for _, test in parts)
    with pytest.raises(ValueError, match="fewer than the 7 folds"):
        comparison.split(y, 7, 0, classes=True)


def test_baselines_know_the_targets_only():
    classes = comparison.baseline("probit", np.array(["a", "a", "b", "a"]), np.array(["a", "b"]))
    assert np.allclose(classes["log_density"], np.log([0.75, 0.25])) and classes["right"] == [True, False]
    values = comparison.baseline("gaussian", np.array([0.0, 2.0]), np.array([1.0]))
    assert np.isclose(values["log_density"][0], stats.norm.logpdf(0)) and values["up_to"] == [0.5]
    counts = comparison.baseline("poisson", np.array([1.0, 3.0]), np.array([0.0]))
    assert np.isclose(counts["log_density"][0], -2) and counts["below"] == [0.0]


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial", "ordinal", "gamma", "log_normal", "beta"])
def test_baselines_are_distributions(likelihood):
    """Their densities add up to one where the targets can be, and to their distribution functions on the way."""
    rng = np.random.default_rng(0)
    if likelihood in ("poisson", "negative_binomial", "ordinal"):
        y, grid = rng.poisson(rng.gamma(2.0, 1.0, 200)).astype(float), np.arange(200.0)
        width = 1.0
    else:
        y, end = rng.beta(2.0, 3.0, 200), 1.0 if likelihood == "beta" else 10.0
        width = end / 20000
        grid = np.arange(0.5 * width, end, width)
    found = comparison.baseline(likelihood, y, grid)
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
    model = GPRegressor(method="laplace", likelihood="ordinal", fixed="*")
    found = comparison.score(model, X[:30], y[:30], X[30:], y[30:])
    step = np.subtract(found["up_to"], found["below"])
    np.testing.assert_allclose(step, np.exp(found["log_density"]), rtol=1e-6)
    base = comparison.baseline("ordinal", y[:30], y[30:])
    assert np.mean(found["log_density"]) > np.mean(base["log_density"])


def test_calibrated_counts_look_calibrated():
    """A count's distribution function jumps; taking its upper end alone would look biased by half a jump."""
    rng = np.random.default_rng(0)
    y = rng.poisson(1.5, size=4000)
    law = stats.poisson(1.5)
    curve = comparison.reliability([{"below": law.cdf(y - 1).tolist(), "up_to": law.cdf(y).tolist()}])
    assert np.max(np.abs(np.subtract(curve["observed"], curve["predicted"]))) < 0.02
    sharp = comparison.reliability([{"below": law.cdf(y).tolist(), "up_to": law.cdf(y).tolist()}])
    assert np.max(np.abs(np.subtract(sharp["observed"], sharp["predicted"]))) > 0.1


def _row(name, log_density, p, seconds=1.0, converged=5):
    return {
        "name": name, "label": comparison.LABELS[name], "log_density": log_density, "p_value": p, "seconds": seconds,
        "folds_lost": 5 if log_density < -0.2 else 0, "difference_to_best": log_density + 0.2, "converged": converged,
    }  # fmt: skip


def test_recommendations_say_how_sure_they_are():
    base = _row("baseline", -0.6, 0.001)
    words = comparison.recommend([_row("vi", -0.2, None, 4.0), _row("ep", -0.21, 0.4, 1.0), base], "vi", 5)
    assert words.startswith("Use VI (--method vi)") and "4.0 times faster" in words
    assert "no significant difference from EP" in words
    words = comparison.recommend([_row("vi", -0.2, None), _row("ep", -0.3, 0.01), base], "vi", 5)
    assert "better than EP (by 0.1000, p = 0.01)" in words and "no significant" not in words
    words = comparison.recommend([_row("vi", -0.2, None, converged=3), base], "vi", 5)
    assert "converged in 3 of 5" in words
    # Beaten significantly, if not in every fold: with many repeats one fold is always lost.
    words = comparison.recommend([_row("vi", -0.2, None), {**base, "folds_lost": 4}], "vi", 5)
    assert words.startswith("Use VI")
    lucky = {**base, "folds_lost": 4, "p_value": 0.2}
    words = comparison.recommend([_row("vi", -0.2, None), lucky], "vi", 5)
    assert words.startswith("None of the methods") and "Use" not in words
