"""Many parts trained side by side follow the same path as one by one."""

import numpy as np
import pytest

from cases import problem
from sitewise import VEM, Data, Model, kernels, likelihoods, resolve
from sitewise.learning import stages
from sitewise.learning.vem import FELL, SETTLED
from sitewise.types import Outcome
from sitewise_icml2023.many_fits import fit_many


def test_side_by_side_equals_one_by_one(monkeypatch):
    """From the same first step: only a single fit on the host guesses the Hessian at the start."""
    monkeypatch.setattr(stages, "can_guess", lambda _: False)
    X, y = problem("probit", 40, seed=3)
    parts = [Data.of(X[k:], y[k:]) for k in (0, 4, 9)]
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
    learner, ended = resolve("hybrid"), []
    many = fit_many(learner, model, parts, done=ended.append)
    assert ended == [1, 2, 3]
    for part, fit in zip(parts, many, strict=True):
        alone = learner.fit(model, part)
        assert fit.converged and len(fit.trace) == len(alone.trace)
        assert fit.objective == pytest.approx(alone.objective, abs=1e-9)
        np.testing.assert_allclose(fit.sites.prec, alone.sites.prec, rtol=1e-6)


def test_what_cannot_go_side_by_side_is_named():
    X, y = problem("probit", 12, seed=3)
    part, learner = Data.of(X, y), resolve("vi")
    models = [Model.sparse(kernels.Matern52(), likelihoods.BernoulliProbit(), X[:m]) for m in (3, 4)]
    with pytest.raises(ValueError, match="as many inducing inputs each"):
        fit_many(learner, models, [part, part])
    with pytest.raises(ValueError, match="Got 2 models for 1 parts"):
        fit_many(learner, models, [part])
    with pytest.raises(ValueError, match="restarts=0"):
        fit_many(resolve("vi", restarts=1), models[0], [part])


@pytest.mark.slow
def test_algorithm_1_side_by_side_equals_one_by_one():
    """Parts of other lengths, which end in other rounds."""
    X, y = problem("probit", 30, seed=5)
    model, data = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit()), Data.of(X, y)
    learner = VEM(learning_rate=0.3, max_rounds=40)
    parts = [Data.of(data.X[:rows], data.y[:rows]) for rows in (data.rows, 12, 7)]
    ended: list[int] = []
    together = fit_many(learner, model, parts, done=ended.append)
    assert ended == [1, 2, 3]
    for part, fit in zip(parts, together, strict=True):
        alone = learner.fit(model, part)
        assert (fit.reason, fit.rounds) == (alone.reason, alone.rounds)
        assert fit.objective == pytest.approx(alone.objective, rel=1e-9)
        assert len(fit.sites.nat1) == part.rows
        np.testing.assert_allclose(fit.sites.prec, alone.sites.prec, rtol=1e-6)
    assert len({fit.rounds for fit in together}) > 1
    # The objective of twelve rows falls before their sites have followed θ: that is not convergence.
    behind = together[1]
    assert behind.reason == FELL and behind.solution.stats.residual > 1e-3
    assert not behind.converged and behind.solution.outcome is Outcome.STEP_CAP
    assert together[0].reason == SETTLED and together[0].converged and together[0].solution.outcome.ok


def test_no_parts_no_fits():
    assert fit_many(resolve("vi"), [], []) == fit_many(VEM(), [], []) == []
