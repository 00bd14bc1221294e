"""Textbook Laplace for likelihoods that are not log-concave: R&W eq. 3.32 with the true Hessian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from sitewise import Data, Laplace, Model, Outcome, Sites, evidence, kernels, likelihoods, posterior
from sitewise.inference.loop import iterate
from sitewise.process.precision import working_precision

DF = 4.0


def _problem(rows=60, outliers=9, seed=1):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(0, 8, rows))[:, None]
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=rows)
    y[rng.choice(rows, outliers, replace=False)] += 4 * rng.normal(size=outliers)
    return X, y


def _textbook(K, y, scale, start):
    """Mode by BFGS in whitened coordinates, then the determinant of I + KW by LU: nothing of the library."""
    n, L = len(y), np.linalg.cholesky(K + 1e-12 * np.eye(len(y)))

    def minus(u):
        r = y - L @ u
        value = np.sum(stats.t.logpdf(r / scale, DF)) - n * np.log(scale) - 0.5 * u @ u
        return -value, u - L.T @ ((DF + 1) * r / (DF * scale**2 + r**2))

    best = optimize.minimize(minus, np.linalg.solve(L, start), jac=True, method="BFGS", options={"gtol": 1e-9})
    mode = L @ best.x
    r2 = (y - mode) ** 2
    W = (DF + 1) * (DF * scale**2 - r2) / (DF * scale**2 + r2) ** 2
    cov = np.linalg.solve(np.eye(n) + K * W, K)
    return mode, np.diagonal(cov), -best.fun - 0.5 * np.linalg.slogdet(np.eye(n) + K * W)[1], W


@pytest.mark.parametrize("scale", [0.1, 0.3])
def test_student_t_with_outliers_is_the_textbook(scale):
    X, y = _problem()
    model, data = Model.full(kernels.Matern52(1.5, 1.2), likelihoods.StudentT(scale, DF)), Data.of(X, y)
    solution = Laplace().solve(model, data)
    mean, var = posterior(model, data, solution.sites).f(X)
    mode, variances, value, W = _textbook(model.prior.kernel.matrix(X), y, scale, mean)
    assert solution.outcome is Outcome.CONVERGED and int(solution.stats.clipped) == 0
    assert np.sum(W < 0) > 3
    np.testing.assert_allclose(solution.sites.prec, W, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mean, mode, atol=1e-6)
    np.testing.assert_allclose(var, variances, rtol=1e-6)
    assert float(evidence.laplace(model, data, solution.sites)) == pytest.approx(value, abs=1e-6)
    clipped = Laplace(min_prec=0.0).solve(model, data).sites
    assert float(evidence.laplace(model, data, clipped)) < value - 0.01, "the case must tell the two apart"


def test_both_engines_agree():
    X, y = _problem(12, 3)
    model, data = Model.full(kernels.RBF(1.5, 1.2), likelihoods.StudentT(0.2, DF)), Data.of(X, y)
    here = Laplace().solve(model, data)

    @jax.jit
    def there(data):
        found = Laplace().solve(model, data)
        return found, evidence.laplace(model, data, found.sites), evidence.loo(model, data, found.sites)

    with working_precision():
        found, *values = there(jax.tree.map(jnp.asarray, data))
    assert np.any(here.sites.prec < 0) and int(found.code) == int(here.code) == 0
    for one, other in zip(here.sites, found.sites, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    for read, value in zip((evidence.laplace, evidence.loo), values, strict=True):
        assert float(read(model, data, here.sites)) == pytest.approx(float(value), abs=1e-8)


def test_a_point_that_is_no_maximum_is_refused_in_words():
    """Two observations of one f at ±3 under a wide prior: f = 0 has no slope by symmetry, and is a minimum."""
    model = Model.full(kernels.RBF(1.0, 100.0), likelihoods.StudentT(0.1, DF))
    data = Data.of([[0.0], [0.0]], [3.0, -3.0])
    start = Sites(np.zeros(2), np.zeros(2))  # the prior is symmetric, so that no step leaves f = 0
    with working_precision():
        gram = model.prior.gram(data.X)
        stuck = iterate(Laplace(), model.likelihood, gram, data, start).solution
    assert stuck.outcome is Outcome.NO_MAXIMUM and "no maximum" in stuck.outcome.advice
    found = Laplace().solve(model, data, start)  # which starts again elsewhere
    assert found.outcome is Outcome.CONVERGED
    assert abs(float(posterior(model, data, found.sites).f([[0.0]])[0][0])) > 2
