"""Roots of matrices whose columns have different units."""

from __future__ import annotations

import numpy as np

from sitewise.numerics.dense.cholesky import covariance_root, difference_of_roots

UNITS = np.array([1e-9, 1.0, 1e6, 3.0])
A = np.random.default_rng(0).normal(size=(6, 4))


def test_the_root_of_a_covariance_matrix_in_any_units() -> None:
    cov = A.T @ A * np.outer(UNITS, UNITS)
    root = covariance_root(cov)
    np.testing.assert_allclose(root @ root.T, cov, rtol=1e-12)
    zero = np.diag([1e-12, 0.0])
    np.testing.assert_allclose(covariance_root(zero) @ covariance_root(zero).T, zero, rtol=1e-12)


def test_the_difference_of_roots_in_any_units() -> None:
    a, b = A * UNITS, A[:3] * UNITS
    root, sign = difference_of_roots(a, b)
    assert len(sign) == 3  # the rank of the difference
    np.testing.assert_allclose(root.T @ (sign[:, None] * root), A[3:].T @ A[3:] * np.outer(UNITS, UNITS), rtol=1e-11)
    root, sign = difference_of_roots(b, a)
    assert np.all(sign == -1)
    assert difference_of_roots(np.zeros((0, 4)), np.zeros((1, 4)))[0].shape == (0, 4)
