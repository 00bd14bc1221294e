"""Draws of a chain: their covariance, exactly, from draws with unit vectors in place of noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import Data, Model, Sites, kernels, likelihoods, means, posterior
from sitewise.numerics.markov import chain_draws
from sitewise.priors import FullPrior, MarkovPrior
from sitewise.process.precision import working_precision

KERNELS = {
    "one state": kernels.Matern12(0.8, 1.3),
    "three states": kernels.Matern52(0.9, 1.4),
    "products": kernels.Cosine(1.9) * kernels.Matern32(1.1) + kernels.Constant(0.3),
    "season": kernels.Periodic(1.5, 2.0, 0.7) + kernels.Linear(0.2),
}
X = np.array([0.3, 2.2, 0.3, 0.3 + 1e-9, 1e4, 1.4, 2.9])[:, None]  # equal, nearly equal, out of order, far
NEW = np.array([2.5, 0.3, -1.0])[:, None]


@pytest.fixture
def unit_noise(monkeypatch):
    """Every number of the noise is 1 in one draw and 0 in the others."""

    def normal(key, shape, like):
        found = np.zeros(shape)
        flat = found.reshape(shape[0], -1)
        start = 0 if normal.used is None else normal.used
        flat[start + np.arange(flat.shape[1]), np.arange(flat.shape[1])] = 1.0
        normal.used = start + flat.shape[1]
        return found

    normal.used = None
    monkeypatch.setattr(chain_draws, "_standard_normal", normal)
    return normal


@pytest.mark.parametrize("name", KERNELS)
def test_the_prior(unit_noise, name):
    prior = MarkovPrior(KERNELS[name], means.Constant(0.4), harmonics=12)
    draws = prior.draw(jax.random.key(0), X, 8 * 30) - 0.4
    np.testing.assert_allclose(draws.T @ draws, KERNELS[name].matrix(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("precise", [1.0, 1e8])
@pytest.mark.parametrize("name", KERNELS)
def test_the_posterior(unit_noise, name, precise):
    prior = MarkovPrior(KERNELS[name], harmonics=12)
    prec = precise * np.array([0.5, 2.0, 0.0, 1.0, 0.3, 0.0, 1.0])
    q = prior.posterior(X, Sites(np.zeros(7), prec))
    draws = q.draw(jax.random.key(0), NEW, 11 * 30 + 10)
    dense = FullPrior(KERNELS[name]).posterior(X, Sites(np.zeros(7), prec)).joint(NEW)[1]
    np.testing.assert_allclose(draws.T @ draws, dense, rtol=1e-5, atol=1e-7)


def test_they_have_the_mean_and_are_the_same_when_traced():
    model = Model.markov(KERNELS["products"], likelihoods.Gaussian(0.5), means.Constant(0.4))
    data, sites = Data.of(X, np.arange(7.0)), Sites(np.linspace(-1, 2, 7), np.linspace(0, 3, 7))
    q, key = posterior(model, data, sites), jax.random.key(1)
    draws = np.asarray(q.f_samples(key, NEW, 400))
    mean, cov = q.f_joint(NEW)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * np.sqrt(np.diag(cov) / 400))
    with working_precision():
        traced = jax.jit(lambda q, X: q.f_samples(key, X, 3))(q, jnp.asarray(NEW))
    np.testing.assert_allclose(traced, q.f_samples(key, NEW, 3), rtol=1e-9)


def test_negative_precisions_use_the_covariance():
    q = MarkovPrior(KERNELS["one state"]).posterior(X, Sites(np.ones(7), np.array([1.0, -0.1, 1, 1, 1, 1, 1])))
    draws = np.asarray(q.draw(jax.random.key(2), NEW, 4000))
    np.testing.assert_allclose(np.cov(draws.T), q.joint(NEW)[1], atol=0.1)
