"""The laws of studies/fuzzing on cases that hypothesis chooses; `make fuzz` runs thousands of them."""

import dataclasses
import gzip
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import OUT, finished, rows_of
from fuzzing import cases, checks, inference
from fuzzing.table import render

# Three blocks, so that three programs are compiled: an EP, a VI with a likelihood that is not log-concave, a Laplace.
BLOCKS = [
    cases.Block("infer", "probit", "matern52", "ep", 32, "float64", "fractions", False),
    cases.Block("infer", "student-t", "matern52", "vi", 32, "float64", "one", True),
    cases.Block("infer", "poisson", "sum", "laplace", 32, "float64", "counts", False),
]
LOG = st.floats(-10, 10)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(block=st.sampled_from(BLOCKS), data=st.integers(0, 2**20), log_scale=LOG, log_sigma=LOG, ard=st.floats(0, 5))
def test_every_law_holds(block, data, log_scale, log_sigma, ard):
    case = cases.build(block, np.random.default_rng(data), data)
    spread = np.linspace(-1, 1, cases.COLUMNS)
    theta = {**case.theta, "lengthscale": np.exp(log_scale + ard * spread), "variance": np.exp(2 * log_sigma)}
    row = checks.check(dataclasses.replace(case, theta=theta))
    assert row["status"] in ("converged", "flagged", "refused"), row


def test_a_broken_law_is_reported(monkeypatch):
    real = inference.infer

    def wrong(*args, **kwargs):
        out = real(*args, **kwargs)
        return out._replace(marginals=out.marginals._replace(var=-out.marginals.var))

    monkeypatch.setattr(inference, "infer", wrong)
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
    assert "1 violated properties" in page and "- 1: failed: a law" in page


def test_rows_of_earlier_runs_are_compressed_and_new_ones_lie_beside_them(tmp_path):
    path = tmp_path / "cases.jsonl"
    old = "".join(json.dumps({"seed": seed, "status": "failed"}) + "\n" for seed in (0, 1))
    path.with_name("cases.jsonl.gz").write_bytes(gzip.compress(old.encode()))
    log = rows_of(path)
    log.append({"seed": 1, "status": "converged"})
    assert {seed: row["status"] for seed, row in finished(log).items()} == {0: "failed", 1: "converged"}
    assert path.read_text().count("\n") == 1


def test_the_recorded_cases_are_whole():
    rows = finished(rows_of(OUT))
    assert sorted(rows) == list(range(10_000))
    assert render(list(rows.values())) == (OUT.parent / "README.md").read_text(encoding="utf-8")
