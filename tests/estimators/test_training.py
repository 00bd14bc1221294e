"""Where the search for hyperparameters begins."""

import numpy as np
import pytest

from sitewise import Data, Model, Nested, kernels, likelihoods
from sitewise.estimators.training import Approximate


def test_the_starting_lengthscale_of_a_series_has_the_units_of_its_times():
    """Of a series of ten periods, a shorter lengthscale than the spread of the times is chosen, in any unit."""
    t = np.linspace(0, 1, 120)
    y, found = np.sin(20 * np.pi * t), []
    for unit in (1.0, 1000.0):
        model = Model.full(kernels.Matern52(0.3 * unit), likelihoods.Gaussian(0.3))
        found.append(
            Approximate(Nested()).start(model, Data.of(unit * t[:, None], y))[0].prior.kernel.lengthscale / unit
        )
    assert found == pytest.approx([0.3 / 4, 0.3 / 4])


def test_many_columns_start_at_a_lengthscale_that_connects_the_rows():
    """In twenty columns rows are six standard deviations apart: from a lengthscale of one, fits may end in noise."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 20))
    kernel = kernels.Shrunk(kernels.Matern52(1.0), np.zeros(20), 0.25, np.ones(20))
    data = Data.of(X, X[:, 0] + 0.5 * X[:, 1])
    model = Model.full(kernel, likelihoods.Gaussian(0.3))
    assert Approximate(Nested()).start(model, data)[0].prior.kernel.base.lengthscale == 4.0
    few = Model.full(kernels.Matern52(1.0), likelihoods.Gaussian(0.3))
    assert Approximate(Nested()).start(few, Data.of(X[:, :3], X[:, 0]))[0].prior.kernel.lengthscale == 1.0
