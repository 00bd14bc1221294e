"""log Z against brute force and closed forms; bracket; padding and weights."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import Data, Model, kernels, likelihoods, means
from sitewise.mcmc import PAPER, Annealing, ais, evidence_certificate, log_evidence
from sitewise.mcmc.reference import Target, draw, reference
from sitewise.mcmc.surface import path_sites
from sitewise.precision import working_precision
from sitewise.sites import Sites

SEEDS = 100


@functools.partial(jax.jit, static_argnums=0)
def _many(settings, model, data, seeds, steps):
    target = Target(reference(model, data, path_sites(settings.path, model, data)), model.likelihood, data)
    return jax.vmap(lambda s: ais.anneal(settings, jax.random.key(s), target, steps, 16)[0])(seeds)


def _estimates(settings, model, data, steps):
    with working_precision():
        data = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), data)
        return jax.tree.map(np.asarray, _many(settings, model, data, jnp.arange(SEEDS), steps))


def _brute_force(model, data):
    """Σ over a tensor grid of N(f; μ, K) Π p_i^w."""
    with working_precision():
        gram = model.prior.gram(jnp.asarray(data.X))
        L = np.linalg.cholesky(np.asarray(gram.K))
        u = np.linspace(-8.5, 8.5, 81)
        mesh = np.stack(np.meshgrid(*[u] * data.rows, indexing="ij"), axis=-1).reshape(-1, data.rows)
        f = mesh @ L.T + np.asarray(gram.mean)
        log_p = np.asarray(model.likelihood.log_prob(jnp.asarray(data.y), jnp.asarray(f))) @ data.weight
        log_w = log_p - 0.5 * np.sum(mesh**2, axis=1) + data.rows * np.log((u[1] - u[0]) / np.sqrt(2 * np.pi))
        return float(np.logaddexp.reduce(log_w))


CASES = {
    "probit": (likelihoods.BernoulliProbit(), [1.0, -1.0, 1.0]),
    "student-t": (likelihoods.StudentT(scale=0.5), [0.3, 2.5, -1.0]),
    "poisson": (likelihoods.Poisson(), [0.0, 3.0, 7.0]),
}


@pytest.mark.parametrize(("name", "path"), [("probit", "ep"), ("poisson", "ep"), ("student-t", "prior")])
def test_brute_force(name, path):
    """Within three standard errors in at least 99 of 100 seeds."""
    likelihood, y = CASES[name]
    model = Model.full(kernels.Matern52(variance=4.0), likelihood, means.Constant(0.2))
    data = Data.of(np.array([[0.0], [0.4], [1.5]]), y, weight=[1.0, 2.0, 1.0])
    found = _estimates(Annealing(path=path, chains=256, reverse=False), model, data, 40)
    miss = np.abs(found.log_z - _brute_force(model, data)) / found.se
    assert np.sum(miss <= 3) >= 99


def test_gaussian_closed_form():
    """n = 50 from the prior: three standard errors in 99 of 100 seeds; from EP the answer is exact."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = np.sin(X[:, 0]) + rng.normal(size=50)
    model = Model.full(kernels.RBF(), likelihoods.Gaussian(scale=1.0))
    with working_precision():
        C = np.asarray(model.prior.gram(jnp.asarray(X)).K) + np.eye(50)
    exact = -0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1] + 50 * np.log(2 * np.pi))
    found = _estimates(Annealing(path="prior", chains=64, reverse=False), model, Data.of(X, y), 200)
    assert np.sum(np.abs(found.log_z - exact) <= 3 * found.se) >= 99
    assert np.max(found.se) < 0.5
    one = log_evidence(model, Data.of(X, y), steps=4)
    assert abs(one.log_z - exact) < 1e-6 and abs(one.upper - exact) < 1e-6


def _problem(n=20, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return Model.full(kernels.Matern52(variance=30.0), likelihoods.BernoulliProbit()), X, y


def test_bracket():
    """The forward estimate is low on average, the reverse one high; together they enclose the truth."""
    model, X, y = _problem()
    data = Data.of(X, y)
    short = _estimates(Annealing(chains=4), model, data, 6)
    long = _estimates(Annealing(chains=16), model, data, 60)
    truth = np.logaddexp.reduce(long.log_z) - np.log(SEEDS)
    assert np.mean(short.log_z) < truth < np.mean(short.upper)
    assert np.abs(np.mean(long.upper) - np.mean(long.log_z)) < 0.15


def test_padding_is_exact():
    model, X, y = _problem()
    data = Data.of(X, y)
    plain = _estimates(Annealing(chains=4), model, data, 6)
    padded = _estimates(Annealing(chains=4), model, data.pad(32), 6)
    np.testing.assert_allclose(padded.log_z, plain.log_z, atol=1e-7)
    np.testing.assert_allclose(padded.upper, plain.upper, atol=1e-7)


def test_weights_are_copies():
    """An integer weight equals copies of the row, both in log Z_q + r and in the residual itself."""
    model, X, y = _problem(6)
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0])
    rows = np.repeat(np.arange(6), weight.astype(int))
    with working_precision():
        once = jax.tree.map(jnp.asarray, Data.of(X, y, weight=weight))
        copies = jax.tree.map(jnp.asarray, Data.of(X[rows], y[rows]))
        sites = Sites(jnp.linspace(-1, 1, 6), jnp.linspace(0.1, 1, 6))
        ref = reference(model, once, sites)
        many = reference(model, copies, Sites(sites.nat1[rows], sites.prec[rows]))
        f = draw(jax.random.key(0), ref, 5)
        first = Target(ref, model.likelihood, once).residual(f)
        second = Target(many, model.likelihood, copies).residual(f[rows])
        np.testing.assert_allclose(first, second, rtol=1e-12)
        np.testing.assert_allclose(float(ref.log_z), float(many.log_z), rtol=1e-7)
        np.testing.assert_allclose(ref.mean[rows], many.mean, rtol=1e-5, atol=1e-6)


def test_adaptive_says_which():
    model, X, y = _problem()
    met = log_evidence(model, Data.of(X, y), steps=32, target_se=0.3)
    spent = log_evidence(model, Data.of(X, y), steps=4, max_steps=8, target_se=1e-4)
    assert met.tight and "target met" in met.reason and met.se <= 0.3
    assert not spent.tight and "budget" in spent.reason and spent.steps == 8


def test_paper_setting():
    model, X, y = _problem()
    paper = log_evidence(model, Data.of(X, y), annealing=PAPER, steps=500, max_steps=500, target_se=10.0)
    ours = log_evidence(model, Data.of(X, y), steps=256)
    assert abs(paper.log_z - ours.log_z) < 1.0 and np.isnan(paper.upper)


def test_certificate():
    model, X, y = _problem()
    found = evidence_certificate(model, Data.of(X, y), steps=128)
    assert found.bound_holds
    assert found.verdicts["ep"] in ("good", "unclear")
    assert abs(found.evidences["laplace"] - found.mcmc.log_z) > abs(found.evidences["ep"] - found.mcmc.log_z)
    assert "log Z" in str(found)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="path must be"):
        Annealing(path="nowhere")
    with pytest.raises(ValueError, match="chains must be"):
        Annealing(chains=1)
