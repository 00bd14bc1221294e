"""The conclusions of a comparison: significance, a baseline model that is best, calibration."""

import numpy as np
import pytest

from sitewise.app.compare.comparison import reliability
from sitewise.app.compare.scoring import of_classes
from sitewise.app.compare.verdict import _large_groups, verdict

CURVE = {"predicted": [0.2, 0.8], "observed": [0.2, 0.8], "count": [50, 50], "error": [0.05, 0.05]}


def _row(name, log_density, p, converged=5, **more):
    return {
        "name": name, "warning": None, "log_density": log_density, "p_value": p, "converged": converged,
        "accuracy": 0.8, "auc": 0.9, "brier": 0.1, "difference_to_winner": log_density + 0.2, "gain": log_density + 0.6,
        "gain_error": 0.05, **more,
    }  # fmt: skip


def _words(*rows, best="vi", curve=CURVE, positive=None, folds=5, groups=None):
    winner = next(row["name"] for row in rows if row["p_value"] is None)
    found = {
        "methods": rows, "best_gp": best, "winner": winner, "positive": positive,
        "reliability": {row["name"]: curve for row in rows},
    }  # fmt: skip
    return " ".join(verdict(found, folds, groups))


BASE = _row("baseline", -0.6, 0.001, accuracy=0.6, brier=0.2)


def test_a_clear_winner_and_an_unclear_one():
    words = _words(_row("vi", -0.2, None), _row("ep", -0.21, 0.4), BASE)
    assert words.startswith("Use the Gaussian process (vi), --method vi: it predicts best (log loss 0.2000).")
    assert "not significant (p ≥ 0.05), or below 0.01 nats per row, for ep." in words
    words = _words(_row("vi", -0.2, None), _row("ep", -0.3, 0.01), BASE)
    assert "significantly better than ep (by 0.1000, p = 0.01)" in words and "not significant" not in words
    assert "converged in only 3 of 5" in _words(_row("vi", -0.2, None, converged=3), BASE)


@pytest.mark.parametrize(
    ("loss", "p", "why"),
    [
        (0.2004, 1e-4, "too small to matter (below 0.01)"),
        (0.23, 0.93, "not significant (p = 0.93; --repeats 5 would estimate it more precisely)"),
    ],
)
def test_a_tie_names_the_default(loss, p, why):
    """A difference of 0.0004 nats per row is not worth another model, however small its p-value is."""
    words = _words(_row("hybrid", -loss, p), _row("ep", -0.2, None), _row("linear", -0.3, 0.01), BASE, best="hybrid")
    assert words.startswith(
        f"Use the default Gaussian process (log loss {loss:.4f}): the Gaussian process (ep) has a lower log loss "
        f"by {loss - 0.2:.4f} nats per row, which is {why}."
    )
    assert "significantly better than linear model (by 0.1000, p = 0.01)" in words and "than the default" not in words


@pytest.mark.parametrize(
    ("loss", "p", "why"),
    [
        (0.2004, 1e-4, "too small to matter (below 0.01)"),
        (0.23, 0.93, "not significant (p = 0.93; --repeats 5 would estimate it more precisely)"),
    ],
)
def test_a_tie_with_a_baseline_model_names_both(loss, p, why):
    words = _words(_row("hybrid", -loss, p), _row("trees", -0.2, None), BASE, best="hybrid", positive="left")
    assert words.startswith(
        f"Boosted trees of scikit-learn have the lowest log loss (0.2000), lower than the default Gaussian process "
        f"({loss:.4f}) by {loss - 0.2:.4f} nats per row, which is {why}. Use either: boosted trees for predictions"
    )
    assert words.endswith("The thresholds, importances and effects below describe the default Gaussian process.")
    assert "significantly" not in words
    words = _words(_row("ep", -loss, p), _row("linear", -0.2, None), BASE, best="ep")
    assert words.startswith("The linear model of scikit-learn has the lowest log loss (0.2000)")
    assert "the Gaussian process (ep), --method ep for predictive distributions" in words


def test_groups_that_are_held_out_are_named():
    sentence = "Whole groups of 'region' were held out: the scores describe predictions for new groups."
    assert sentence in _words(_row("vi", -0.2, None), BASE, groups="region")
    assert sentence in _words(_row("vi", -0.2, None, gain=0.1), BASE, groups="region")
    assert "held out:" not in _words(_row("vi", -0.2, None), BASE)


def test_a_difference_that_matters_names_the_better_model():
    words = _words(_row("hybrid", -0.25, 0.01), _row("ep", -0.2, None), BASE, best="ep")
    assert words.startswith("Use the Gaussian process (ep), --method ep: it predicts best (log loss 0.2000).")
    assert "significantly better than the default GP (by 0.0500, p = 0.01)" in words


def test_a_baseline_model_may_be_best():
    words = _words(_row("vi", -0.3, 0.01), _row("trees", -0.2, None), BASE)
    assert words.startswith(
        "Boosted trees of scikit-learn predict significantly better than the best Gaussian process: log loss 0.2000, "
        "lower by 0.1000 nats per row (p = 0.01). If you only need predictions, use boosted trees."
    )
    assert "effects below describe the Gaussian process (vi), which predicts significantly worse" in words


def test_columns_without_information():
    words = _words(_row("vi", -0.2, None, gain=0.1), BASE)
    assert words.startswith("No model predicts reliably better than ignoring the inputs") and "Use" not in words
    assert _words(_row("vi", -0.2, None, gain=0.2), BASE).startswith("Use")


def test_a_class_that_is_not_predicted():
    row = _row("vi", -0.2, None, auc=0.4, brier=0.03)
    words = _words(row, {**BASE, "brier": 0.03}, positive="rare")
    assert "for 'rare' alone the model is no better than ignoring the inputs" in words


def test_warnings_of_the_best_model_are_reported():
    words = _words(_row("laplace", -0.2, None, warning="Not to be trusted."), BASE, best="laplace")
    assert "Warning from its fits: Not to be trusted." in words


@pytest.mark.parametrize(
    ("curve", "words"),
    [
        ({"observed": [0.2, 0.8]}, "are calibrated"),
        ({"observed": [0.35, 0.65]}, "overconfident"),
        ({"observed": [0.05, 0.95]}, "underconfident"),
        ({"observed": [0.4, 0.95]}, "too low"),
        # One group is enough if it is far off and large; a tiny group is not.
        ({"predicted": [0.03, 0.8], "observed": [0.105, 0.8], "count": [1000, 300]}, "too low"),
        ({"predicted": [0.03, 0.8], "observed": [0.5, 0.8], "count": [2, 300]}, "are calibrated"),
    ],
)
def test_calibration_in_words(curve, words):
    found = _words(_row("vi", -0.2, None), BASE, curve={**CURVE, **curve}, positive="yes")
    assert words in found and "ranks a random 'yes' row above a random other row in 90 % of cases (AUC 0.900)" in found


def test_the_most_probable_of_several_classes_may_be_improbable():
    curve = {**CURVE, "predicted": [0.32, 0.43], "observed": [0.59, 0.68]}
    assert "underconfident" in _words(_row("vi", -0.2, None), BASE, curve=curve)


@pytest.mark.parametrize(
    ("gap", "coverage", "words"),
    [
        (lambda p: 0 * p, 0.9, "are calibrated"),
        (lambda p: 0.15 + 0 * p, 0.8, "too high"),
        (lambda p: -0.15 + 0 * p, 0.95, "too low"),
        (lambda p: 0.3 * (0.5 - p), 0.8, "too narrow"),
        (lambda p: -0.3 * (0.5 - p), 0.97, "too wide"),
        # The ends may fit although the middle does not: 90 % intervals with 91 % of the values said nothing on that.
        (lambda p: -0.1 * np.sin(2 * np.pi * p), 0.89, "too wide (the 50 % intervals contain 70 % of the values)"),
        (lambda p: 0.1 * np.sin(2 * np.pi * p), 0.91, "too narrow (the 50 % intervals contain 30 % of the values)"),
    ],
)
def test_calibration_of_values_in_words(gap, coverage, words):
    p = np.linspace(0.05, 0.95, 19)
    curve = {"predicted": p, "observed": p + gap(p), "count": np.full(19, 200.0), "error": np.full(19, 0.03)}
    row = _row("vi", -0.2, None, coverage=coverage, mae=1.0)
    del row["accuracy"]
    assert words in _words(row, {**BASE, "mae": 2.0}, curve=curve)


def test_calibrated_predictions_are_rarely_rejected():
    """The false positive rate is the level of the test, for any number of rows."""
    rng = np.random.default_rng(0)
    rejected = 0
    for _ in range(200):
        p = rng.beta(0.5, 2.0, 300)
        y = np.where(rng.uniform(size=300) < p, "yes", "no")
        curve = reliability([of_classes(np.column_stack([1 - p, p]), np.array(["no", "yes"]), y)], y, "yes")
        rejected += "not calibrated" in _words(_row("vi", -0.2, None), BASE, curve=curve, positive="yes")
    assert rejected < 22  # 5 % of 200, and three standard deviations


def test_bins_with_few_expected_events_are_merged():
    """Ten rows of probability 0.98 have 0.2 expected misses: neither bin is large enough for a test of its own."""
    p, o, n = _large_groups(np.array([0.5, 0.98, 0.99]), np.array([0.4, 1.0, 0.9]), np.array([100, 10, 10]))
    assert n.tolist() == [120] and p[0] == pytest.approx((50 + 9.8 + 9.9) / 120) and o[0] == pytest.approx(59 / 120)
