"""Mixtures over hyperparameters."""

import jax
import numpy as np
import pytest

from sitewise import likelihoods
from sitewise.fitted.mixture import MAX_INTEGRATED_COMPONENTS, Mixture
from sitewise.predict import y_quantile

LEVELS = np.array([0.1, 0.5, 0.9])


@pytest.mark.parametrize("components", [3, MAX_INTEGRATED_COMPONENTS + 10])
def test_equal_components_have_the_quantiles_of_one(components):
    """Many components take quantiles of f instead of quadrature, spread over all components."""
    mean, var = np.array([0.3, 1.2]), np.array([0.4, 0.1])
    one = likelihoods.Gamma(np.float64(3.0))
    many = jax.tree.map(lambda a: np.full(components, a), one)
    found = Mixture(many, np.tile(mean[:, None], components), np.tile(var[:, None], components)).quantiles(LEVELS)
    np.testing.assert_allclose(found, y_quantile(one, mean, var, LEVELS), rtol=0.01)
