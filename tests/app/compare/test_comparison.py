"""Folds, tests and curves of a comparison."""

import numpy as np
import pytest
from scipy import stats

from sitewise.app.compare import comparison, scoring


def test_the_corrected_test_is_wider_than_the_plain_one_by_the_known_factor():
    d = np.array([0.02, 0.05, 0.01, 0.04, 0.03])
    plain = stats.ttest_1samp(d, 0.0)
    t = plain.statistic * np.sqrt((1 / 5) / (1 / 5 + 1 / 4))
    assert np.isclose(comparison.corrected_t_test(d, 5), 2 * stats.t.sf(t, 4))
    assert comparison.corrected_t_test(d, 5) > plain.pvalue
    assert comparison.corrected_t_test(np.zeros(5), 5) == 1.0


def test_folds_are_stratified_by_class():
    y = np.array(["a"] * 12 + ["b"] * 6)
    parts = comparison.split(y, 3, 0, classes=True)
    assert sorted(np.concatenate([test for _, test in parts])) == list(range(18))
    assert all(np.sum(y[test] == "b") == 2 for _, test in parts)
    with pytest.raises(ValueError, match="fewer than the 7 folds"):
        comparison.split(y, 7, 0, classes=True)


def test_calibrated_counts_look_calibrated():
    """A count's distribution function jumps; taking its upper end alone would look biased by half a jump."""
    rng = np.random.default_rng(0)
    y = rng.poisson(1.5, size=4000)
    law = stats.poisson(1.5)
    curve = comparison.reliability([{"below": law.cdf(y - 1).tolist(), "up_to": law.cdf(y).tolist()}], y)
    assert np.max(np.abs(np.subtract(curve["observed"], curve["predicted"]))) < 0.02
    sharp = comparison.reliability([{"below": law.cdf(y).tolist(), "up_to": law.cdf(y).tolist()}], y)
    assert np.max(np.abs(np.subtract(sharp["observed"], sharp["predicted"]))) > 0.1


def _classes(y, p):
    """The score of one fold in which the second of two classes has probability p."""
    found = scoring.of_classes(np.column_stack([1 - p, p]), np.array(["no", "yes"]), y)
    return [scoring.without_evidence(found)]


@pytest.mark.parametrize(("gap", "noise", "best"), [(0.0004, 0.0, "hybrid"), (0.02, 0.1, "hybrid"), (0.02, 0.0, "ep")])
def test_of_tied_gaussian_processes_the_default_is_best(gap, noise, best):
    """Another model must be better by 0.01 nats per row, and significantly."""
    rng = np.random.default_rng(0)
    y, parts = np.repeat(["no", "yes"], 50), comparison.split(np.repeat(["no", "yes"], 50), 5, 0, classes=True)
    scores = {name: [] for name in ("hybrid", "ep", "baseline")}
    for _, test in parts:
        for name, loss in (("hybrid", 0.3 + gap + noise * rng.normal()), ("ep", 0.3), ("baseline", 0.7)):
            right = np.exp(-loss - 1e-6 * rng.normal(size=len(test)))
            scores[name] += _classes(y[test], np.where(y[test] == "yes", right, 1 - right))
    found = comparison.summary(scores, y, parts, 5, "yes")
    assert found["best_gp"] == best
    assert comparison.matters(0.02, 0.01) and not comparison.matters(0.02, 0.06) and not comparison.matters(0.009, 0.01)


def test_class_scores_equal_scikit_learn():
    from sklearn import metrics

    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, 300)
    y = np.where(rng.uniform(size=300) < p, "yes", "no")
    parts = [(np.arange(0), np.arange(300))]
    for positive, share in (("yes", p), ("no", 1 - p)):
        scores = {"vi": _classes(y, p), "baseline": _classes(y, np.full(300, 0.5))}
        row, base = comparison.summary(scores, y, parts, 2, positive)["methods"]
        assert row["auc"] == pytest.approx(metrics.roc_auc_score(y == positive, share))
        assert row["brier"] == pytest.approx(metrics.brier_score_loss(y == positive, share))
        assert row["log_density"] == pytest.approx(-metrics.log_loss(y, np.column_stack([1 - p, p])))
        assert base["auc"] == 0.5 and base["brier"] == 0.25


def test_error_bars_contain_calibrated_shares_only():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.02, 0.98, 4000)
    y = np.where(rng.uniform(size=4000) < p, "yes", "no")
    off = []
    for claimed in (p, np.clip(p + 0.1, 0, 1)):
        curve = {k: np.array(v) for k, v in comparison.reliability(_classes(y, claimed), y, "yes").items()}
        off.append(np.sum(np.abs(curve["observed"] - curve["predicted"]) > 2 * curve["error"]))
    assert off[0] <= 1 and off[1] >= 5


def test_a_row_held_out_in_every_repeat_counts_once():
    rng = np.random.default_rng(3)
    p = rng.uniform(0.05, 0.95, 200)
    y = np.where(rng.uniform(size=200) < p, "yes", "no")
    once = comparison.reliability(_classes(y, p), y, "yes")
    thrice = comparison.reliability(_classes(y, p) * 3, np.tile(y, 3), "yes", repeats=3)
    for name, values in once.items():
        np.testing.assert_allclose(thrice[name], values)


def test_coverage_of_counts_equals_the_share_inside_the_interval():
    rng = np.random.default_rng(4)
    y, law = rng.poisson(0.5, 3000).astype(float), stats.poisson(0.5)
    scores = {"vi": [scoring.without_evidence(scoring.of_law(law, True, y))]}
    scores["baseline"] = scores["vi"]
    row, _ = comparison.summary(scores, y, [(np.arange(0), np.arange(3000))], 2)["methods"]
    assert row["coverage"] == np.mean((y >= law.ppf(0.05)) & (y <= law.ppf(0.95)))


def test_coverage_of_values_equals_the_share_inside_the_interval():
    rng = np.random.default_rng(2)
    y = rng.normal(size=2000)
    scores = {}
    for name, sd in (("vi", 1.0), ("ep", 0.5)):
        scores[name] = [scoring.without_evidence(scoring.of_law(stats.norm(0, sd), False, y))]
    scores["baseline"] = scores["vi"]
    right, narrow, _ = comparison.summary(scores, y, [(np.arange(0), np.arange(2000))], 2)["methods"]
    assert abs(right["coverage"] - 0.9) < 0.02
    assert abs(narrow["coverage"] - (2 * stats.norm.cdf(0.5 * 1.645) - 1)) < 0.03
    assert right["rmse"] == pytest.approx(np.sqrt(np.mean(y**2)))


def test_the_winner_has_no_difference_to_itself_and_the_others_lose_by_the_mean_of_the_folds():
    """The log density of a row is the logarithm of the probability of its class."""
    y, parts = np.array(["yes", "no"]), [(np.array([1]), np.array([0])), (np.array([0]), np.array([1]))]
    shares = {"vi": (0.8, 0.2), "ep": (0.4, 0.8), "baseline": (0.5, 0.5)}
    scores = {
        name: [_classes(y[k : k + 1], np.array([p]))[0] for k, p in enumerate(each)] for name, each in shares.items()
    }
    rows = {row["name"]: row["difference_to_winner"] for row in comparison.summary(scores, y, parts, 2)["methods"]}
    assert rows["vi"] == 0.0
    assert rows["ep"] == pytest.approx((np.log(0.4 / 0.8) + np.log(0.2 / 0.8)) / 2)
