"""Importance sampling: the law of the draws, exact weights for exact sites, and an unbiased evidence for others."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cases import problem
from sitewise import EP, Data, Model, evidence, kernels, likelihoods
from sitewise.arrays.engine import to_host
from sitewise.inference.start import first_sites
from sitewise.mcmc import importance_sampling
from sitewise.mcmc.reference import reference
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

ROWS = 12


def host(name, likelihood, **data):
    X, y = problem(name, ROWS, seed=3)
    return to_host((Model.full(kernels.Matern52(0.7, 2.0), likelihood), Data.of(X, y, **data)))


def draw(model, data, sites, draws):
    with working_precision():
        return importance_sampling.draw(np.random.default_rng(0), model, data, sites, draws)


def test_every_weight_is_exact_for_the_exact_sites_of_gaussian_noise():
    model, data = host("gaussian", likelihoods.Gaussian(0.4))
    K = np.asarray(model.prior.kernel.matrix(data.X))
    exact = multivariate_normal.logpdf(data.y, np.zeros(ROWS), K + 0.16 * np.eye(ROWS))
    found = draw(model, data, first_sites(model.likelihood, data), 5)
    np.testing.assert_allclose(found.log_z + found.log_w, exact, rtol=0, atol=1e-6)
    half = draw(model, data, first_sites(model.likelihood, data).scaled(0.9), 40_000)
    weights = np.exp(half.log_z + half.log_w - exact)
    assert abs(np.mean(weights) - 1) < 4 * np.std(weights) / np.sqrt(len(weights)) < 0.1


def test_draws_have_the_law_of_the_reference():
    model, data = host("probit", likelihoods.BernoulliProbit(), weight=np.repeat([0.0, 1.0, 2.0], 4))
    sites = EP().solve(model, data).sites
    found = draw(model, data, sites, 40_000)
    with working_precision():
        law = reference(model, data, Sites(*map(np.asarray, sites)))
        f = np.asarray(law.prior_mean)[:, None] + np.asarray(law.prior_root) @ found.z.T
        cov = np.asarray(law.root) @ np.asarray(law.root).T
        np.testing.assert_allclose(found.log_z, law.log_z, rtol=0, atol=1e-9)
    sd = np.sqrt(np.diagonal(cov))
    np.testing.assert_allclose(np.mean(f, axis=1), law.mean, rtol=0, atol=5 * np.max(sd) / 200)
    np.testing.assert_allclose(np.cov(f) / np.outer(sd, sd), cov / np.outer(sd, sd), rtol=0, atol=0.03)
    both = found.log_z + np.log(np.mean(np.exp(found.log_w)))
    assert both == pytest.approx(float(evidence.ep(model, data, sites)), abs=0.05)  # EP is not exact


def test_a_likelihood_without_closed_derivatives_has_the_same_weights(monkeypatch):
    model, data = host("probit", likelihoods.BernoulliProbit())
    sites = first_sites(model.likelihood, data)
    closed = draw(model, data, sites, 3)
    monkeypatch.setattr(type(model.likelihood), "log_prob_slopes", likelihoods.Likelihood.log_prob_slopes)
    np.testing.assert_allclose(draw(model, data, sites, 3).log_w, closed.log_w, rtol=1e-10)
