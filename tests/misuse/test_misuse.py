"""Plausible mistakes that hypothesis chooses, and the hunt itself; `studies/misuse.py` runs thousands."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from misuse import OUT, PAGE, summary
from misusing import cases
from misusing.doors import DOORS, Result
from misusing.judge import OFFENDERS, is_clear, judge
from misusing.kinds import KINDS
from misusing.page import render
from misusing.scenes import correct
from sitewise import Data, GPRegressor

# What these doors let pass is compiled for half a minute.
SLOW = ("mcmc.sample", "mcmc.log_evidence", "VEM.fit", "evidence_surface")


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(number=st.integers(0, 10**6).filter(lambda number: cases.drawn(number).scene.door not in SLOW))
def test_no_mistake_gives_a_wrong_result_in_silence(number):
    row = cases.run(cases.drawn(number))
    assert row["verdict"] not in OFFENDERS, row


@pytest.mark.parametrize("likelihood", ["gaussian", "binomial", "softmax"])
def test_the_correct_problem_passes(likelihood):
    scene = correct("posterior", likelihood, np.random.default_rng(5), sparse=False)
    assert np.all(np.isfinite(DOORS["posterior"](scene).values["log_density"]))


def test_verdicts():
    def gives(value, flagged=""):
        return lambda: Result({"value": np.array(value)}, flagged)

    def fails(error):
        def call():
            raise error

        return call

    assert judge(gives(1.0), gives(1.0))[0] == "right"
    assert judge(gives(2.0), gives(1.0))[0] == "wrong"
    assert judge(gives(2.0, "stalled"), gives(1.0))[0] == "warned"
    assert judge(gives(2.0, "three rounds"), gives(1.0, "three rounds"))[0] == "wrong"
    assert judge(fails(ValueError("Raised outside of the library, so not clear.")), gives(1.0))[0] == "raw"
    assert judge(lambda: np.ones(2) + np.ones(3), gives(1.0))[0] == "raw"


@pytest.mark.parametrize(
    ("call", "clear"),
    [
        (lambda: Data.of([[1.0]], [1.0, 2.0]), True),
        (lambda: GPRegressor().fit([[np.nan]] * 3, [1.0] * 3), True),
        (lambda: np.zeros(2).reshape(3), False),
        (lambda: [][0], False),
    ],
)
def test_a_clear_error_is_a_sentence_of_this_library(call, clear):
    with pytest.raises((ValueError, TypeError, IndexError)) as caught:
        call()
    assert is_clear(caught.value) is clear


def test_every_kind_has_its_turn_and_every_door_its_mistakes():
    drawn = [cases.drawn(number) for number in range(6 * len(KINDS))]
    assert {case.kinds[0] for case in drawn} == set(KINDS)
    assert {case.scene.door for case in drawn} == set(DOORS)
    assert any(len(case.kinds) == 2 for case in drawn)
    one, other = cases.drawn(77), cases.drawn(77)
    assert one.kinds == other.kinds and np.array_equal(one.scene.X, other.scene.X)


def test_the_page_lists_the_kinds_and_the_counts_of_the_recorded_run():
    found, tables = (json.loads((OUT / f"{name}.json").read_text(encoding="utf-8")) for name in ("summary", "tables"))
    assert found["cases"] >= 2000 and found["offenders"] == []
    assert render(found, tables) == PAGE.read_text(encoding="utf-8"), "python studies/misuse.py --page"


def test_the_summary_counts_verdicts():
    names = sorted(KINDS)[:2]
    rows = [
        {"case": 0, "kinds": [names[0]], "verdict": "refused"},
        {"case": 1, "kinds": [names[1], names[0]], "verdict": "wrong"},
    ]
    found = summary(rows)
    assert found["verdicts"] == {"refused": 1, "wrong": 1} and found["two_mistakes"] == 1
    assert found["kinds"][names[0]] == {"refused": 1} and found["offenders"] == rows[1:]
