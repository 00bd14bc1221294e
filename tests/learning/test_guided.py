"""An ascent by the help of a cheap function ends at the maximum of the costly one, after fewer evaluations of it."""

import numpy as np
import pytest

from sitewise import EP, Data, Model, Nested, evidence, kernels, likelihoods
from sitewise.learning import rehearsal
from sitewise.learning.ascent import climb
from sitewise.learning.guided import guided

WIDE = np.array([[-50.0, 50.0]] * 4)
SHIFT = np.array([0.3, -0.2, 0.1, 0.4])
TILT = np.array([0.05, -0.02, 0.03, 0.01])


def _costly(x):
    """Flat far away, as evidences are; curved, and with its maximum not where the cheap one has it."""
    a, b = x[:2] - SHIFT[:2], x[2:] - SHIFT[2:]
    c = b - a**2 / 4
    value = -np.sum(np.log1p(a**2)) - 2 * np.sum(np.log1p(c**2))
    by_c = -4 * c / (1 + c**2)
    return value, np.concatenate([-2 * a / (1 + a**2) - by_c * a / 2, by_c])


def _cheap(x):
    value, slope = _costly(x + 0.2)
    return 0.8 * value + TILT @ x, 0.8 * slope + TILT


def _useless(x):
    return 0.0, np.zeros_like(x)


def _run(steps):
    points = [next(steps)]
    while True:
        try:
            points.append(steps.send(_costly(points[-1])))
        except StopIteration as end:
            return end.value, points


START = np.array([4.0, -3.0, 6.0, -5.0])
SETTINGS = {"tol": 1e-7, "max_rounds": 200}


def test_the_maximum_is_that_of_the_costly_function_after_fewer_of_its_evaluations():
    plain, points = _run(climb(START, WIDE, **SETTINGS))
    end, fewer = _run(guided(_cheap, START, WIDE, **SETTINGS))
    assert plain.converged and end.converged
    np.testing.assert_allclose(end.x, SHIFT, atol=1e-6)
    assert len(fewer) < 0.7 * len(points)


def test_a_useless_cheap_function_only_costs_time():
    end, _ = _run(guided(_useless, START, WIDE, **SETTINGS))
    assert end.converged
    np.testing.assert_allclose(end.x, SHIFT, atol=1e-6)


def test_a_cheap_function_that_fails_is_left():
    end, _ = _run(guided(lambda x: (-np.inf, np.zeros_like(x)), START, WIDE, **SETTINGS))
    assert end.converged
    np.testing.assert_allclose(end.x, SHIFT, atol=1e-6)


def test_the_box_is_kept_and_its_edge_ends_the_ascent():
    box = np.array([[-50.0, 0.0], *[[-50.0, 50.0]] * 3])
    end, points = _run(guided(_cheap, START, box, **SETTINGS))
    assert end.converged and end.x[0] == 0.0
    assert all(p[0] <= 0.0 for p in points)


def test_it_stops_where_there_is_nothing_left_to_gain():
    end, points = _run(guided(_cheap, START, WIDE, **SETTINGS, least_gain=1e-3))
    assert end.converged and "nothing left to gain" in end.reason
    assert _costly(SHIFT)[0] - end.value < 3e-3
    assert len(points) < len(_run(guided(_cheap, START, WIDE, **SETTINGS))[1])


@pytest.mark.parametrize("guide", [_useless, lambda x: (-500.0 * x @ x, -1000.0 * x)], ids=["flat", "too curved"])
def test_a_bad_guide_does_not_end_the_ascent_early(guide):
    """A small box, or a guide of too much curvature, leaves nothing to gain by itself: that is no reason to stop."""
    end, _ = _run(guided(guide, START, WIDE, **SETTINGS, least_gain=1e-2))
    first, best = _costly(START)[0], _costly(SHIFT)[0]
    assert end.value - first > 0.75 * (best - first)


def test_a_sparse_search_with_a_guide_has_the_optimum_of_one_without(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 2))
    data = Data.of(X, np.sign(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=900)))
    model = Model.sparse(kernels.Matern52([5.0, 5.0]), likelihoods.BernoulliProbit(), X[:24])
    learner = Nested(EP(tol=1e-8), evidence.ep, "auto", tol=1e-6)
    plain = learner.fit(model, data)
    monkeypatch.setattr(rehearsal, "_ROWS", 100)
    monkeypatch.setattr(rehearsal, "_INPUTS", 8)
    asked = []
    found = rehearsal.cheap_of(rehearsal.Search(learner, model, data, 900, None, None), 0)
    assert found is not None and np.isfinite(found(np.zeros(3))[0])
    fit = learner.fit(model, data, callback=asked.append)
    assert fit.converged and len(asked) < len(plain.trace)
    assert fit.objective == pytest.approx(plain.objective, abs=1e-5)
    np.testing.assert_allclose(fit.parameters["kernel.lengthscale"], plain.parameters["kernel.lengthscale"], rtol=1e-3)
