"""The upper incomplete gamma function of large arguments."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.special import gammaincc

from sitewise.numerics.quadrature.incomplete_gamma import MIN_EXPANDED, upper_gamma_share


@pytest.mark.parametrize("a", [1.0, 30.0, MIN_EXPANDED, 1.01 * MIN_EXPANDED, 3e6, 1e8, 1e12])
def test_upper_gamma_share_equals_scipy(a: float) -> None:
    # SciPy's own expansion ends at 4.5 standard deviations; beyond them it has three digits of large arguments.
    z = np.concatenate([np.linspace(-4.4, 4.4, 41), [-1e-6, 1e-6]])
    x = np.maximum(a + z * np.sqrt(a), 0.0)
    with jax.enable_x64(True):
        found = np.asarray(upper_gamma_share(np.full_like(x, a), x))
        ends = np.asarray(upper_gamma_share(np.full(3, a), np.array([0.0, 1e300, np.inf])))
    np.testing.assert_allclose(found, gammaincc(a, x), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ends, [1.0, 0.0, 0.0], atol=1e-12)
