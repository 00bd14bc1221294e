"""The prior of softmax models on NumPy arrays: the numbers of the traced programs, and of their derivatives by JAX."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import EP, Data, Model, evidence, kernels, likelihoods
from sitewise.arrays import engine
from sitewise.learning.nested import Nested
from sitewise.parameters import values
from sitewise.priors import ClassPrior
from sitewise.priors.base import DifferentiatedCovariance
from sitewise.priors.classes import ClassGram, ClassMarginals
from sitewise.sites import Sites

CLASSES = 3
RBF = [kernels.RBF(0.9, 3.0), kernels.RBF(0.5, 6.0), kernels.RBF(2.0, 0.7)]
SUM = [kernels.Matern52([0.9 + c, 0.7], 3.0) + kernels.Linear(0.3 * (c + 1)) for c in range(CLASSES)]
PRIORS = {
    "shared": ClassPrior.of(SUM[0], CLASSES),
    "own": ClassPrior.of(SUM, CLASSES),
    "own-jitter": ClassPrior.of(RBF, CLASSES, 1e-3),
}


class Case(NamedTuple):
    """A prior at some rows with sites, and q with its factors, as NumPy arrays; gram and sites also as JAX arrays.

    `by_q` holds some derivatives of a function of q.
    """

    prior: ClassPrior
    X: np.ndarray
    sites: Sites
    gram: ClassGram
    q: ClassMarginals
    factors: Any
    traced_gram: ClassGram
    traced_sites: Sites
    by_q: ClassMarginals


pytestmark = pytest.mark.usefixtures("double")


@functools.cache
def make_case(name: str, rows: int) -> Case:
    rng = np.random.default_rng(rows)
    X = rng.normal(size=(rows, 2))
    nat1, prec = rng.normal(size=(CLASSES, rows)), rng.gamma(0.5, 2.0, (CLASSES, rows))
    nat1[:, ::5] = prec[:, ::5] = 0.0  # rows without a site
    prec[1, 2] = 0.0  # one that has a slope alone in one class
    sites = Sites(nat1, prec)
    prior = PRIORS[name]
    gram = prior.gram(X)
    q, factors = gram.condition_with_factor(sites, None)
    counts = np.any(prec > 0, axis=0)
    by_q = ClassMarginals(
        rng.normal(size=q.mean.shape),
        np.where(counts, rng.normal(size=q.mean.shape), 0.0),
        np.zeros_like(q.mean),
        np.float64(0.7),
        np.zeros_like(q.mean),
        np.float64(0.0),
        np.where(counts[:, None, None], rng.normal(size=q.cross.shape), 0.0),
        np.where(counts, rng.normal(size=rows), 0.0),
    )
    traced = jax.jit(lambda prior, X: prior.gram(X))(prior, X)
    return Case(prior, X, sites, gram, q, factors, traced, jax.tree.map(jnp.asarray, sites), by_q)


@pytest.fixture(params=[(name, rows) for name in PRIORS for rows in (6, 33)], ids=lambda p: f"{p[0]}-{p[1]}")
def case(request) -> Case:
    return make_case(*request.param)


def same(found: Any, wanted: Any, rtol: float = 1e-9) -> None:
    """Equal up to rounding, and computed on the host."""
    ours, theirs = jax.tree.leaves(found), jax.tree.leaves(wanted)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert isinstance(one, np.ndarray | np.generic)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * max(1e-3, float(np.max(np.abs(other)))))


condition = jax.jit(lambda gram, sites: gram.condition(sites))


def test_gram_and_condition(case):
    same(case.gram, case.traced_gram)
    wanted = condition(case.traced_gram, case.traced_sites)
    same(case.q, wanted)
    same(case.gram.condition(case.sites), wanted)


def test_condition_mean(case):
    found, _ = case.gram.condition_mean(case.sites)
    wanted, _ = jax.jit(lambda gram, sites: gram.condition_mean(sites))(case.traced_gram, case.traced_sites)
    same(found, wanted)
    same((found.mean, found.log_z), (case.q.mean, case.q.log_z))
    assert np.all(found.var >= (1 - 1e-12) * case.q.var)
    assert np.all(found.var <= 2 * np.max(case.gram.K))  # of a difference of two functions


@pytest.mark.slow
def test_products_with_the_covariance(case):
    """Against derivatives of `condition`; those of autodiff at a precision of zero are not derivatives of √prec."""
    cov = case.gram.covariance(case.sites, case.factors)
    by_jax = DifferentiatedCovariance(case.traced_gram, case.traced_sites)
    seen = case.sites.prec > 0
    x = np.where(seen, case.by_q.mean, 0.0)
    for times in (cov.times, cov.times_once):
        same(times(x), jax.jit(by_jax.times)(x))
    same(np.where(seen, cov.squared_times(x), 0.0), jnp.where(seen, jax.jit(by_jax.squared_times)(x), 0.0))


@pytest.mark.parametrize("with_variances", [True, False])
def test_pull_to_sites(case, with_variances):
    by_q = case.by_q if with_variances else without_variances(case.by_q)
    found = case.gram.covariance(case.sites, case.factors).pull_to_sites(case.q, by_q)
    (wanted,) = jax.jit(lambda gram, sites, by_q: jax.vjp(gram.condition, sites)[1](by_q))(
        case.traced_gram, case.traced_sites, by_q
    )
    seen = case.sites.prec > 0
    counts = np.any(seen, axis=0)
    same(np.where(counts, found.nat1, 0.0), np.where(counts, wanted.nat1, 0.0))
    same(np.where(seen, found.prec, 0.0), np.where(seen, wanted.prec, 0.0))


def without_variances(by_q: ClassMarginals) -> ClassMarginals:
    return by_q._replace(var=0.0 * by_q.var, cross=0.0 * by_q.cross, noise=0.0 * by_q.noise)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all", "without variances", "variances alone"])
def test_pull_of_the_gram(case, kind):
    by_q = {
        "all": case.by_q,
        "without variances": without_variances(case.by_q),
        "variances alone": case.by_q._replace(mean=0.0 * case.by_q.mean, log_z=np.float64(0.0)),
    }[kind]
    found = case.gram.pull(case.sites, case.factors, case.q, by_q)
    same(found.K, np.swapaxes(found.K, -1, -2))

    def with_symmetric(K, sites):
        return ClassGram(0.5 * (K + jnp.swapaxes(K, -1, -2))).condition(sites)

    @jax.jit
    def by_jax(gram, sites, by_q):
        return jax.vjp(lambda K: with_symmetric(K, sites), gram.K)[1](by_q)[0]

    @jax.jit
    def traced(gram, sites, by_q):
        q, factors = gram.condition_with_factor(sites, None)
        return gram.pull(sites, factors, q, by_q)

    same(found.K, by_jax(case.traced_gram, case.traced_sites, by_q))
    same(found, traced(case.traced_gram, case.traced_sites, by_q))


def test_pull_of_the_prior(case):
    gram, pull = case.prior.gram_with_pull(case.X)
    same(gram, case.gram, 1e-14)
    bar = ClassGram(np.random.default_rng(1).normal(size=case.gram.K.shape))
    (wanted,) = jax.jit(lambda prior, X, bar: jax.vjp(lambda prior: prior.gram(X), prior)[1](bar))(
        case.prior, case.X, bar
    )
    same(values(pull(bar)), values(wanted))


def test_posterior(case):
    new = np.random.default_rng(2).normal(size=(7, 2))
    q = case.prior.posterior(case.X, case.sites)
    for name in ("marginals", "joint"):
        wanted = jax.jit(lambda prior, X, sites, new, name=name: getattr(prior.posterior(X, sites), name)(new))
        same(getattr(q, name)(new), wanted(case.prior, case.X, case.traced_sites, new))
    mean, cov = q.marginals(new)
    joint_mean, joint_cov = q.joint(new)
    same(joint_mean.reshape(CLASSES, -1).T, mean)
    same(np.einsum("cidi->icd", joint_cov.reshape(CLASSES, 7, CLASSES, 7)), cov)


def test_precisions_near_the_smallest_number_are_none():
    """NumPy keeps numbers of few digits that XLA sets to zero; their inverses are infinite."""
    case = make_case("shared", 33)
    none, tiny = (Sites(case.sites.nat1, np.where(case.sites.prec < 0.01, x, case.sites.prec)) for x in (0.0, 1e-312))
    q, same_q = (case.gram.condition_with_factor(sites, None)[0] for sites in (none, tiny))
    same(same_q, q)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [RBF[0], RBF], ids=["shared", "own"])
def test_a_fit_is_that_of_the_traced_engine(kernel):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(30, 2))
    f = np.stack([2 * np.sin(2 * X[:, 0] + 2 * np.pi * c / CLASSES) for c in range(CLASSES)], 1)
    data = Data.of(X, np.argmax(f + rng.gumbel(size=f.shape), 1).astype(float))
    # Combined updates on the host and Newton's directions in the traced engine agree to the tolerance of the sites.
    accurate = EP(tol=1e-10, power=0.5)
    model, learner = Model.full(kernel, likelihoods.Softmax(CLASSES)), Nested(accurate, evidence.half_nested, "auto")
    found = learner.fit(model, data)
    with engine.traced():
        wanted = learner.fit(model, data)
        evidences = wanted.evidences
    assert found.converged and wanted.converged
    assert found.objective == pytest.approx(wanted.objective, abs=1e-8)
    for name, value in found.parameters.items():
        np.testing.assert_allclose(np.log(value), np.log(wanted.parameters[name]), atol=1e-6)
    for name, value in found.evidences.items():
        assert value == pytest.approx(evidences[name], abs=1e-6), name
