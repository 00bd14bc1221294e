"""The additive kernel: parts with the mean 0, pairs by sums of matrices, and what it refuses."""

import itertools

import numpy as np
import pytest

from sitewise import kernels

RNG = np.random.default_rng(1)
X = np.column_stack([RNG.normal(size=40), RNG.integers(0, 3, 40), RNG.uniform(size=40)])


def _effects(kernel, A, B):
    """κ_j written out."""
    out = []
    for j in range(A.shape[1]):
        plain = kernels.Matern52(kernel.lengthscale[j], kernel.variance[j])
        a, b, s = A[:, [j]], B[:, [j]], kernel.nodes[:, [j]]
        w = kernel.weight[:, j]
        left, right = plain.matrix(a, s) @ w, plain.matrix(b, s) @ w
        out.append(plain.matrix(a, b) - np.outer(left, right) / (w @ plain.matrix(s) @ w))
    return out


def test_it_is_the_sum_of_effects_and_pairs():
    kernel = kernels.Additive.of(X, base=kernels.Matern52(0.9, [0.4, 0.7, 0.2]))
    A, B = X[:7], RNG.normal(size=(5, 3))
    each = _effects(kernel, A, B)
    pairs = sum(a * b for a, b in itertools.combinations(each, 2))
    np.testing.assert_allclose(kernel.matrix(A, B), kernel.offset + sum(each) + kernel.interaction * pairs, rtol=1e-12)
    np.testing.assert_allclose(np.diagonal(kernel.matrix(A)), kernel.variances(A), rtol=1e-10)


def test_every_effect_has_the_mean_zero_over_the_rows():
    kernel = kernels.Additive.of(X, order=1)
    for j, effect in enumerate(_effects(kernel, kernel.nodes, X)):
        np.testing.assert_allclose(kernel.weight[:, j] @ effect, 0, atol=1e-12)


def test_blocks_do_not_change_the_matrix(monkeypatch):
    kernel, bar = kernels.Additive.of(X), RNG.normal(size=(40, 40))
    whole, pull = kernel.matrix_with_pull(X)
    monkeypatch.setattr("sitewise.kernels.additive._BLOCK_ELEMENTS", 130)
    parts, pull_parts = kernel.matrix_with_pull(X)
    np.testing.assert_allclose(parts, whole, rtol=1e-14)
    np.testing.assert_allclose(pull_parts(bar).base.lengthscale, pull(bar).base.lengthscale, rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: kernels.Additive.of(X, order=3), "order must be 1 "),
        (lambda: kernels.Additive.of(X[:, :2]).check(3), "tables of 3 columns"),
        (lambda: kernels.Additive.of(X, base=kernels.RationalQuadratic()).check(3), "cannot be its base"),
        (lambda: kernels.Additive.of(X, base=kernels.RBF([1.0, 2.0])).check(3), "one for each of the 3"),
    ],
)
def test_what_it_refuses(make, words):
    with pytest.raises(ValueError, match=words):
        make()
