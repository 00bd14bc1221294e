"""The clock of a fit: the share of its time that has passed, from the seconds of its evaluations."""

from types import SimpleNamespace

import pytest

from sitewise.learning import clock
from sitewise.learning.clock import Clock, Expected


@pytest.fixture
def now(monkeypatch):
    found = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: found.seconds))
    return found


def test_later_stages_are_expected_at_the_speed_of_the_first(now):
    ticking = Clock([Expected(30, 1.0), Expected(5, 10.0)])
    ticking.begin(0)
    for seconds in (4.0, 5.0, 6.0, 7.0):  # the first evaluation compiles
        now.seconds = seconds
        ticking.evaluated()
        assert ticking.share == 0.0  # the second stage is longer, and begins at the end of the first
    ticking.begin(1)
    assert ticking.share == pytest.approx(7 / (7 + 5 * 10))
    now.seconds = 17.0
    ticking.evaluated()
    assert ticking.share == pytest.approx(17 / (17 + 4 * 10))


def test_one_stage_is_expected_to_take_a_typical_number_of_evaluations(now):
    ticking = Clock([Expected(30, 2.0)])
    ticking.begin(0)
    found = []
    for k in range(1, 41):
        now.seconds = 2.0 * k
        ticking.evaluated()
        found.append(ticking.share)
    assert found[:2] == [0.0, 0.0]
    assert found[9] == pytest.approx(10 / 30) and found[28] == pytest.approx(29 / 30)
    assert found == sorted(found) and found[-1] <= 0.99  # more evaluations than expected


def test_compilations_of_the_first_evaluation_and_of_the_hessian_are_not_repeated(now):
    ticking = Clock([Expected(32, 1.0)])
    ticking.begin(0)
    for seconds in (3.0, 3.1, 7.0):
        now.seconds = seconds
        ticking.evaluated()
    assert ticking.share == pytest.approx(7 / (7 + 29 * 0.1))


def test_a_clock_without_stages_knows_nothing(now):
    ticking = Clock()
    ticking.begin(0)
    ticking.evaluated()
    assert ticking.share == 0.0
