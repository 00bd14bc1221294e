"""Decision thresholds, their costs, and the confusion matrix."""

import numpy as np
import pytest

from sitewise.app.compare.decisions import confusion, thresholds


def test_calibrated_probabilities_are_cheapest_at_their_own_threshold():
    """At the cost ratio for which a threshold is optimal, no other threshold costs less, up to noise."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=40_000)
    hit = rng.uniform(size=40_000) < p
    rows = thresholds(p, hit)
    for own in rows:
        cost = {r["threshold"]: own["miss_costs"] * r["missed"] + r["false_alarms"] for r in rows}
        assert cost[own["threshold"]] <= min(cost.values()) + 0.01 * own["miss_costs"]
        assert own["saved"] > 0.0


def test_shares_equal_a_count_by_hand():
    p, hit = np.array([0.9, 0.6, 0.4, 0.1]), np.array([True, False, True, False])
    half = next(r for r in thresholds(p, hit) if r["threshold"] == 0.5)
    assert (half["acted_on"], half["found"], half["precision"]) == (0.5, 0.5, 0.5)
    assert (half["false_alarms"], half["missed"], half["miss_costs"]) == (0.25, 0.25, 1.0)
    assert half["saved"] == pytest.approx(1 - 0.5 / 0.5)
    assert thresholds(np.full(4, 0.1), hit)[-1]["precision"] is None


def test_confusion_counts_every_pair():
    found = confusion(np.array(["a", "b", "b"]), np.array(["a", "a", "c"]))
    assert found["classes"] == ["a", "b", "c"] and found["counts"] == [[1, 1, 0], [0, 0, 0], [0, 1, 0]]


def test_every_threshold_is_listed_once():
    rows = thresholds(np.array([0.9, 0.1]), np.array([True, False]))
    found = [row["threshold"] for row in rows]
    assert found == sorted(set(found)) and rows[0]["miss_costs"] == pytest.approx(19.0)
