"""Leave-one-out densities read off the sites are near those of explicit refits without the row."""

import jax
import numpy as np
import pytest

from cases import problem
from sitewise import EP, Data, Model, evidence, kernels, likelihoods, posterior
from sitewise.evidence import loo


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_loo_is_near_refits(likelihood):
    chosen = {"probit": likelihoods.BernoulliProbit(), "logit": likelihoods.BernoulliLogit()}[likelihood]
    X, y = problem(likelihood, 60)
    model = Model.full(kernels.Matern52(1.5, 1.0), chosen)
    data = Data.of(X, y)
    sites = EP().solve(model, data).sites
    q = model.prior.gram(data.X).condition(sites.scaled(data.weight))
    fast = np.asarray(jax.jit(loo.rows)(chosen, data, q, sites))

    def left_out(data, x, target):
        without = EP().solve(model, data).sites
        return posterior(model, data, without).log_density(x, target)[0]

    slow = []
    for i in range(0, len(X), 3):
        weight = np.ones(len(X))
        weight[i] = 0
        row = Data.of(X, y, weight), X[i : i + 1], y[i : i + 1]
        slow.append(float(left_out(*row)))
    if likelihood == "probit":
        assert float(jax.jit(left_out)(*row)) == pytest.approx(slow[-1], abs=1e-7)
    gap = np.abs(fast[::3] - slow)
    assert np.quantile(gap, 0.9) < 1e-2  # the largest is a row that its neighbours contradict
    assert gap.max() < 1.5e-2
    assert float(evidence.loo(model, data, sites)) == pytest.approx(float(fast.sum()), abs=1e-10)
