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
        found.append(Approximate(Nested()).start(model, Data.of(unit * t[:, None], y)).prior.kernel.lengthscale / unit)
    assert found == pytest.approx([0.3 / 4, 0.3 / 4])
