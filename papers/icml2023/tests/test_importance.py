"""Importance sampling squared against orthant probabilities: with a probit Z(y) = P(N(0, K + I) has y's signs)."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from sitewise_icml2023 import importance
from sitewise_icml2023.protocols import Fold

X = np.array([[0.0], [0.7], [1.1]])
Y = np.array([1.0, 1.0, -1.0])


def exact(vector, rows, y):
    K = importance.matern52(cdist(rows, rows), vector) + np.eye(len(y))
    return float(multivariate_normal(np.zeros(len(y)), K * np.outer(y, y), seed=0).cdf(np.zeros(len(y))))


def test_annealing_gives_z_without_bias():
    vector = np.array([0.3, 1.0])
    K = importance.matern52(cdist(X, X), vector) + 1e-9 * np.eye(3)
    q = importance.gaussian(K, 0.3 * Y, np.full(3, 0.2))  # any sites will do
    f, log_weight = importance.anneal(q, Y, 4000, 12, np.random.default_rng(0))
    weight = np.exp(log_weight)
    z = np.exp(q.log_z) * weight.mean()
    error = np.exp(q.log_z) * weight.std() / np.sqrt(4000)
    assert z == pytest.approx(exact(vector, X, Y), abs=4 * error) and error < 0.03 * z
    assert f.shape == (4000, 3)


def test_predictions_average_over_the_posterior_of_both(monkeypatch):
    """p(y* = 1 | y) = ∫ Z(y, 1; θ) dθ / ∫ Z(y; θ) dθ over the box, by brute force on a grid."""
    monkeypatch.setattr(importance, "BOX", (-2.0, 3.0))
    new = np.array([[0.2]])
    axis = np.linspace(-2.0, 3.0, 13)
    weight = np.ones(13)
    weight[[0, -1]] = 0.5
    both = np.outer(weight, weight).ravel()
    grid = [np.array([a, b]) for a in axis for b in axis]
    z = both @ [exact(v, X[:2], Y[:2]) for v in grid]
    joint = both @ [exact(v, np.r_[X[:2], new], np.r_[Y[:2], 1.0]) for v in grid]
    fold = Fold(X[:2], Y[:2], new, np.array([1.0]))
    draws = importance.sample(fold, points=128, grid=9, chains=64, steps=(8,))
    assert draws.ess > 100
    assert np.exp(draws.log_density(fold.y_test))[0] == pytest.approx(joint / z, abs=5e-3)
    assert np.exp(draws.log_density(-fold.y_test))[0] == pytest.approx(1 - joint / z, abs=5e-3)
