"""Many parts trained side by side go the same way as one by one."""

import numpy as np
import pytest

from cases import problem
from sitewise import Data, Model, kernels, likelihoods, resolve


def test_side_by_side_equals_one_by_one():
    X, y = problem("probit", 40, seed=3)
    parts = [Data.of(X[k:], y[k:]) for k in (0, 4, 9)]
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
    learner, ended = resolve("hybrid"), []
    many = learner.fit_many(model, parts, done=ended.append)
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
        learner.fit_many(models, [part, part])
    with pytest.raises(ValueError, match="Got 2 models for 1 parts"):
        learner.fit_many(models, [part])
    with pytest.raises(ValueError, match="restarts=0"):
        resolve("vi", restarts=1).fit_many(models[0], [part])
