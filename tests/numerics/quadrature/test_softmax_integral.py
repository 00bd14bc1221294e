"""E[softmax] of Gaussian vectors by one-dimensional integrals, against product quadrature, draws and limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from sitewise.numerics.quadrature import softmax_integral

log_win = jax.jit(softmax_integral.log_win)


def by_product_rule(k, mean, var, power=1.0, points=80):
    """Gauss–Hermite in every latent value."""
    x, w = np.polynomial.hermite_e.hermegauss(points)
    f = np.stack(np.meshgrid(*(m + np.sqrt(v) * x for m, v in zip(mean, var, strict=True)), indexing="ij"), -1)
    log_w = np.log(w / w.sum())
    weights = log_w[:, None, None] + log_w[None, :, None] + log_w[None, None, :]
    return logsumexp(weights + power * log_softmax(f, axis=-1)[..., k])


@pytest.mark.parametrize("power", [1.0, 0.3])
@pytest.mark.parametrize(
    ("mean", "var"),
    [([0, 0, 0], [1, 1, 1]), ([1, -2, 0.5], [1, 0.1, 3]), ([-3, 2, 1], [0.5, 2, 1]), ([0, 1, 2], [1e-8, 1e-8, 1e-8])],
)
def test_equals_the_product_rule(mean, var, power):
    mean, var = np.array(mean, float), np.array(var, float)
    for k in range(3):
        found = float(log_win(jnp.eye(3)[k], mean, var, power))
        np.testing.assert_allclose(found, by_product_rule(k, mean, var, power), atol=2e-5)


@pytest.mark.parametrize(
    ("mean", "var"),
    [
        ([50, -50, 0], [1e4, 1e4, 1e4]),
        ([50, -50, 0], [1e-8, 1e4, 1.0]),
        ([0, 0, 0], [1e4, 1e4, 1e-8]),
        ([-50, 50, 0], [1.0, 1e-8, 1e-8]),
    ],
)
def test_extremes_equal_draws(mean, var):
    mean, var = np.array(mean, float), np.array(var, float)
    f = mean + np.sqrt(var) * np.random.default_rng(0).normal(size=(200_000, 3))
    p = np.exp(log_softmax(f, axis=1))
    found = np.exp(log_win(jnp.eye(3), np.tile(mean, (3, 1)), np.tile(var, (3, 1)), 1.0))
    np.testing.assert_allclose(found, p.mean(axis=0), atol=1e-4 + 5 * (p.std(axis=0).max() / np.sqrt(len(p))))
    np.testing.assert_allclose(found.sum(), 1.0, atol=3e-3)


def test_a_sure_loser_has_the_right_logarithm():
    """Narrow latent values: the log of the probability is the log softmax, however small."""
    mean = np.array([0.0, 700.0, 3.0])
    found = float(log_win(jnp.eye(3)[0], mean, np.full(3, 1e-10), 1.0))
    np.testing.assert_allclose(found, -700.0, atol=1e-5)


def test_gradients_equal_differences():
    rng = np.random.default_rng(1)
    mean, var, winner = rng.normal(size=(4, 3)), rng.uniform(0.1, 5, size=(4, 3)), np.eye(3)[[0, 1, 2, 0]]

    @jax.jit
    def total(mean, var):
        return jnp.sum(softmax_integral.log_win(winner, mean, var))

    by_mean, by_var = jax.jit(jax.grad(total, (0, 1)))(mean, var)
    h = 1e-4
    for i, c in [(0, 0), (1, 2), (3, 1)]:
        step = np.zeros_like(mean)
        step[i, c] = h
        np.testing.assert_allclose(
            by_mean[i, c], (total(mean + step, var) - total(mean - step, var)) / (2 * h), atol=1e-4
        )
        np.testing.assert_allclose(
            by_var[i, c], (total(mean, var + step) - total(mean, var - step)) / (2 * h), atol=1e-4
        )


def test_common_parts_of_a_covariance_are_taken_out():
    d, u = np.array([0.5, 2.0, 1.0, 0.1]), np.array([3.0, -0.2, 0.4, 1.0])
    cov = np.diag(d) + u[:, None] + u[None, :] + 5.0
    np.testing.assert_allclose(softmax_integral.independent_variances(cov), d, rtol=1e-12)


def test_correlated_posteriors_equal_draws():
    """(I/σ² + W)⁻¹ with W as softmax makes it, for five classes."""
    rng = np.random.default_rng(2)
    means, covs, drawn = [], [], []
    for _ in range(6):
        p = rng.dirichlet(np.ones(5))
        cov = np.linalg.inv(np.eye(5) / 10 + 4 * (np.diag(p) - np.outer(p, p)) + 2 * np.diag(rng.uniform(size=5)))
        mean = rng.normal(size=5)
        f = rng.multivariate_normal(mean, cov, size=100_000)
        means.append(mean), covs.append(cov), drawn.append(np.exp(log_softmax(f, axis=1)).mean(axis=0))
    d = np.asarray(softmax_integral.independent_variances(jnp.asarray(covs)))
    found = np.stack(
        [np.exp(log_win(np.tile(np.eye(5)[k], (6, 1)), np.array(means), d, 1.0)) for k in range(5)], axis=1
    )
    np.testing.assert_allclose(found, drawn, atol=0.01)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-3)
