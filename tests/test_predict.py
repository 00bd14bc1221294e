"""Predictions: consistency between marginals, joint, samples, densities and quantiles."""

import jax
import numpy as np
import pytest
from scipy import stats

from cases import LIKELIHOODS, problem
from sitewise import VI, Data, Model, kernels, posterior, predict


@pytest.fixture(scope="module", params=list(LIKELIHOODS))
def fitted(request):
    X, y = problem(request.param, 20)
    model = Model.full(kernels.Matern52(0.9, 1.0), LIKELIHOODS[request.param])
    data = Data.of(X, y)
    return request.param, posterior(model, data, VI().solve(model, data).sites), X[:6] + 0.2


def test_joint_and_samples_agree_with_marginals(fitted):
    _, q, X = fitted
    mean, var = q.f(X)
    joint_mean, cov = q.f_joint(X)
    np.testing.assert_allclose(joint_mean, mean, atol=1e-12)
    np.testing.assert_allclose(np.diag(cov), var, atol=1e-9)
    draws = np.asarray(q.f_samples(jax.random.key(0), X, 20_000))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.05)


def test_response_mean_and_variance_agree_with_samples(fitted):
    name, q, X = fitted
    draws = np.asarray(q.y_samples(jax.random.key(1), X, 40_000))
    np.testing.assert_allclose(draws.mean(axis=0), q.y_mean(X), atol=0.06)
    if name != "student-t":  # its fourth moment is infinite: the sample variance does not settle
        np.testing.assert_allclose(draws.var(axis=0), q.y_var(X), rtol=0.1, atol=0.02)


def test_quantiles_invert_the_distribution(fitted):
    name, q, X = fitted
    draws = np.asarray(q.y_samples(jax.random.key(2), X, 40_000))
    # The distribution function of Student's t is slow: a program of six rows takes a tenth of the time of the host's.
    traced = jax.jit(predict.y_quantile)
    for level in (0.1, 0.5, 0.9):
        cut = np.asarray(traced(q.likelihood, *q.f(X), level) if name == "student-t" else q.quantile(X, level))
        below = np.mean(draws <= cut + 1e-9, axis=0)
        if name in ("probit", "logit", "poisson"):
            assert np.all(below >= level - 0.02)
            assert np.all(np.mean(draws <= cut - 0.5, axis=0) <= level + 0.02)
        else:
            np.testing.assert_allclose(below, level, atol=0.015)


def test_density_is_a_density(fitted):
    name, q, X = fitted
    if name in ("probit", "logit"):
        total = np.exp(q.log_density(X, np.ones(6))) + np.exp(q.log_density(X, -np.ones(6)))
        np.testing.assert_allclose(total, 1.0, atol=1e-8)
        np.testing.assert_allclose(np.exp(q.log_density(X, np.ones(6))), q.probability(X), atol=1e-12)
    elif name == "poisson":
        total = sum(np.exp(q.log_density(X, np.full(6, float(k)))) for k in range(60))
        np.testing.assert_allclose(total, 1.0, atol=1e-5)
    elif name == "gaussian":
        mean, var = q.f(X)
        want = stats.norm.logpdf(0.3, mean, np.sqrt(np.asarray(var) + 0.16))
        np.testing.assert_allclose(q.log_density(X, np.full(6, 0.3)), want, atol=1e-10)
