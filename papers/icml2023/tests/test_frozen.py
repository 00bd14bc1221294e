"""The printed EP: frozen sites make learning a regression on pseudo-observations."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from sitewise import EP, Data, Model, Nested, evidence, kernels, likelihoods
from sitewise_icml2023 import frozen, paper, tasks
from sitewise_icml2023.protocols import Fold


def test_theta_maximises_the_likelihood_of_pseudo_observations():
    """log N(nat1/prec; 0, K + 1/prec), K written out, has its maximum over a grid about the θ that was found there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=30) > 0, 1.0, -1.0)
    model = Model.full(kernels.Matern52(1.0), likelihoods.BernoulliProbit(), jitter=1e-6)
    found = frozen.row(model, Fold(X[:20], y[:20], X[20:], y[20:]))
    first = Nested(EP(), evidence.ep, fixed=("kernel.*",)).fit(model, Data.of(X[:20], y[:20]))
    nat1, prec = (np.asarray(part) for part in first.sites)

    def value(log_l, log_v):
        r = np.sqrt(5) * cdist(X[:20], X[:20]) / np.exp(log_l)
        covariance = np.exp(log_v) * (1 + r + r**2 / 3) * np.exp(-r) + np.diag(1 / prec)
        return multivariate_normal(np.zeros(len(prec)), covariance).logpdf(nat1 / prec)

    at = np.log([found["theta"][f"kernel.{k}"] for k in ("lengthscale", "variance")])
    around = [value(*(at + 0.02 * np.array(step))) for step in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1))]
    assert value(*at) >= max(around) and abs(at[0]) > 0.05


def test_a_printed_fold(paper_data):
    """The public result of one fold; EP converged at every θ has −0.60 there."""
    row = tasks.run(tasks.Task("trains", "published", 42, 1, "ep-frozen", paper_data))
    printed = paper.published_fold(paper.published_folds(paper_data), "trains", "ep", "test_loglik", 42, 1)
    assert row["test_loglik"] == pytest.approx(printed, abs=1e-5)
