"""Where prior and sites differ by many orders of magnitude, what is left after dividing one out still has its digits.

Every test here failed once, in silence: the fuzz found it (docs/explanation/trust.md).
"""

import contextlib

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from cases import problem
from sitewise import EP, VI, Data, Laplace, Model, Outcome, evidence, kernels, likelihoods, means, posterior
from sitewise.kernels.distances import same_rows, squared_distances
from sitewise.numerics.dense import cholesky
from sitewise.numerics.dense.softmax_sites import condition_on_sites
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


def test_joint_classes_under_a_wide_prior():
    """mean and log_z in 40 digits; differences of large numbers left errors in which VI's last steps drowned."""
    rng = np.random.default_rng(0)
    K = np.asarray(kernels.Matern52(3.0, 1e4).matrix(jnp.asarray(rng.normal(size=(5, 2)))))
    w = rng.dirichlet(np.ones(3), 5).T
    b = np.eye(3)[[0, 1, 2, 0, 1]].T - w + 3 * w * rng.normal(size=w.shape)
    out, _ = condition_on_sites(jnp.asarray(K), jnp.asarray(b), jnp.asarray(w))
    with mpmath.workdps(40):
        m = mpmath.matrix
        big = m(np.kron(np.eye(3), K).tolist())
        W, linear, rest = mpmath.zeros(15), mpmath.zeros(15, 1), mpmath.mpf(0)
        for i in range(5):
            wi, bi = ([mpmath.mpf(float(x)) for x in a[:, i]] for a in (w, b))
            total, shift = sum(wi), sum(bi)
            rest += shift**2 / (2 * total)
            for c in range(3):
                linear[5 * c + i] = bi[c] - wi[c] * shift / total
                for e in range(3):
                    W[5 * c + i, 5 * e + i] = (wi[c] if c == e else 0) - wi[c] * wi[e] / total
        A = mpmath.eye(15) + big * W
        f = mpmath.lu_solve(A, big * linear)
        log_z = rest - mpmath.log(mpmath.det(A)) / 2 + (linear.T * f)[0] / 2
        f = np.array([float(x) for x in f]).reshape(3, 5)
    g = f - np.sum(w * f - b, axis=0) / np.sum(w, axis=0)
    np.testing.assert_allclose(out.mean, g, rtol=0, atol=2e-12)
    assert float(out.log_z) == pytest.approx(float(log_z), abs=2e-12)


@pytest.mark.parametrize(
    "likelihood", [likelihoods.Poisson(), likelihoods.NegativeBinomial(2.0)], ids=lambda x: type(x).__name__
)
def test_large_counts_converge_by_every_method_and_agree(likelihood):
    """Rounding decided at 10⁶ whether EP settled: y f − eᶠ and a second derivative of an integral lost their digits."""
    X, _ = problem("poisson", 13)
    for level in (1e4, 1e6, 1e7):
        y = np.random.default_rng(0).poisson(level * np.exp(0.3 * np.sin(X[:, 0]))).astype(float)
        for variance, mean in ((1.0, np.log(level)), (100.0, 0.0)):
            model, data = Model.full(kernels.Matern52(1.0, variance), likelihood, means.Constant(mean)), Data.of(X, y)
            solutions = [method.solve(model, data) for method in (EP(), VI(), Laplace())]
            assert [s.outcome for s in solutions] == [Outcome.CONVERGED] * 3, (level, variance)
            values = [float(evidence.ep(model, data, s.sites)) for s in solutions]
            apart = 1e-3 if isinstance(likelihood, likelihoods.Poisson) else 0.1  # a site of shape 2 is no Gaussian
            np.testing.assert_allclose(values[1:], values[0], atol=apart)
            if isinstance(likelihood, likelihoods.Poisson):
                found = model.prior.gram(data.X).condition(solutions[0].sites)
                np.testing.assert_allclose(found.mean, np.log(y), atol=8 / np.sqrt(level))
                np.testing.assert_allclose(found.var, 1 / y, rtol=0.2)


def test_a_factorisation_that_rounding_breaks_takes_the_first_rung_that_holds():
    point = np.ones((6, 1))
    K = 1e9 * np.asarray(kernels.RBF().matrix(jnp.asarray(point + 1e-9 * np.arange(6.0)[:, None])))
    _, jitter = cholesky.jittered_cholesky(jnp.asarray(K))
    assert 0 < float(jitter) <= 1e-10
    L, none = cholesky.jittered_cholesky(jnp.eye(3))
    assert float(none) == 0 and np.array_equal(L, np.eye(3))
    assert not np.all(np.isfinite(cholesky.jittered_cholesky(-jnp.eye(3))[0]))


def test_the_rung_is_part_of_the_result():
    """Copies of a row with a prior variance of 10¹², seen by noise of 10⁻⁴: B is 10²⁰ times a matrix of ones."""
    data = Data.of([[0.0], [0.0], [1e-9], [2e-9]], [1.0, 1.0, 1.0, 1.0])
    quiet = Laplace().solve(Model.full(kernels.RBF(), likelihoods.Gaussian(0.3)), data)
    loud = Laplace().solve(Model.full(kernels.RBF(1.0, 1e12), likelihoods.Gaussian(1e-4)), data)
    assert float(quiet.stats.jitter) == 0
    assert float(loud.stats.jitter) > 0 and np.all(np.isfinite(loud.sites.prec))


@pytest.mark.parametrize("case", ["outlier", "outlier first", "two clusters", "far from zero", "columns", "usual"])
def test_distances_of_ordinary_rows_survive_far_ones(case):
    """An entry of 10⁸ made copies of all rows that were nearer than 1 to each other: evidences off by three nats."""
    X = np.random.default_rng(0).normal(size=(9, 3))
    if case.startswith("outlier"):
        X[0 if case.endswith("first") else 4, 1] = 1e8
    if case == "two clusters":
        X[::2] += 1e8
    if case == "far from zero":
        X += 1e8
    if case == "columns":
        X[:, 0] = np.round(X[:, 0]) * 1e9
    X = np.concatenate([X, np.repeat(X[:1], 6, axis=0)])  # as padding does
    truth = np.sum((X[:, None] - X[None, :]) ** 2, axis=-1)
    np.testing.assert_allclose(squared_distances(jnp.asarray(X), jnp.asarray(X)), truth, rtol=1e-9, atol=1e-12)
    new = X[:3] + 0.5
    truth = np.sum((new[:, None] - X[None, :]) ** 2, axis=-1)
    alone = squared_distances(jnp.asarray(new), jnp.asarray(X))
    np.testing.assert_allclose(alone, truth, rtol=1e-9, atol=1e-12)
    beside = squared_distances(jnp.asarray(np.concatenate([new, [[1e20, 0.0, 0.0]]])), jnp.asarray(X))
    assert np.array_equal(beside[:3], alone)
    slope = jax.grad(lambda s: jnp.sum(squared_distances(jnp.asarray(new) / s, jnp.asarray(X) / s)))(2.0)
    assert float(slope) == pytest.approx(-2 * truth.sum() / 8, rel=1e-7)


@pytest.mark.parametrize("shared", [False, True])
def test_neighbours_in_clusters_far_apart(shared):
    """Ten pairs of times, a million lengthscales between them: predictions were wrong by half a standard deviation."""
    X = (1e6 * np.arange(10.0)[:, None] + [0.0, 0.3]).reshape(-1, 1)
    exact = np.exp(-np.abs(X - X.T) / 0.4)
    with same_rows(X) if shared else contextlib.nullcontext():
        found, _ = kernels.Matern12(0.4).pairs_with_pull(X, X)
    np.testing.assert_allclose(found, exact, atol=1e-9)


def test_a_difference_in_the_last_digit_is_none():
    X = jnp.asarray([[3e90, 0.0], [-1e90, 1.0], [2.0, 1.0]])
    assert float(squared_distances(X * (1 + 3e-16), X)[0, 0]) == 0.0


def test_rows_beyond_all_bounds_are_far_and_not_near():
    X = jnp.asarray([[0.0, 0.0], [1.0, 0.0]])
    for kernel in (kernels.RBF(), kernels.Matern52(), kernels.Matern12(), kernels.RationalQuadratic()):
        K = np.asarray(kernel.matrix(jnp.asarray([[1e154, 0.0], [1e200, 1e200]]), X))
        assert np.all(np.isfinite(K)) and np.max(K) < 1e-100
    with pytest.raises(ValueError, match=r"X holds numbers beyond 1e\+100"):
        Data.of([[1e154, 0.0], [0.0, 1.0]], [1.0, -1.0])
