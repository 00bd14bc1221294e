"""Sites of any sign under the full and the sparse prior: dense algebra, differences in θ, both engines, and NaN."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import kernels, means
from sitewise.parameters import Trainable
from sitewise.priors import FullPrior, Marginals, SparsePrior
from sitewise.sites import Sites

ROWS = 10

pytestmark = pytest.mark.usefixtures("double")


def a_prior(structure):
    rng = np.random.default_rng(1)
    kernel, mean = kernels.Matern52(lengthscale=np.array([1.2, 0.7]), variance=2.0), means.Constant(0.4)
    if structure == "full":
        return FullPrior(kernel, mean)
    return SparsePrior(kernel, rng.normal(size=(5, 2)), mean, block=5 * 3)


def dense_prior(prior, left, right):
    """Covariance of the variables on which sites act."""
    if isinstance(prior, FullPrior):
        return prior.kernel.matrix(left, right)
    Z = prior.inducing
    K_uu = prior._with_jitter(prior.kernel.matrix(Z))
    return prior.kernel.matrix(left, Z) @ np.linalg.solve(K_uu, prior.kernel.matrix(Z, right))


def case(structure, share=0.8):
    """A prior, inputs and sites; at share 1 there is a direction in which prior × sites is flat."""
    prior, rng = a_prior(structure), np.random.default_rng(2)
    X = rng.normal(size=(ROWS, 2))
    below = np.arange(ROWS) % 4 == 1
    plus = np.where(below, 0.0, rng.uniform(0.3, 2.0, ROWS))
    plus[-1] = 0.0
    root = np.sqrt(np.where(below, rng.uniform(0.3, 1.0, ROWS), 0.0))
    K = dense_prior(prior, X, X)
    sigma = np.linalg.solve(np.eye(ROWS) + K * plus, K)
    largest = np.max(np.linalg.eigvalsh(root[:, None] * (0.5 * (sigma + sigma.T)) * root))
    nat1 = rng.normal(size=ROWS)
    nat1[-1] = 0.0  # padding
    return prior, X, Sites(nat1, plus - share * root**2 / largest)


def on_engine(engine, function):
    """function(prior, X, sites) on NumPy arrays, or in a program that does not know the precisions."""
    return function if engine == "host" else jax.jit(function)


def dense(prior, X, sites):
    """The marginals' mean, var and log_z, and Σ, without an inverse of the prior's covariance."""
    K, mu = dense_prior(prior, X, X), np.full(ROWS, float(prior.mean.value))
    sigma = np.linalg.solve(np.eye(ROWS) + K * sites.prec, K)
    b = sites.nat1 - sites.prec * mu
    sign, log_det = np.linalg.slogdet(np.eye(ROWS) + K * sites.prec)
    assert sign > 0
    log_z = -0.5 * log_det + 0.5 * b @ sigma @ b + mu @ (sites.nat1 - 0.5 * sites.prec * mu)
    return (mu + sigma @ b, np.diag(sigma), log_z), sigma


both = pytest.mark.parametrize("structure", ["full", "sparse"])
engines = pytest.mark.parametrize("engine", ["host", "traced"])


@both
@engines
def test_conditioning(structure, engine):
    prior, X, sites = case(structure)
    x = np.random.default_rng(3).normal(size=ROWS)

    def results(prior, X, sites):
        gram = prior.gram(X).signed()
        q, factor = gram.condition_with_factor(sites, sites.prec != 0)
        cov = gram.covariance(sites, factor)
        products = cov.times(x), cov.times_once(x), cov.squared_times(x)
        return (
            (gram.condition(sites), q, gram.condition_mean(sites)[0]),
            products,
            gram.rounding_error(sites, q, factor),
        )

    marginals, products, rounding = on_engine(engine, results)(prior, X, sites)
    (mean, var, log_z), sigma = dense(prior, X, sites)
    for q in marginals:
        np.testing.assert_allclose(q.mean, mean, atol=1e-8)
        np.testing.assert_allclose(q.log_z, log_z, atol=1e-8)
        np.testing.assert_allclose(q.var, var, atol=1e-8)
    for product, wanted in zip(products, (sigma @ x, sigma @ x, sigma**2 @ x), strict=True):
        np.testing.assert_allclose(product, wanted, atol=1e-8)
    assert 0 < rounding < 1e-12


@both
@engines
def test_nothing_but_nan_where_there_is_no_gaussian(structure, engine):
    def values(prior, X, sites):
        gram = prior.gram(X).signed()
        q, found = gram.condition(sites), prior.posterior(X, sites).marginals(X)
        return (q.mean, q.var, q.log_z, *found), gram.condition_mean(sites)[0].log_z

    for share, proper in ((1 - 1e-5, True), (1 + 1e-5, False), (2.0, False)):
        found = jax.tree.leaves(on_engine(engine, values)(*case(structure, share)))
        assert all(np.all(np.isfinite(a) if proper else np.isnan(a)) for a in found)


@both
@engines
def test_posterior(structure, engine):
    prior, X, sites = case(structure)
    new = np.random.default_rng(5).normal(size=(4, 2))

    def results(prior, X, sites):
        posterior = prior.posterior(X, sites)
        return posterior.marginals(new), posterior.joint(new)

    (mean, var), (joint_mean, cov) = on_engine(engine, results)(prior, X, sites)
    K, cross = dense_prior(prior, X, X), dense_prior(prior, new, X)
    mu = float(prior.mean.value)
    R = np.linalg.solve(np.eye(ROWS) + sites.prec[:, None] * K, np.diag(sites.prec))  # (I + WK)⁻¹W = (K + W⁻¹)⁻¹
    alpha = np.linalg.solve(np.eye(ROWS) + sites.prec[:, None] * K, sites.nat1 - sites.prec * mu)
    wanted = prior.kernel.matrix(new, new) - cross @ R @ cross.T
    for found in (mean, joint_mean):
        np.testing.assert_allclose(found, mu + cross @ alpha, atol=1e-8)
    np.testing.assert_allclose(cov, wanted, atol=1e-8)
    np.testing.assert_allclose(var, np.diag(wanted), atol=1e-8)


@both
@engines
def test_pullback_to_the_hyperparameters(structure, engine):
    prior, X, sites = case(structure)
    rng = np.random.default_rng(4)
    by_q = Marginals(*rng.normal(size=(3, ROWS)), np.float64(0.7), rng.normal(size=ROWS), np.float64(0.0))
    trainable = Trainable.of(prior)
    start = np.asarray(trainable.to_vector(prior))

    def total(vector):
        q = trainable.from_vector(prior, jnp.asarray(vector)).gram(jnp.asarray(X)).signed().condition(sites)
        return sum(jnp.sum(getattr(by_q, name) * getattr(q, name)) for name in q._fields if name != "jitter")

    def pulled(prior, X, sites):
        gram, pull = prior.gram_with_pull(X)
        gram = gram.signed()
        q, factor = gram.condition_with_factor(sites, sites.prec != 0)
        return pull(gram.pull(sites, factor, q, by_q))

    slopes = trainable.pull(start, on_engine(engine, pulled)(prior, X, sites))
    by_autodiff = jax.jit(jax.grad(total))(jnp.asarray(start))
    value = jax.jit(total)
    for i, unit in enumerate(np.eye(len(start))):
        fine, coarse = ((value(start + h * unit) - value(start - h * unit)) / (2 * h) for h in (1e-4, 2e-4))
        wanted = (4 * fine - coarse) / 3
        assert abs(slopes[i] - wanted) <= 1e-6 * (1 + abs(wanted))
        assert abs(by_autodiff[i] - wanted) <= 1e-6 * (1 + abs(wanted))


def test_an_unannounced_negative_precision_is_nan_in_a_program():
    prior, X, sites = case("full")
    condition = jax.jit(lambda prior, X, sites: prior.gram(X).condition(sites).log_z)
    assert np.isnan(condition(prior, X, sites))
    assert np.isfinite(prior.gram(X).condition(sites).log_z)  # the values are known


@both
def test_rounding_grows_where_prior_times_sites_is_nearly_flat(structure):
    errors = []
    for share in (0.8, 1 - 1e-6):
        prior, X, sites = case(structure, share)
        gram = prior.gram(X)
        q, factor = gram.condition_with_factor(sites, None)
        errors.append(gram.rounding_error(sites, q, factor))
    assert errors[1] > 1e4 * errors[0]
