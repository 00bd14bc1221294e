import numpy as np
import pytest

from sitewise.learning.ascent import climb

WIDE = np.array([[-50.0, 50.0]] * 2)


def maximise(function, start, limits, **settings):
    """Answer the requests of an ascent until it ends."""
    steps = climb(start, limits, **settings)
    x = next(steps)
    while True:
        try:
            x = steps.send(function(x))
        except StopIteration as end:
            return end.value


def _rosenbrock(x):
    a, b = x
    value = -((1 - a) ** 2 + 100 * (b - a * a) ** 2)
    return value, np.array([2 * (1 - a) + 400 * a * (b - a * a), -200 * (b - a * a)])


def test_finds_a_curved_maximum():
    end = maximise(_rosenbrock, np.array([-1.2, 1.0]), WIDE, tol=1e-8, max_rounds=200)
    assert end.converged
    np.testing.assert_allclose(end.x, 1.0, atol=1e-6)


def test_respects_the_box_and_stops_at_its_edge():
    box = np.array([[-2.0, 0.5], [-2.0, 2.0]])
    end = maximise(_rosenbrock, np.array([-1.2, 1.0]), box, tol=1e-8, max_rounds=200)
    assert end.converged and end.x[0] == 0.5
    assert end.x[1] == pytest.approx(0.25, abs=1e-6)


def test_no_step_exceeds_the_cap_and_failures_are_backed_away_from():
    seen = []

    def function(x):
        seen.append(x.copy())
        if x[0] > 3:
            return np.nan, np.array([np.nan, np.nan])
        return -((x[0] - 2.9) ** 2) - x[1] ** 2, np.array([-2 * (x[0] - 2.9), -2 * x[1]])

    end = maximise(function, np.array([-8.0, 5.0]), WIDE, tol=1e-8, max_rounds=200)
    np.testing.assert_allclose(end.x, [2.9, 0.0], atol=1e-6)
    assert np.max(np.abs(np.diff(seen[:4], axis=0))) <= 1.0 + 1e-12


def test_the_cap_on_rounds_is_reported():
    end = maximise(_rosenbrock, np.array([-1.2, 1.0]), WIDE, tol=1e-8, max_rounds=3)
    assert not end.converged and "cap on rounds" in end.reason


@pytest.mark.parametrize(
    ("bias", "least_gain", "converged"), [(0.01, 1e-4, True), (0.01, 0.0, False), (0.5, 1e-4, False)]
)
def test_a_biased_gradient_is_judged_by_the_gain_that_it_promises(bias, least_gain, converged):
    """Sites of finite accuracy bias the gradient: here the best point promises bias²/2 that no step gains."""

    def function(x):
        distance = x - np.array([1.0, 2.0])
        return -0.5 * distance @ distance, -distance + np.array([bias, 0.0]) * (np.max(np.abs(distance)) < 0.1 * bias)

    end = maximise(function, np.array([-1.0, 0.5]), WIDE, tol=1e-8, max_rounds=100, least_gain=least_gain)
    np.testing.assert_allclose(end.x, [1.0, 2.0], atol=0.2 * bias)
    assert end.converged is converged
    assert end.reason == (
        "converged to the precision of the objective" if converged else "stopped: no step improves the evidence"
    )


def test_a_promise_at_an_earlier_point_does_not_count():
    """A step of the plain gradient left that point; beyond 0.5 inference fails, and the slope is still steep."""

    def function(x):
        slope = np.array([1.0 + 2.0 * x[0], 0.0])
        if x[0] > 0.5:
            return np.nan, slope
        return (-1.0 if 0 < x[0] < 1e-3 else x[0] + x[0] ** 2), slope

    guess = 1e-6 * np.eye(2)
    end = maximise(function, np.zeros(2), WIDE, tol=1e-8, max_rounds=100, least_gain=1e-4, guess=lambda: guess)
    assert end.x[0] == 0.5 and not end.converged
    assert end.reason == "stopped: no step improves the evidence"
