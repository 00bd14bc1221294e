"""Inducing inputs that are chosen again by the learned kernel."""

import numpy as np
import pytest

from sitewise import EP, Data, Model, Nested, evidence, kernels, likelihoods
from sitewise.learning.refresh import refreshed

RNG = np.random.default_rng(3)
X = RNG.normal(size=(150, 2))
DATA = Data.of(X, np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=150))
LEARNER = Nested(EP(tol=1e-6), evidence.ep, "auto")


def test_what_cannot_be_chosen_again_is_left_or_refused():
    one = Model.sparse(kernels.Matern52(1.0), likelihoods.Gaussian(), X[:9])
    assert refreshed(LEARNER, one, DATA, 0) is one  # k-means does not depend on one lengthscale
    with pytest.raises(ValueError, match="has no inducing inputs to choose"):
        refreshed(LEARNER, Model.full(kernels.Matern52(), likelihoods.Gaussian()), DATA, 0)


def test_hyperparameters_start_where_some_rows_have_led():
    model = Model.sparse(kernels.Matern52([1.0, 1.0]), likelihoods.Gaussian(), X[:9])
    found = refreshed(LEARNER, model, DATA, 0)
    lengthscale = np.asarray(found.prior.kernel.lengthscale)
    assert lengthscale[1] > 5 * lengthscale[0]
    assert found.prior.inducing.shape == (9, 2)
    # Centres of clusters in lengthscales differ in the column that matters.
    assert np.std(found.prior.inducing[:, 1]) < 0.5 * np.std(found.prior.inducing[:, 0])
