"""VI with q and the hyperparameters in one search."""

import numpy as np
import pytest

from sitewise import Data, Model, kernels, likelihoods, posterior, resolve
from sitewise_icml2023 import joint
from sitewise_icml2023.protocols import Fold


def test_with_one_lengthscale_it_ends_where_the_library_does():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(50, 2))
    y = np.where(np.sin(2 * X[:, 0]) + 0.7 * rng.normal(size=50) > 0, 1.0, -1.0)
    fold = Fold(X[:40], y[:40], X[40:], y[40:])
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit(), jitter=1e-6)
    ours, other = joint.row(model, fold), resolve("vi").fit(model, Data.of(fold.X, fold.y))
    assert ours["converged"]
    assert ours["objective"] == pytest.approx(other.objective, abs=1e-3)
    for name, value in other.parameters.items():
        np.testing.assert_allclose(ours["theta"][name], value, rtol=2e-2)
    density = posterior(other.model, other.data, other.sites).log_density(fold.X_test, fold.y_test)
    assert ours["test_loglik"] == pytest.approx(float(np.mean(density)), abs=1e-3)
