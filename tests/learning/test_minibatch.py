"""Batches give what all rows at once give."""

import numpy as np
import pytest

from sitewise import VI, Data, Model, evidence, kernels, likelihoods, means, posterior
from sitewise.learning.minibatch import MiniBatch
from sitewise.methods import resolve

N = 200
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 2))
y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=N) > 0, 1.0, -1.0)


def model(mean=None):
    return Model.sparse(kernels.Matern52(1.2, 2.0), likelihoods.BernoulliProbit(), X[:8], mean)


@pytest.mark.parametrize("size", [33, 200])
def test_at_given_hyperparameters_batches_of_any_size_solve_for_the_same_sites(size):
    """The ELBO is stationary at VI's sites, and the tied sites are sums of theirs."""
    start = model(means.Constant(0.3))
    found = MiniBatch(size=size, rounds=1, sample=0, fixed=("*",)).fit(start, (X, y))
    data = Data.of(X, y)
    sites = VI().solve(start, data).sites
    np.testing.assert_allclose(found.objective, evidence.elbo(start, data, sites), rtol=1e-9)
    for ours, theirs in zip(
        found.posterior().f(X[:9] + 0.1), posterior(start, data, sites).f(X[:9] + 0.1), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_wide_prior_leaves_the_sums_over_rows_positive():
    """Sums of k kᵀ, of the kernel's own features, lost every digit here: the ELBO was not finite after one step."""
    wide = Model.sparse(kernels.Matern52(100.0, 1e8), likelihoods.BernoulliProbit(), X[:30])
    found = MiniBatch(size=50, rounds=1, sample=0, fixed=("*",)).fit(wide, (X, y))
    data = Data.of(X, y)
    np.testing.assert_allclose(found.objective, evidence.elbo(wide, data, VI().solve(wide, data).sites), rtol=1e-5)


def test_learning_from_batches_reaches_the_bound_of_learning_from_all_rows():
    best = resolve("vi").fit(model(), Data.of(X, y)).evidences["elbo"]
    seen = []
    found = MiniBatch(size=64, sample=100, tol=1e-3).fit(model(), (X, y), callback=seen.append)
    assert found.converged
    assert found.climbed == "elbo evidence of vi sites by its gradient with the sites held; held: inducing"
    assert "Climbed: elbo" in found.report() and len(repr(found)) < 300
    assert best - 1e-2 * N < found.objective <= best + 1e-6
    assert {"round", "share", "objective"} <= set(seen[0])
    assert 0 < seen[0]["share"] < seen[-1]["share"] <= 1.0


def test_a_full_model_is_refused():
    with pytest.raises(ValueError, match="need a sparse model"):
        MiniBatch().fit(Model.full(kernels.Matern52(), likelihoods.BernoulliProbit()), (X, y))
