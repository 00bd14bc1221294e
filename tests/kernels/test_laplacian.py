"""The Laplacian kernel is a product of Matérn ½ kernels, and the probability of falling into the same random box."""

import numpy as np
import pytest

from sitewise import kernels

X = np.random.default_rng(0).normal(size=(7, 3))
LENGTHS = np.array([0.7, 1.6, 2.5])


def test_it_is_a_product_over_columns():
    product = 1.3 * kernels.Product(tuple(kernels.Matern12(LENGTHS[j], active_dims=(j,)) for j in range(3)))
    np.testing.assert_allclose(kernels.Laplacian(LENGTHS, 1.3).matrix(X), product.matrix(X), rtol=1e-13)


def test_it_is_the_probability_of_no_cut_between_two_rows():
    """Cuts of column j at the points of a Poisson process of rate 1/ℓ_j."""
    rng, (a, b) = np.random.default_rng(1), X[:2]
    cuts = rng.poisson(np.abs(a - b) / LENGTHS, size=(200_000, 3))
    share = np.mean(np.sum(cuts, axis=1) == 0)
    assert kernels.Laplacian(LENGTHS).matrix(a[None], b[None])[0, 0] == pytest.approx(share, abs=0.004)


def test_derivatives_in_rows_are_those_of_differences():
    kernel, other, bar = kernels.Laplacian(LENGTHS, 1.3), X[:4] + 0.1, np.random.default_rng(2).normal(size=(7, 4))
    found, step = kernel.pull_rows(X, other, bar), 1e-6
    for i, j in np.ndindex(other.shape):
        move = np.zeros_like(other)
        move[i, j] = step
        slope = np.vdot(bar, kernel.matrix(X, other + move) - kernel.matrix(X, other - move)) / (2 * step)
        assert found[i, j] == pytest.approx(slope, rel=1e-6, abs=1e-8)
