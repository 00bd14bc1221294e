"""Centred effects of one column: products of thin matrices, tables, and entries agree with the formula."""

import numpy as np
import pytest

from sitewise import kernels
from sitewise.kernels.centred_column import MAX_HALF_RANGE, _Entries, _Products, _Tables, centred_column

RNG = np.random.default_rng(0)
A, B, S, W = RNG.normal(size=50), RNG.normal(size=40), RNG.normal(size=8), RNG.dirichlet(np.ones(8))
VARIANCE = 1.7


def expected(base, a, b, log_length=0.0):
    """σ² [κ − m m'/M], with all numbers divided by exp(log_length)."""
    a, b, s = (x / np.exp(log_length) for x in (a, b, S))

    def shape(x, y):
        return base.shape(np.subtract.outer(x, y) ** 2)

    return VARIANCE * (shape(a, b) - np.outer(shape(a, s) @ W, shape(b, s) @ W) / (W @ shape(s, s) @ W))


def of(base, a, b):
    return centred_column(base, VARIANCE, a, b, S, W)


@pytest.mark.parametrize(
    ("base", "a", "b", "kind"),
    [
        (kernels.Matern52(), A, B, _Products),
        (kernels.Matern52(), 1e-3 * A, 1e-3 * B, _Products),
        (kernels.Matern52(), 4 * A, 4 * B, _Products),
        (kernels.Matern52(), 1e3 + A, 1e3 + B, _Products),
        (kernels.Matern52(), 1e4 * A, B, _Entries),
        (kernels.RBF(), A, B, _Entries),
        (kernels.Matern52(), np.round(A), np.round(B), _Tables),
        (kernels.RBF(), np.round(A), np.round(B), _Tables),
    ],
)
def test_blocks_have_the_values_and_slopes_of_the_formula(base, a, b, kind):
    column, rows, stop, step = of(base, a, b), slice(5, 30), 33, 1e-5
    assert isinstance(column, kind)
    np.testing.assert_allclose(column.values(rows, stop), expected(base, a, b)[rows, :stop], atol=1e-12)
    slopes = (expected(base, a, b, step) - expected(base, a, b, -step)) / (2 * step)
    np.testing.assert_allclose(column.slopes(rows, stop), slopes[rows, :stop], atol=2e-9)


def test_products_keep_their_digits_up_to_the_largest_range(monkeypatch):
    a, base, rows = np.linspace(-1, 1, 101) * MAX_HALF_RANGE / np.sqrt(5), kernels.Matern52(), slice(None)
    products = of(base, a, a)
    monkeypatch.setattr("sitewise.kernels.centred_column.MAX_HALF_RANGE", 0.99 * MAX_HALF_RANGE)
    entries = of(base, a, a)
    assert isinstance(products, _Products) and isinstance(entries, _Entries)
    np.testing.assert_allclose(products.values(rows, 101), entries.values(rows, 101), atol=1e-12)
    np.testing.assert_allclose(products.slopes(rows, 101), entries.slopes(rows, 101), atol=1e-10)


def test_the_smaller_product_is_the_correlation_and_the_larger_one_its_slope():
    r = np.logspace(-3, 2, 200)

    def f(d):
        return (1 + d + d * d / 3) * np.exp(-d)

    def g(d):
        return (d**2 + d**3) / 3 * np.exp(-d)

    rounding = 1 + 1e-14
    assert np.all(f(-r) * rounding >= f(r)) and np.all(g(-r) <= g(r) * rounding)
