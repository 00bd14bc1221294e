import jax
import numpy as np
from scipy import stats

from sitewise import Data, Model, kernels, likelihoods, means
from sitewise.mcmc.reference import Target, prior_root, reference
from sitewise.sites import Sites


def test_normaliser_is_that_of_the_sites_also_where_a_precision_was_negative():
    """The weights of annealing compare log Z_q with Π t_i: both must be of the same sites."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 1))
    model = Model.full(kernels.RBF(variance=2.0), likelihoods.StudentT(scale=0.3, df=3.0))
    prec = rng.uniform(0.5, 3.0, 6)
    prec[2] = -0.4
    data = Data.of(X, rng.normal(size=6))
    found = jax.jit(reference)(model, data, Sites(rng.normal(size=6), prec))
    nat1, prec = (np.asarray(a) for a in found.sites)
    K = np.asarray(found.prior_root) @ np.asarray(found.prior_root).T
    sigma = np.linalg.solve(np.eye(6) + K * prec, K)
    log_z = -0.5 * np.linalg.slogdet(np.eye(6) + K * prec)[1] + 0.5 * nat1 @ sigma @ nat1
    np.testing.assert_allclose(found.log_z, log_z, atol=1e-8)
    np.testing.assert_allclose(found.mean, sigma @ nat1, atol=1e-8)
    np.testing.assert_allclose(np.asarray(found.root) @ np.asarray(found.root).T, sigma, atol=1e-8)


def test_a_markov_prior_is_sampled_as_the_full_one():
    data = Data.of(np.array([[0.3], [-1.0], [0.3], [2.0]]), np.zeros(4))
    roots = [
        prior_root(make(kernels.Matern32(0.7, 1.4), likelihoods.Gaussian()), data)[1]
        for make in (Model.full, Model.markov)
    ]
    np.testing.assert_array_equal(*roots)


def test_the_jitter_of_the_prior_is_of_the_order_of_its_rounding_error():
    data = Data.of(np.linspace(-2, 2, 7)[:, None], np.zeros(7))
    kernel = kernels.Matern32(0.7, 1.4)
    A = np.asarray(prior_root(Model.full(kernel, likelihoods.Gaussian()), data)[1])
    np.testing.assert_allclose(A @ A.T, kernel.matrix(data.X), rtol=0, atol=1e-11)


def test_gaussian_noise_has_its_exact_posterior_and_evidence_around_any_mean():
    """With the factors of the likelihood as sites, q is the posterior, and log Z_q + r is log N(y; μ, K + s² I)."""
    rng = np.random.default_rng(1)
    X, y, kernel, s2 = rng.normal(size=(5, 1)), 4 + rng.normal(size=5), kernels.RBF(variance=2.0), 0.25
    model = Model.full(kernel, likelihoods.Gaussian(0.5), means.Constant(3.0))
    data, K = Data.of(X, y), np.asarray(kernel.matrix(X))
    found = jax.jit(reference)(model, data, Sites(y / s2, np.full(5, 1 / s2)))
    gain = np.linalg.solve(K + s2 * np.eye(5), K).T
    np.testing.assert_allclose(found.mean, 3 + gain @ (y - 3), atol=1e-8)
    rest = Target(found, model.likelihood, data).residual(rng.normal(size=(5, 2)))
    wanted = stats.multivariate_normal(np.full(5, 3.0), K + s2 * np.eye(5)).logpdf(y)
    np.testing.assert_allclose(found.log_z + rest, wanted, atol=1e-8)
