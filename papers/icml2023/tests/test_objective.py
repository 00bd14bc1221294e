"""Tests over sets and folds: against brute force, and calibrated where nothing differs."""

import json

import numpy as np
import pytest
from scipy import stats

from sitewise_icml2023 import objective
from sitewise_icml2023.book.stored import Stored
from sitewise_icml2023.tasks import KEY


def test_holm_by_hand():
    assert objective.holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert objective.holm(np.array([0.6, 0.7])) == pytest.approx([1.0, 1.0])
    assert objective.holm(np.array([0.2])) == pytest.approx([0.2])


def test_the_corrected_t_test_widens_the_ordinary_one():
    gaps = np.random.default_rng(0).normal(0.3, 1.0, 50)
    assert objective.corrected_p(gaps, 0.0) == pytest.approx(stats.ttest_1samp(gaps, 0.0).pvalue)
    t = gaps.mean() / np.sqrt(gaps.var(ddof=1) * (1 / 50 + 1 / 4))
    assert objective.corrected_p(gaps, 0.25) == pytest.approx(2 * stats.t.sf(abs(t), 49))
    assert objective.corrected_p(np.zeros(5), 0.25) == 1 and objective.corrected_p(np.ones(5), 0.25) == 0


def test_cross_validation_of_equal_methods_is_not_significant():
    """Two predictors of equal skill, ten repetitions of five folds of the same rows: the ordinary t-test over the 50
    folds is wrong, as all repetitions share the rows; the corrected one keeps its level."""
    rng, wrong = np.random.default_rng(1), np.zeros(2)
    for _ in range(200):
        rows = rng.normal(size=100)  # difference of the two methods on each row
        gaps = np.array([part.mean() for _ in range(10) for part in np.split(rng.permutation(rows), 5)])
        wrong += [stats.ttest_1samp(gaps, 0.0).pvalue < 0.05, objective.corrected_p(gaps, 0.25) < 0.05]
    assert wrong[0] > 60 and wrong[1] <= 20


@pytest.fixture
def stored(tmp_path):
    """Three sets, one seed; vi is 0.1 better than laplace on each, ep equal to vi."""
    rng = np.random.default_rng(2)
    with open(tmp_path / "results.jsonl", "w") as file:
        for name in ("trains", "balloons", "pima"):
            for fold in range(5):
                base = rng.normal()
                for method, shift in (("laplace", 0.0), ("ep", 0.1), ("vi", 0.1)):
                    key = dict(zip(KEY, (name, "clean", 42, fold, method), strict=True))
                    file.write(json.dumps({**key, "test_loglik": base + shift + 1e-4 * rng.normal()}) + "\n")
    return Stored(tmp_path)


def test_pairs_and_page(stored):
    sets = ("trains", "balloons", "pima", "blood")
    found = {(p.first, p.second): p for p in objective.pairs(stored, "clean", (42,), sets, ("laplace", "ep", "vi"))}
    worse = found["laplace", "vi"]
    assert worse.sets == sets[:3] and worse.gaps == pytest.approx([-0.1] * 3, abs=1e-3) and np.all(worse.p < 1e-6)
    assert np.all(found["ep", "vi"].p > 0.05)
    text = objective.markdown(stored, ("clean", "published"), (42,), sets, ("laplace", "ep", "vi"))
    assert "| LA − VI | 3 | -0." in text and "On 3 of 3 sets" in text
    assert text.count("Not run.") == 1
