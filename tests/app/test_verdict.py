"""The words of a comparison say how sure it is, and name a rival that wins."""

import pytest

from sitewise.app.verdict import verdict

CURVE = {"predicted": [0.2, 0.8], "observed": [0.2, 0.8], "count": [50, 50], "error": [0.05, 0.05]}


def _row(name, log_density, p, converged=5, **more):
    return {
        "name": name, "label": name, "log_density": log_density, "p_value": p, "converged": converged, "accuracy": 0.8,
        "auc": 0.9, "folds_lost": 5 if log_density < -0.2 else 0, "difference_to_best": log_density + 0.2, **more,
    }  # fmt: skip


def _words(*rows, best="vi", curve=CURVE, positive=None):
    winner = next(row["name"] for row in rows if row["p_value"] is None)
    found = {
        "methods": rows, "best": best, "winner": winner, "positive": positive,
        "reliability": {row["name"]: curve for row in rows},
    }  # fmt: skip
    return " ".join(verdict(found, 5))


BASE = _row("baseline", -0.6, 0.001, accuracy=0.6)


def test_a_clear_winner_and_an_unclear_one():
    words = _words(_row("vi", -0.2, None), _row("ep", -0.21, 0.4), BASE)
    assert (
        words.startswith("Use the Gaussian process (vi), --method vi") and "no significant difference from ep" in words
    )
    words = _words(_row("vi", -0.2, None), _row("ep", -0.3, 0.01), BASE)
    assert "significantly better than ep (by 0.1000, p = 0.01)" in words and "no significant" not in words
    assert "converged in 3 of 5" in _words(_row("vi", -0.2, None, converged=3), BASE)


def test_a_rival_may_win():
    words = _words(_row("vi", -0.3, 0.01), _row("trees", -0.2, None), BASE)
    assert words.startswith("Boosted trees of scikit-learn predict significantly better") and "use that" in words
    words = _words(_row("vi", -0.21, 0.5), _row("linear", -0.2, None), BASE)
    assert "The linear model of scikit-learn predicts better, if not significantly" in words
    assert "use --method vi" in words


def test_columns_that_say_nothing():
    lucky = {**BASE, "folds_lost": 4, "p_value": 0.2}
    words = _words(_row("vi", -0.2, None), lucky)
    assert words.startswith("Nothing here predicts better than ignoring the inputs") and "Use" not in words
    # Beaten significantly, if not in every fold: with many repeats one fold is always lost.
    assert _words(_row("vi", -0.2, None), {**BASE, "folds_lost": 4}).startswith("Use")
    better = {**BASE, "difference_to_best": 0.1, "folds_lost": 0, "p_value": 0.001}
    assert _words(_row("vi", -0.2, None), better).startswith("Nothing here")


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        ([0.2, 0.8], "can be taken at their word"),
        ([0.35, 0.65], "too sure of themselves"),
        ([0.05, 0.95], "too cautious"),
    ],
)
def test_calibration_in_words(observed, words):
    found = _words(_row("vi", -0.2, None), BASE, curve={**CURVE, "observed": observed}, positive="yes")
    assert words in found and "'yes' gets the higher probability in 90 of 100 cases" in found
