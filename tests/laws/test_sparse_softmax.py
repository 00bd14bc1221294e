"""Joint classes on a sparse prior: the full model at Z = X, dense algebra, differences, and the traced engine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import (
    VI,
    Data,
    GPClassifier,
    Laplace,
    Model,
    Sparse,
    evidence,
    kernels,
    likelihoods,
    posterior,
    value_and_grad,
)
from sitewise.arrays.engine import to_host
from sitewise.inference.start import first_sites
from sitewise.learning.fit import all_evidences
from sitewise.learning.objective import Objective, profile
from sitewise.parameters import Trainable
from sitewise.sites import Sites

CLASSES = 3
KERNEL = kernels.Matern52([0.9, 1.3], 3.0)


def made(rows, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(rows, 2))
    f = np.stack([2 * np.sin(2 * X[:, 0] + 2 * np.pi * c / CLASSES) for c in range(CLASSES)], 1)
    return X, np.argmax(f + rng.gumbel(size=f.shape), 1).astype(float)


X, Y = made(14)
NEW = made(5, seed=3)[0]
FULL = Model.full(KERNEL, likelihoods.Softmax(CLASSES))
SAME = Model.sparse(KERNEL, likelihoods.Softmax(CLASSES), X, jitter=0.0)
SPARSE = Model.sparse(KERNEL, likelihoods.Softmax(CLASSES), X[:5], block=20, keep=0)

pytestmark = pytest.mark.usefixtures("double")


@pytest.fixture(scope="module")
def data():
    return Data.of(X, Y)


@pytest.mark.parametrize("method", [VI(), Laplace()], ids=lambda m: m.name)
def test_with_every_row_an_inducing_input_it_is_the_full_model(data, method):
    full, sparse = method.solve(FULL, data), method.solve(SAME, data)
    assert full.outcome.ok and sparse.outcome.ok
    wanted = all_evidences(FULL, data, full.sites)
    for name, value in all_evidences(SAME, data, sparse.sites).items():
        assert value == pytest.approx(wanted[name], abs=1e-8), name
    q, p = posterior(SAME, data, sparse.sites), posterior(FULL, data, full.sites)
    for one, other in ((q.f(NEW), p.f(NEW)), (q.latent.joint(NEW), p.latent.joint(NEW))):
        for found, value in zip(one, other, strict=True):
            np.testing.assert_allclose(found, value, atol=1e-8)


def some_sites(rows):
    rng = np.random.default_rng(1)
    nat1, prec = rng.normal(size=(CLASSES, rows)), rng.uniform(0.1, 2.0, size=(CLASSES, rows))
    nat1[:, 3] = prec[:, 3] = 0.0  # a row without a site
    return Sites(nat1, prec)


def test_conditioning_is_that_of_dense_algebra():
    """q of the projected functions by one matrix of all classes and rows, in which every site has its maximal shift."""
    model, sites = to_host(SPARSE), some_sites(len(X))
    gram = model.prior.gram(X)
    q = gram.condition(sites)
    Z = X[:5]
    K_uu = np.asarray(KERNEL.matrix(Z)) + 1e-9 * 3.0 * np.eye(5)
    Q = np.asarray(KERNEL.matrix(X, Z)) @ np.linalg.solve(K_uu, np.asarray(KERNEL.matrix(Z, X)))
    n = len(X)
    prior, W, linear, constant = np.kron(np.eye(CLASSES), Q), np.zeros((CLASSES * n,) * 2), np.zeros(CLASSES * n), 0.0
    for i in range(n):
        at, b, w = np.arange(CLASSES) * n + i, sites.nat1[:, i], sites.prec[:, i]
        if w.sum() > 0:
            W[np.ix_(at, at)] = np.diag(w) - np.outer(w, w) / w.sum()
            linear[at] = b - w * b.sum() / w.sum()
            constant += 0.5 * b.sum() ** 2 / w.sum()
    B = np.eye(CLASSES * n) + prior @ W
    cov = np.linalg.solve(B, prior)
    f = (cov @ linear).reshape(CLASSES, n)
    log_z = -0.5 * np.linalg.slogdet(B)[1] + 0.5 * linear @ cov @ linear + constant
    np.testing.assert_allclose(q.log_z, log_z, atol=1e-8)
    shift = np.where(sites.prec.sum(0) > 0, (sites.prec * f - sites.nat1).sum(0), 0.0)
    np.testing.assert_allclose(q.mean, f - shift / np.maximum(sites.prec.sum(0), 1e-9), atol=1e-7)
    np.testing.assert_allclose(q.resid, np.broadcast_to(3.0 - np.diag(Q), q.resid.shape), atol=1e-7)
    i = 6
    p = sites.prec[:, i] / sites.prec[:, i].sum()
    G = np.eye(CLASSES) - np.outer(np.ones(CLASSES), p)
    own = cov.reshape(CLASSES, n, CLASSES, n)[:, i, :, i]
    np.testing.assert_allclose(q.cross[i], G @ own @ G.T, atol=1e-8)
    mean, bound = (getattr(gram.condition_mean(sites)[0], name) for name in ("mean", "var"))
    np.testing.assert_allclose(mean, q.mean, atol=1e-10)
    assert np.all(bound >= (1 - 1e-9) * q.var)


def test_products_with_the_covariance_are_derivatives():
    gram, sites = to_host(SPARSE).prior.gram(X), some_sites(len(X))
    _, factor = gram.condition_with_factor(sites, None)
    cov, step = gram.covariance(sites, factor), 1e-6
    x = np.where(sites.prec > 0, np.random.default_rng(2).normal(size=sites.prec.shape), 0.0)

    def q(by_nat1, by_prec):
        return gram.condition(Sites(sites.nat1 + by_nat1 * x, sites.prec + by_prec * x))

    np.testing.assert_allclose(cov.times(x), (q(step, 0).mean - q(-step, 0).mean) / (2 * step), atol=1e-6)
    np.testing.assert_allclose(cov.squared_times(x), -(q(0, step).var - q(0, -step).var) / (2 * step), atol=1e-6)


PAIRS = [(VI(), evidence.elbo, "fixed"), (VI(), evidence.ep, "implicit"), (Laplace(), evidence.laplace, "implicit")]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{p[0].name}-{p[1].name}")
def test_gradients_equal_differences(pair, data):
    model, rows = to_host((SPARSE, data))
    trainable = Trainable.of(model)
    objective, at, start = Objective(*pair, trainable), np.asarray(trainable.to_vector(model)), None
    start = to_host(first_sites(model.likelihood, rows))
    here, h = profile(objective, model, rows, at, start), 1e-4
    assert here.solution.outcome.ok
    for i, step in enumerate(h * np.eye(len(at))):
        ends = (profile(objective, model, rows, at + sign * step, start).value for sign in (1, -1))
        slope = (next(ends) - next(ends)) / (2 * h)
        np.testing.assert_allclose(here.gradient[i], slope, atol=1e-4)


def test_the_traced_engine_has_the_same_numbers_and_derivatives():
    """Also by JAX's own derivative of `condition`, in the kernel and in the sites."""
    model, sites = to_host(SPARSE), some_sites(len(X))
    weights = np.random.default_rng(4).normal(size=(2, CLASSES, len(X)))

    def read(prior, sites):
        q = prior.gram(jnp.asarray(X)).condition(sites)
        return q.log_z + jnp.sum(weights[0] * q.mean) + jnp.sum(weights[1] * (q.var + q.resid) * (sites.prec > 0))

    value, (by_prior, by_sites) = jax.jit(jax.value_and_grad(read, argnums=(0, 1)))(
        SPARSE.prior, Sites(*map(jnp.asarray, sites))
    )
    gram, pull = model.prior.gram_with_pull(X)
    q, factor = gram.condition_with_factor(sites, None)
    seen = weights[1] * (sites.prec > 0)
    assert q.log_z + np.sum(weights[0] * q.mean) + np.sum(seen * (q.var + q.resid)) == pytest.approx(float(value))
    by_q = q._replace(
        mean=weights[0], var=seen, resid=seen, log_z=np.float64(1.0), cross=0.0 * q.cross, noise=0.0 * q.noise
    )
    kernel = pull(gram.pull(sites, factor, q, by_q)).kernel
    np.testing.assert_allclose(kernel.lengthscale, by_prior.kernel.lengthscale, rtol=1e-8)
    np.testing.assert_allclose(kernel.variance, by_prior.kernel.variance, rtol=1e-8)
    found = gram.covariance(sites, factor).pull_to_sites(q, by_q)
    there = sites.prec > 0
    for one, other in zip(found, by_sites, strict=True):
        np.testing.assert_allclose(np.where(there, one, 0.0), np.where(there, other, 0.0), rtol=1e-7, atol=1e-9)


@pytest.fixture(scope="module")
def fitted():
    rows, labels = made(60, seed=5)
    settings = {"kernel": KERNEL, "structure": Sparse(12), "multi_class": "joint", "random_state": 0}
    return GPClassifier(**settings).fit(rows, labels), rows, labels


def test_an_estimator_of_joint_classes(fitted, tmp_path):
    model, rows, labels = fitted
    assert model.converged_ and model.multi_class_ == "joint"
    assert "elbo evidence of vi sites" in model.fit_report_
    proba = model.predict_proba(rows)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-9)
    assert np.mean(model.predict(rows) == labels) > 0.6  # of three classes with much noise
    model.save(tmp_path / "model")
    from sitewise import load

    np.testing.assert_allclose(load(tmp_path / "model").predict_proba(rows[:5]), proba[:5], rtol=1e-9)
    assert model.sample_y(rows[:3], 4, random_state=1).shape == (3, 4)


def test_what_it_cannot_do_is_said(data):
    with pytest.raises(ValueError, match="class_kernels='shared' with inducing inputs"):
        GPClassifier(multi_class="joint", class_kernels="own", structure=Sparse(5)).fit(X, Y)
    with pytest.raises(ValueError, match="classes of a Softmax share one kernel"):
        Model.sparse([KERNEL] * 3, likelihoods.Softmax(3), X)
    with pytest.raises(ValueError, match="use 'elbo' for several"):
        evidence.collapsed(SPARSE, data, first_sites(SPARSE.likelihood, data))


def test_vi_starts_below_a_wide_residual(data):
    """exp(m + (v + r)/2) is e¹⁵⁰ and more at the likelihood's own start, from which VI diverged."""
    wide = Model.sparse(kernels.Matern52([0.9, 1.3], 400.0), likelihoods.Softmax(CLASSES), X[:5])
    resid = wide.prior.gram(np.asarray(data.X)).features.resid
    assert resid.max() > 300
    found = VI(tol=1e-6).solve(wide, data)
    assert found.outcome.ok
    # The residual, common to the classes of a row, only lowers the bound: by half of it a row.
    narrow = evidence.elbo(wide, data, found.sites) + 0.5 * resid.sum()
    assert -data.rows * np.log(CLASSES) * 3 < narrow < 0
    value, _ = value_and_grad(VI(tol=1e-6), evidence.elbo, "fixed")(wide, data)  # starts there too
    assert value == pytest.approx(evidence.elbo(wide, data, found.sites), rel=1e-6)
