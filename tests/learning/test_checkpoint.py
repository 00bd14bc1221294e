"""A stopped fit of a sparse prior goes on to the same end: before and after its Hessian, and where inference fails."""

import numpy as np
import pytest

from sitewise import EP, Data, Model, Nested, Outcome, evidence, kernels, likelihoods
from sitewise.inference.update import Solution, Stats
from sitewise.learning.checkpoint import near

RNG = np.random.default_rng(8)
X = RNG.normal(size=(300, 2))
DATA = Data.of(X, np.sign(np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * RNG.normal(size=300)))
MODEL = Model.sparse(kernels.Matern52(np.array([4.0, 4.0]), 0.2), likelihoods.BernoulliProbit(), X[:12])


class Stopped(Exception):
    pass


@pytest.mark.parametrize(
    "steps", [200, pytest.param(2, marks=pytest.mark.slow)], ids=["settled", "two steps of inference"]
)
def test_a_stopped_fit_goes_on_to_the_same_end(tmp_path, steps):
    learner = Nested(EP(max_steps=steps), evidence.ep, "auto", least_gain=1e-3, max_rounds=20)
    whole = learner.fit(MODEL, DATA)
    count = len(whole.trace)
    assert count > 15  # the first ascent has 15 rounds at most
    for stop in (1, 3, count // 2, count - 1):
        seen: list[float] = []

        def leave(entry, seen=seen, stop=stop):
            seen.append(entry["objective"])
            if len(seen) == stop:
                raise Stopped

        with pytest.raises(Stopped):
            learner.fit(MODEL, DATA, callback=leave, checkpoint=tmp_path / "fit")
        new: list[float] = []
        found = learner.fit(
            MODEL, DATA, callback=lambda e, new=new: new.append(e["objective"]), checkpoint=tmp_path / "fit"
        )
        assert stop == 1 or len(new) < count
        assert found.objective == whole.objective and found.rounds == whole.rounds
        np.testing.assert_array_equal(found.sites.prec, whole.sites.prec)
        assert not (tmp_path / "fit").exists()


@pytest.mark.parametrize(
    ("outcome", "residual", "useful"),
    [
        (Outcome.CONVERGED, 1.0, True), (Outcome.NO_MAXIMUM, 1e-9, False),
        (Outcome.STEP_CAP, 1e-9, True), (Outcome.STEP_CAP, 1e3, False),
    ],
)  # fmt: skip
def test_sites_far_from_a_fixed_point_do_not_count(outcome, residual, useful):
    stats = Stats(*(np.float64(0.0) for _ in Stats._fields))._replace(residual=np.float64(residual))
    assert near(Solution(None, np.int64(outcome), stats)) is useful
