"""Laplace's method and the frozen EP as computed for the printed tables."""

import numpy as np
import pytest

from sitewise import Data, Model, kernels, likelihoods, posterior, resolve
from sitewise_icml2023 import frozen, laplace
from sitewise_icml2023.expanded import Expanded
from sitewise_icml2023.protocols import Fold

RNG = np.random.default_rng(5)
X = RNG.normal(size=(80, 2))
Y = np.where(np.sin(2 * X[:, 0]) + 0.7 * RNG.normal(size=80) > 0, 1.0, -1.0)


def test_with_one_lengthscale_it_ends_where_the_library_does():
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit(), jitter=1e-6)
    fold = Fold(X[:60], Y[:60], X[60:], Y[60:])
    ours, other = laplace.row(model, fold), resolve("laplace").fit(model, Data.of(fold.X, fold.y))
    assert ours["converged"]
    assert ours["objective"] == pytest.approx(other.objective, abs=1e-4)
    for name, value in other.parameters.items():
        np.testing.assert_allclose(ours["theta"][name], value, rtol=1e-2)
    density = posterior(other.model, other.data, other.sites).log_density(fold.X_test, fold.y_test)
    assert ours["test_loglik"] == pytest.approx(float(np.mean(density)), abs=1e-3)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", ["laplace", "frozen"])
def test_slopes_are_differences(name, shared, monkeypatch):
    monkeypatch.setattr(laplace, "ENOUGH", 1e-12)
    kernel = Expanded(X[:25], shared)
    sites = RNG.normal(size=25), RNG.uniform(0.1, 2.0, size=25)

    def value(theta):
        K = kernel.matrix(theta)
        return laplace.evidence(K, Y[:25]) if name == "laplace" else frozen.evidence(K, *sites)

    theta = np.array([1.7, 0.8] if shared else [1.7, 0.8, 1.9])
    slope = kernel.slope(value(theta)[1])
    for k, step in enumerate(1e-4 * np.eye(len(theta))):
        assert slope[k] == pytest.approx((value(theta + step)[0] - value(theta - step)[0]) / 2e-4, rel=1e-3)


def test_near_a_lengthscale_of_zero_equal_rows_are_not_equal():
    """The defect that ended some printed searches: at 1e-8 the digits of the distance are gone."""
    rows = np.random.default_rng(0).normal(size=(20, 7))
    kernel = Expanded(np.vstack([rows, rows]), shared=False)
    usual, tiny = (np.diag(kernel.cross(np.array([1.0, *np.full(7, scale)]), rows)) for scale in (1.0, 1e-9))
    assert usual == pytest.approx(1.0, abs=1e-7)
    assert np.any(tiny < 0.5)


def test_a_start_moved_in_its_tenth_digit_is_another_search():
    model = Model.full(kernels.Matern52(np.ones(2)), likelihoods.BernoulliProbit())
    fold = Fold(X[:30], Y[:30], X[60:], Y[60:])
    ends = [laplace.row(model, fold, nudge)["objective"] for nudge in (None, 0, 0, 1)]
    assert ends[1] == ends[2] and len(set(ends)) == 3
    assert ends == pytest.approx([ends[0]] * 4, abs=1e-3)
