"""Laplace's method searched on the softplus scale."""

import numpy as np
import pytest

from sitewise import Data, Model, kernels, likelihoods, resolve
from sitewise_icml2023 import softplus


def test_with_one_lengthscale_it_ends_where_the_library_does():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2))
    y = np.where(np.sin(2 * X[:, 0]) + 0.7 * rng.normal(size=60) > 0, 1.0, -1.0)
    model, data = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit(), jitter=1e-6), Data.of(X, y)
    ours, other = softplus.fit(model, data), resolve("laplace").fit(model, data)
    assert ours.converged and ours.method == "laplace-softplus"
    assert ours.objective == pytest.approx(other.objective, abs=1e-5)
    for name, value in other.parameters.items():
        np.testing.assert_allclose(ours.parameters[name], value, rtol=1e-2)
