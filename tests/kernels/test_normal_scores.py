"""Normal scores: transforms of the columns that do not depend on their units or skewness."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import rankdata

from sitewise import kernels
from sitewise.kernels.normal_scores import KNOTS, MAX_SCORE

RNG = np.random.default_rng(0)
X = np.column_stack([np.exp(2 * RNG.normal(size=40)), RNG.integers(0, 3, size=40)])
BASE = kernels.Matern52([0.8, 1.1], 1.3)


def test_scores_are_those_of_ranks_and_few_values_are_standardised():
    found = kernels.NormalScores.of(X, BASE).transform(X)
    np.testing.assert_allclose(found[:, 0], ndtri((rankdata(X[:, 0]) - 0.5) / 40), atol=1e-12)
    np.testing.assert_allclose(found[:, 1], (X[:, 1] - X[:, 1].mean()) / X[:, 1].std(), atol=1e-12)


def test_the_kernel_does_not_change_with_a_monotone_transform_of_a_column():
    moved = np.column_stack([np.log(X[:, 0]), X[:, 1]])
    one, other = (kernels.NormalScores.of(rows, BASE).matrix(rows) for rows in (X, moved))
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_many_values_are_represented_by_quantiles():
    rows = RNG.normal(size=(5000, 1)) ** 3
    kernel = kernels.NormalScores.of(rows, kernels.Matern52())
    assert kernel.knots.shape == (KNOTS, 1) and np.all(np.diff(kernel.knots[:, 0]) >= 0)
    scores = np.clip(ndtri((rankdata(rows) - 0.5) / 5000), -MAX_SCORE, MAX_SCORE)
    np.testing.assert_allclose(kernel.transform(rows)[:, 0], scores, atol=0.06)
    assert kernel.transform(np.array([[1e9]]))[0, 0] <= MAX_SCORE


def test_a_weight_is_equivalent_to_repeated_rows():
    weight = RNG.integers(1, 4, size=40).astype(float)
    one = kernels.NormalScores.of(X, BASE, weight)
    other = kernels.NormalScores.of(np.repeat(X, weight.astype(int), axis=0), BASE)
    np.testing.assert_allclose(one.matrix(X), other.matrix(X), atol=1e-12)


def test_terms_of_its_base_are_its_terms():
    kernel = kernels.NormalScores.of(X, kernels.Additive.of(X))
    found = kernels.terms(kernel)
    assert [term.name for term in found] == ["offset", "x0", "x1", "x0 × x1"]
    np.testing.assert_allclose(sum(term.kernel.matrix(X) for term in found), kernel.matrix(X), atol=1e-10)


def test_knots_of_another_table_are_refused():
    with pytest.raises(ValueError, match=r"tables of 3 columns"):
        kernels.NormalScores.of(X, kernels.RBF()).check(3)
