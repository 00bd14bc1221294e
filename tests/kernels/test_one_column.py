"""Correlations of one column: the products of exponentials, and the tables of columns of few values."""

import numpy as np
import pytest

from sitewise import kernels
from sitewise.kernels.one_column import Levels, correlations, correlations_and_slopes

A, B = np.random.default_rng(0).normal(size=9), np.random.default_rng(1).normal(size=7)


@pytest.mark.parametrize("base", [kernels.Matern52(), kernels.RBF()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e4])
def test_correlations_are_those_of_the_kernel(base, unit):
    a, b = A * unit, B * unit
    d2 = np.subtract.outer(a, b) ** 2
    found, slopes = correlations_and_slopes(base, a, b)
    np.testing.assert_allclose(found, base.shape(d2), atol=1e-13)
    np.testing.assert_allclose(correlations(base, a, b), base.shape(d2), atol=1e-13)
    np.testing.assert_allclose(slopes, -2 * d2 * base.slope(d2), atol=1e-13)


def test_tables_of_few_values_have_the_same_entries():
    a, b = np.round(A), np.round(B)
    levels = Levels.of(kernels.Matern52(), a, b)
    found = levels.block(levels.table, slice(2, 6), 5)
    np.testing.assert_allclose(found, correlations(kernels.Matern52(), a[2:6], b[:5]), atol=1e-13)
    assert Levels.of(kernels.Matern52(), np.arange(100.0), b) is None
