"""The loop that solves for the sites: how many steps it takes."""

import numpy as np

from sitewise import Data, Model, kernels, likelihoods
from sitewise.inference import VI


def test_sites_of_outliers_reach_their_limit_in_few_steps():
    """A Student-t site of an outlier has precision 0 (its limit); it must not approach 0 by a constant factor."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(80, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=80)
    y[::8] += rng.choice([-4.0, 4.0], 10)
    data, noise = Data.of(X, y), likelihoods.StudentT(0.1, 3.0)
    first = VI().solve(Model.full(kernels.Matern52(1.0, 1.0), noise), data)
    again = VI().solve(Model.full(kernels.Matern52(1.05, 1.05), noise), data, first.sites)
    assert first.outcome.ok and again.outcome.ok
    assert np.sum(np.asarray(again.sites.prec) == 0.0) >= 5
    assert int(again.stats.steps) <= 5  # quadratic convergence; 8 steps if the precisions shrink by a factor per step
