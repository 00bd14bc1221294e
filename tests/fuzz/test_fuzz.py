"""The laws of experiments/fuzzing on cases that hypothesis chooses; `make fuzz` runs thousands of them."""

import dataclasses

import numpy as np
from fuzzing import cases, checks
from fuzzing.table import render
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# Three blocks, so that three programs are compiled: an EP, a VI with a likelihood that is not log-concave, a Laplace.
BLOCKS = [
    cases.Block("infer", "probit", "matern52", "ep", 32, "float64", "fractions", False),
    cases.Block("infer", "student-t", "matern52", "vi", 32, "float64", "one", True),
    cases.Block("infer", "poisson", "sum", "laplace", 32, "float64", "counts", False),
]
LOG = st.floats(-10, 10)


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(block=st.sampled_from(BLOCKS), data=st.integers(0, 2**20), log_scale=LOG, log_sigma=LOG, ard=st.floats(0, 5))
def test_every_law_holds(block, data, log_scale, log_sigma, ard):
    case = cases.build(block, np.random.default_rng(data), data)
    spread = np.linspace(-1, 1, cases.COLUMNS)
    theta = {**case.theta, "lengthscale": np.exp(log_scale + ard * spread), "variance": np.exp(2 * log_sigma)}
    row = checks.check(dataclasses.replace(case, theta=theta))
    assert row["status"] in ("converged", "flagged", "refused"), row


def test_a_broken_law_is_told(monkeypatch):
    real = checks._infer

    def wrong(*args, **kwargs):
        solution, found, q, *rest = real(*args, **kwargs)
        return solution, found, q._replace(var=-q.var), *rest

    monkeypatch.setattr(checks, "_infer", wrong)
    row = checks.check(cases.build(BLOCKS[0], np.random.default_rng(3), 3))
    assert (row["status"], row["law"]) == ("failed", "0 < posterior variance ≤ prior variance")


def test_cases_are_a_function_of_their_number():
    one, other = cases.drawn(1234), cases.drawn(1234)
    assert one.block == other.block and np.array_equal(one.X, other.X) and np.array_equal(one.y, other.y)
    kinds = {cases.Block.numbered(i).kind for i in range(16)}
    assert kinds == {"infer", "bound", "learn", "estimator"}
    pairs = {(b.likelihood, b.method) for b in map(cases.Block.numbered, range(16 * 7)) if b.kind == "infer"}
    assert len(pairs) == len(cases.LIKELIHOODS) * len(cases.METHODS) - 1  # all, but Laplace's method without curvature


def test_the_page_counts_rows():
    row = {"kind": "infer", "method": "ep", "likelihood": "probit", "seconds": 0.1}
    page = render([{**row, "seed": 0, "status": "converged"}, {**row, "seed": 1, "status": "failed", "law": "a law"}])
    assert "| inference at given θ | ep | 2 | 50.0 % | 0 | 0 | 0 | 50.0 % |" in page
    assert "1 broken laws" in page and "- 1: failed: a law" in page
