"""Predictions: consistency between marginals, joint, samples, densities and quantiles."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from cases import LIKELIHOODS, problem
from sitewise import VI, Data, Model, kernels, likelihoods, posterior, predict
from sitewise.likelihoods import Likelihood
from sitewise.process.precision import working_precision
from sitewise.types import module


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
    levels = (0.1, 0.5, 0.9)
    for level, cut in zip(levels, q.quantile(X, levels), strict=True):
        below = np.mean(draws <= cut + 1e-9, axis=0)
        if name in ("probit", "logit", "poisson"):
            assert np.all(below >= level - 0.02)
            assert np.all(np.mean(draws <= cut - 0.5, axis=0) <= level + 0.02)
        else:
            np.testing.assert_allclose(below, level, atol=0.015)


@module
class Gumbel(Likelihood):
    """A user's likelihood that has no more than `log_prob` and `cdf`."""

    def log_prob(self, y, f):
        return -(y - f) - jnp.exp(-(y - f))

    def cdf(self, y, f):
        return jnp.exp(-jnp.exp(-(y - f)))


@module
class Geometric(Likelihood):
    """The same for counts, with a `cdf` that means nothing below zero and between whole numbers."""

    support: ClassVar[str] = "counts"

    def log_prob(self, y, f):
        return jax.nn.log_sigmoid(f) + y * jax.nn.log_sigmoid(-f)

    def cdf(self, y, f):
        return 1 - jnp.exp((jnp.sqrt(y) ** 2 + 1) * jax.nn.log_sigmoid(-f))


# Distributions of SciPy given f, for sums over a fine grid of f.
QUANTILES = {
    "gaussian": (likelihoods.Gaussian(0.02), lambda f: stats.norm(f, 0.02)),
    "gamma": (likelihoods.Gamma(2.5), lambda f: stats.gamma(2.5, scale=np.exp(f) / 2.5)),
    "poisson": (likelihoods.Poisson(), lambda f: stats.poisson(np.exp(f))),
    "probit": (likelihoods.BernoulliProbit(), lambda f: stats.bernoulli(stats.norm.cdf(f))),
    "user": (Gumbel(), stats.gumbel_r),
    "user's counts": (Geometric(), lambda f: stats.geom(1 / (1 + np.exp(-f)), loc=-1)),
}
MEAN, VAR, LEVELS = np.array([-1.0, 0.3, 4.0]), np.array([0.01, 2.0, 0.5]), np.array([0.01, 0.3, 0.5, 0.95])


@pytest.mark.parametrize("name", list(QUANTILES))
def test_quantiles_against_a_fine_sum(name):
    likelihood, given = QUANTILES[name]
    found = predict.y_quantile(likelihood, MEAN, VAR, LEVELS)
    assert found.shape == (4, 3)
    z = np.linspace(-9, 9, 8001)
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    for j, (mean, var) in enumerate(zip(MEAN, VAR, strict=True)):
        law = given(mean + np.sqrt(var) * z)
        for level, y in zip(LEVELS, found[:, j], strict=True):
            if likelihood.discrete():
                assert y == np.floor(y) and y >= 0
                assert law.cdf(y - 1) @ weight < level <= law.cdf(y) @ weight
            else:
                np.testing.assert_allclose(law.cdf(y) @ weight, level, atol=1e-8)


def test_one_level_many_levels_and_a_program():
    likelihood = likelihoods.Gaussian(0.5)
    one, many = (predict.y_quantile(likelihood, MEAN, VAR, level) for level in (0.95, LEVELS))
    np.testing.assert_array_equal(one, many[3])
    np.testing.assert_allclose(one, stats.norm.ppf(0.95, MEAN, np.sqrt(VAR + 0.25)), rtol=1e-9)
    with working_precision():
        traced = jax.jit(predict.y_quantile)(likelihood, jnp.asarray(MEAN), jnp.asarray(VAR), jnp.asarray(LEVELS))
    np.testing.assert_allclose(traced, many, rtol=1e-9)
    # At every scale of y.
    small = predict.y_quantile(likelihoods.Gaussian(5e-21), 1e-20 * MEAN, 1e-40 * VAR, LEVELS)
    np.testing.assert_allclose(small, 1e-20 * many, rtol=1e-9)


@pytest.mark.parametrize("level", [0.0, 1.0, [0.1, 1.5], float("nan")])
def test_levels_are_shares(level):
    with pytest.raises(ValueError, match="levels between 0 and 1"):
        predict.y_quantile(likelihoods.Gaussian(0.5), MEAN, VAR, level)


def test_narrow_noise_under_a_wide_latent_function():
    """The distribution function of y steps from 0 to 1 within a hundredth of the latent deviation, far from zero."""
    y = np.array([-1.02, 1.4, 3.6])
    found = predict.y_cdf(likelihoods.Gaussian(0.01), MEAN, VAR, y)
    np.testing.assert_allclose(found, stats.norm.cdf(y, MEAN, np.sqrt(VAR + 1e-4)), atol=1e-8)


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


def test_a_row_of_variance_zero_is_predicted_by_the_noise_alone():
    """A linear kernel has no variance at the origin."""
    zero = np.zeros(1)
    for likelihood, exact in (
        (likelihoods.Gaussian(0.5), stats.norm(0, 0.5)),
        (likelihoods.StudentT(0.5), stats.t(3, 0, 0.5)),
    ):
        np.testing.assert_allclose(predict.y_quantile(likelihood, zero, zero, 0.95), exact.ppf(0.95), rtol=1e-6)
        np.testing.assert_allclose(predict.log_density(likelihood, zero, zero, 0.3), exact.logpdf(0.3), rtol=1e-6)
        np.testing.assert_allclose(predict.y_moments(likelihood, zero, zero)[1], exact.var(), rtol=1e-6)
