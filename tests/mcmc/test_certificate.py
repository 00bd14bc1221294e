"""Verdicts: what they say, what would decide them, and what follows; the calibration is a study."""

import dataclasses
import re

import numpy as np
import pytest

from brute_force import BruteForce
from certificate_calibration import judged, word_of
from sitewise import Data, Model, kernels, likelihoods
from sitewise.mcmc import Certificate, LogEvidence, certificate, log_evidence
from sitewise.process.precision import working_precision

ROWS = 50.0


def _log_z(se, log_z=-100.0, **sides):
    both = {"lower": log_z, "lower_se": 1.5 * se, "upper": log_z, "upper_se": 1.5 * se, **sides}
    return LogEvidence(log_z=log_z, se=se, ess=16.0, steps=1024, tight=True, reason="target met", **both)


def _certificate(gaps, se=0.05, converged=(), **sides):
    """Evidences so far from log Z, in nats a row; the ELBO far below it where nothing else is asked for."""
    evidences = {name: -100.0 + ROWS * gap for name, gap in {"vi (elbo)": -1.0, **gaps}.items()}
    found = _log_z(se, **sides)
    return Certificate(found, evidences, {name: name not in converged for name in evidences}, ROWS)


@pytest.mark.parametrize(
    ("gap", "word"),
    [
        (0.0, "good"), (0.0079, "good"), (-0.0079, "good"), (0.0121, "rough"), (-0.047, "rough"), (0.053, "poor"),
        (-3.0, "poor"), (0.0085, "undecided"), (-0.0115, "undecided"), (0.0501, "undecided"),
    ],
)  # fmt: skip
def test_words(gap, word):
    """An error of 0.05 nats is ± 0.002 a row on 50 rows."""
    assert _certificate({"ep": gap}).verdicts["ep"] == word


def test_a_wide_error_leaves_all_three():
    assert _certificate({"ep": 0.0}, se=2.0).possible("ep") == ("good", "rough", "poor")


@pytest.mark.parametrize("gap", [0.0085, -0.0115, 0.0495, 0.051])
def test_what_is_advised_decides(gap):
    """With the advised number of steps, and se ∝ 1/√steps, the verdict is decided and right."""
    found = _certificate({"ep": gap})
    remark = found.remarks["ep"]
    assert "would decide it" in remark and "± 0.002 nats per row" in remark
    times = int(re.search(r"about (\d+) times", remark)[1])
    steps = int(re.search(r"max_steps=(\d+)", remark)[1])
    per_row = float(re.search(r"se_per_row=([0-9.e-]+)", remark)[1])
    assert 1024 * (times - 1) <= steps <= 2048 * times
    se = min(0.05 * np.sqrt(1024 / steps), per_row * ROWS)
    assert _certificate({"ep": gap}, se=se).verdicts["ep"] == word_of(gap)
    assert 0.05 * np.sqrt(1 / times) <= 1.2 * per_row * ROWS  # the two settings belong together


def test_on_the_limit_nothing_is_promised():
    assert "too close to decide" in _certificate({"ep": 0.0100001}).remarks["ep"]


def test_sides_that_stay_apart_widen_the_interval():
    """The standard error alone would call it good."""
    assert _certificate({"ep": 0.0}, se=0.01).verdicts["ep"] == "good"
    apart = {"lower": -102.0, "lower_se": 0.1, "upper": -98.0, "upper_se": 0.1}
    assert _certificate({"ep": 0.0}, se=0.01, **apart).verdicts["ep"] == "undecided"


def test_without_a_reverse_run_the_interval_is_that_of_the_rest():
    low, high = _log_z(0.05, upper=np.nan, upper_se=np.nan).interval
    assert low == pytest.approx(-100.1) and high == pytest.approx(-99.9)


def test_the_elbo_is_a_floor():
    """log Z is at least the ELBO: an evidence just above it cannot be far above log Z."""
    loose = _certificate({"ep": 0.009})
    firm = _certificate({"ep": 0.009, "vi (elbo)": 0.0})
    assert loose.verdicts["ep"] == "undecided" and firm.verdicts["ep"] == "good"
    assert firm.interval[0] == -100.0


@pytest.mark.parametrize("log_z", [-100.0, np.nan])
def test_where_annealing_fails_nothing_is_decided(log_z):
    found = _certificate({"vi (elbo)": 0.1, "ep": 0.1, "laplace": -0.02}, log_z=log_z)
    assert not found.bound_holds and "Increase chains" in str(found)
    assert found.verdicts["ep"] == "undecided" and "did not determine log Z" in found.remarks["ep"]
    # log Z is above the ELBO, and so is this one's distance from it.
    assert found.verdicts["laplace"] == "poor"
    assert not found.conclusion.startswith("None")


def test_the_conclusion_follows_from_the_verdicts():
    rng = np.random.default_rng(0)
    for _ in range(300):
        gaps = dict(zip(("hybrid", "ep", "laplace"), np.exp(rng.uniform(-8, 0, 3)), strict=True))
        failed = [name for name in gaps if rng.random() < 0.2]
        found = _certificate(gaps, se=float(np.exp(rng.uniform(-6, 0))), converged=failed)
        words = set(found.verdicts.values())
        trusted = [n for n, word in found.verdicts.items() if word == "good" and n not in failed]
        assert found.conclusion.startswith("Trust") == bool(trusted)
        assert all(name in found.conclusion for name in trusted)
        if found.conclusion.startswith("None"):
            assert "undecided" not in words
        assert str(found).endswith(found.conclusion)


def test_sites_that_did_not_converge_are_not_trusted():
    found = _certificate({"ep": 0.001}, converged=["ep"])
    assert found.verdicts["ep"] == "good" and "did not converge" in found.remarks["ep"]
    assert found.conclusion.startswith("None of the approximations is both good and converged")


def test_an_evidence_without_a_value_is_not_trusted_and_says_so():
    found = _certificate({"ep": np.nan})
    assert found.verdicts["ep"] == "poor" and found.remarks["ep"] == "it is not finite at these sites"


@pytest.mark.parametrize(("rows", "weight", "target"), [(3, 1.0, 0.006), (3, 10.0, 0.06), (3000, 1.0, 0.3)])
def test_the_target_is_a_share_of_the_rows(monkeypatch, rows, weight, target):
    asked = []

    def remember(model, data, vectors, *, target_se, **rest):
        asked.append(target_se)
        raise InterruptedError

    monkeypatch.setattr(certificate.points, "sample_points", remember)
    data = Data.of(np.arange(rows, dtype=float)[:, None], np.ones(rows), weight=np.full(rows, weight))
    with pytest.raises(InterruptedError):
        log_evidence(Model.full(kernels.RBF(), likelihoods.BernoulliProbit()), data)
    assert asked == [pytest.approx(target)]


@pytest.mark.slow
def test_brute_force_of_the_study():
    """Three probit rows: P(all f_i + noise > 0) = 1/8 + Σ asin ρ_ij / 4π, with ρ that of K + I."""
    X = np.array([[0.0], [0.7], [-1.1]])
    model = Model.full(kernels.Matern52(1.3, 40.0), likelihoods.BernoulliProbit())
    y = np.array([1.0, -1.0, 1.0])
    with working_precision():
        C = np.asarray(model.prior.kernel.matrix(X)) + np.eye(3)
        rho = y[:, None] * y * C / np.sqrt(np.outer(np.diag(C), np.diag(C)))
        exact = np.log(0.125 + np.sum(np.arcsin(rho[np.triu_indices(3, 1)])) / (4 * np.pi))
        found, moved = BruteForce(model, Data.of(X, y)).value()
    assert abs(found - exact) < 1e-9 and moved < 1e-9


def test_the_study_counts_wrong_verdicts():
    """A log Z that claims to be exact and is off by 0.02 a row makes a good evidence a rough one."""
    case = {
        "mcmc": dataclasses.asdict(_log_z(1e-6)), "exact": -99.0, "rows": 50, "likelihood": "Poisson",
        "evidences": {"vi (elbo)": -150.0, "ep": -99.0}, "converged": {"vi (elbo)": True, "ep": True},
    }  # fmt: skip
    assert judged(case) == [("vi (elbo)", "poor", "poor"), ("ep", "rough", "good")]
