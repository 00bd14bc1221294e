"""Known parameters come back from simulated data; studies/recovery.py has every likelihood, with many sets each."""

import json

import numpy as np
import pytest

import recovery
from sitewise import likelihoods

# log(estimate/truth) that chance allows in one set of 120 rows; the start is twice the truth.
CLOSE = {"likelihood.scale": 0.35, "likelihood.precision": 0.35, "kernel.lengthscale": 0.6}


@pytest.mark.parametrize("name", ["student-t, df learned", "beta", "censored-gaussian"])
def test_parameters_come_back(name):
    row = recovery.estimate(name, seed=3, rows=120)
    assert row["converged"]
    for label, truth, found in zip(row["labels"], row["truth"], row["estimate"], strict=True):
        # Variance and degrees of freedom are told by a few lengthscales of x, and a few outliers.
        assert abs(np.log(found / truth)) < CLOSE.get(label, 1.2), label


def test_the_recorded_sets_cover_every_likelihood_without_a_gross_bias():
    rows = [json.loads(line) for line in recovery.ROWS.read_text().splitlines()]
    assert {r["likelihood"] for r in rows} == set(recovery.CASES)
    covered = {type(case.truth).__name__ for case in recovery.CASES.values()}
    one_function = set(likelihoods.__all__) - {"TwoFunctions", "VaryingParameter"}  # results/two-functions
    assert one_function - covered <= {"Likelihood", "BernoulliLogit", "Softmax"}
    for name in recovery.CASES:
        found = [r for r in rows if r["likelihood"] == name]
        ratio = np.median([np.array(r["estimate"]) / np.array(r["truth"]) for r in found], axis=0)
        assert np.all((ratio > 0.6) & (ratio < 1.6)), name
