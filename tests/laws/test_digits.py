"""Where prior and sites differ by many orders of magnitude, what is left after dividing one out still has its digits.

Every test here failed once, in silence: the fuzz found it (docs/explanation/trust.md).
"""

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from cases import problem
from sitewise import EP, VI, Data, Laplace, Model, Outcome, evidence, kernels, likelihoods, linalg, means, posterior
from sitewise.sites import Sites

HUGE = 4e8


def exact(K, y, noise, rest, one):
    """Mean and variance of f at row `one` given the rows `rest`, in 60 digits."""
    with mpmath.workdps(60):
        A = mpmath.matrix([[mpmath.mpf(float(K[i, j])) + (noise**2 if i == j else 0) for j in rest] for i in rest])
        k = mpmath.matrix([mpmath.mpf(float(K[one, j])) for j in rest])
        solved = mpmath.lu_solve(A, k)
        mean = mpmath.fdot(solved, [mpmath.mpf(float(y[j])) for j in rest])
        return float(mean), float(mpmath.mpf(float(K[one, one])) - mpmath.fdot(solved, k))


@pytest.fixture(scope="module")
def wide():
    """Noise of 1 under a prior deviation of 20 000."""
    X, y = problem("gaussian", 7)
    model = Model.full(kernels.Matern52(0.8, HUGE), likelihoods.Gaussian(1.0))
    data = Data.of(X, y)
    return model, data, Sites(jnp.asarray(y), jnp.ones(7)), np.asarray(model.prior.kernel.matrix(X))


def test_leave_one_out(wide):
    model, data, sites, K = wide
    truth = 0.0
    for i in range(7):
        mean, var = exact(K, data.y, 1, [j for j in range(7) if j != i], i)
        truth += -0.5 * ((data.y[i] - mean) ** 2 / (var + 1) + np.log(2 * np.pi * (var + 1)))
    assert float(evidence.loo(model, data, sites)) == pytest.approx(truth, abs=1e-6)


def test_predictions_at_and_between_the_rows(wide):
    model, data, sites, K = wide
    q = posterior(model, data, sites)
    for i in range(7):
        mean, var = exact(K, data.y, 1, range(7), i)
        found = q.f(data.X[i : i + 1])
        assert float(found[0][0]) == pytest.approx(mean, abs=1e-6)
        assert float(found[1][0]) == pytest.approx(var, rel=1e-5)


@pytest.mark.parametrize("level", [1e3, 1e6, 1e7])
def test_ep_converges_at_large_counts(level):
    X, _ = problem("poisson", 13)
    y = np.random.default_rng(0).poisson(level * np.exp(0.3 * np.sin(X[:, 0]))).astype(float)
    model, data = Model.full(kernels.Matern52(), likelihoods.Poisson(), means.Constant(np.log(level))), Data.of(X, y)
    solutions = [method.solve(model, data) for method in (EP(), VI())]
    assert [s.outcome for s in solutions] == [Outcome.CONVERGED] * 2
    values = [float(evidence.ep(model, data, s.sites)) for s in solutions]
    assert values[0] == pytest.approx(values[1], abs=1e-3)


def test_a_factorisation_that_rounding_breaks_takes_the_first_rung_that_holds():
    point = np.ones((6, 1))
    K = 1e9 * np.asarray(kernels.RBF().matrix(jnp.asarray(point + 1e-9 * np.arange(6.0)[:, None])))
    _, jitter = linalg.jittered_cholesky(jnp.asarray(K))
    assert 0 < float(jitter) <= 1e-10
    L, none = linalg.jittered_cholesky(jnp.eye(3))
    assert float(none) == 0 and np.array_equal(L, np.eye(3))
    assert not np.all(np.isfinite(linalg.jittered_cholesky(-jnp.eye(3))[0]))


def test_the_rung_is_part_of_the_result():
    """Copies of a row with a prior variance of 10¹², seen by noise of 10⁻⁴: B is 10²⁰ times a matrix of ones."""
    data = Data.of([[0.0], [0.0], [1e-9], [2e-9]], [1.0, 1.0, 1.0, 1.0])
    quiet = Laplace().solve(Model.full(kernels.RBF(), likelihoods.Gaussian(0.3)), data)
    loud = Laplace().solve(Model.full(kernels.RBF(1.0, 1e12), likelihoods.Gaussian(1e-4)), data)
    assert float(quiet.stats.jitter) == 0
    assert float(loud.stats.jitter) > 0 and np.all(np.isfinite(loud.sites.prec))
