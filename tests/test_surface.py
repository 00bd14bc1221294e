"""Surfaces of the evidence over lengthscale and magnitude."""

import dataclasses

import numpy as np
import pytest

from sitewise import EP, VI, Data, evidence
from sitewise.surface import evidence_surface


@pytest.mark.parametrize(("method", "of"), [(VI(), evidence.ep), (VI(), evidence.elbo), (EP(), evidence.elbo)])
def test_sites_are_as_exact_as_the_evidence_needs(method, of):
    """An evidence that is not stationary in the sites of the method needs more exact sites."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    data = Data.of(X, np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, 1.0, -1.0))
    log_l, log_s = np.array([0.0, 1.0]), np.array([0.5, 2.0])
    found, exact = (
        evidence_surface(one, of, data, log_l, log_s).evidence
        for one in (method, dataclasses.replace(method, tol=1e-10))
    )
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6)
