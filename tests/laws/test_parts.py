"""Parts of a sum: they add up to the whole, for every prior structure, likelihood and inference."""

import jax
import numpy as np
import pytest

import sitewise as sw
from cases import problem
from sitewise import kernels, likelihoods, means
from sitewise.inference.solve import solve
from sitewise.predict import posterior
from sitewise.sites import Sites

KERNEL = kernels.Matern52(0.8, 1.3, active_dims=0, name="first") + 0.4 * (kernels.RBF(1.1) + kernels.Constant(0.3))
TIME = kernels.Matern32(0.8, 1.3) + 0.5 * (kernels.Matern12(0.3) + kernels.Cosine(1.7) * kernels.Matern52(2.0))
MEAN = means.Constant(0.4)
X, y = problem("probit", 12)
NEW = np.random.default_rng(5).normal(size=(4, 2))


def _posteriors():
    probit, poisson = likelihoods.BernoulliProbit(), likelihoods.Poisson()
    counts = problem("poisson", 12)[1]
    out = {
        "full-ep": (sw.Model.full(KERNEL, probit, MEAN), sw.EP(), X, y, NEW),
        "full-poisson-laplace": (sw.Model.full(KERNEL, poisson, MEAN), sw.Laplace(), X, counts, NEW),
        "sparse": (sw.Model.sparse(KERNEL, probit, X[:5], MEAN), sw.VI(), X, y, NEW),
        "markov": (sw.Model.markov(TIME, probit, MEAN), sw.VI(), X[:, :1], y, NEW[:, :1]),
        "additive": (sw.Model.full(kernels.Additive.of(X), probit), sw.VI(), X, y, NEW),
    }
    for name, (model, method, rows, target, new) in out.items():
        data = sw.Data.of(rows, target)
        yield name, (posterior(model, data, solve(method, model, data).sites), new, model)


CASES = dict(_posteriors())


@pytest.mark.parametrize("name", CASES)
def test_parts_add_up_with_their_cross_terms(name):
    q, new, model = CASES[name]
    means_, cov = q.parts_joint(new)
    mean, whole = q.f_joint(new)
    np.testing.assert_allclose(np.sum(means_, axis=0) + model.prior.mean.at(new), mean, atol=1e-10)
    np.testing.assert_allclose(np.sum(cov, axis=(0, 2)), whole, atol=1e-10)
    np.testing.assert_allclose(cov, np.transpose(cov, (2, 3, 0, 1)), atol=1e-10)
    for i in range(len(means_)):
        part = q.part(i)
        np.testing.assert_allclose(part.f_joint(new)[0], means_[i], atol=1e-10)
        np.testing.assert_allclose(part.f_joint(new)[1], cov[i, :, i], atol=1e-10)
        np.testing.assert_allclose(part.f(new)[0], means_[i], atol=1e-8)
        np.testing.assert_allclose(part.f(new)[1], np.diag(cov[i, :, i]), atol=1e-8)
    everything = q.part(q.terms())
    np.testing.assert_allclose(everything.f_joint(new)[1], whole, atol=1e-10)
    np.testing.assert_allclose(everything.f(new)[0], mean, atol=1e-8)


def test_a_part_against_dense_algebra_with_every_part_a_variable_of_its_own():
    """The joint Gaussian of f_1 … f_P at all rows with sites on their sum, without the library's algebra."""
    q, new, model = CASES["full-ep"]
    data = sw.Data.of(X, y)
    sites = solve(sw.EP(), model, data).sites
    each = [term.kernel for term in kernels.terms(KERNEL)]
    rows = np.concatenate([X, new])
    prior = np.zeros((len(each), len(rows), len(each), len(rows)))
    for p, kernel in enumerate(each):
        prior[p, :, p] = np.asarray(kernel.matrix(rows))
    K = prior.reshape(len(each) * len(rows), -1)
    sums = np.tile(np.eye(len(rows))[: len(X)], len(each))  # f at the training rows, as a sum of the parts
    S = sums @ K @ sums.T
    W, b = np.diag(sites.prec), sites.nat1 - sites.prec * 0.4
    R = W @ np.linalg.inv(np.eye(len(X)) + S @ W)
    cov = (K - K @ sums.T @ R @ sums @ K).reshape(prior.shape)[:, len(X) :, :, len(X) :]
    mean = (K @ sums.T @ np.linalg.solve(np.eye(len(X)) + W @ S, b)).reshape(len(each), -1)[:, len(X) :]
    found = q.parts_joint(new)
    np.testing.assert_allclose(found[0], mean, atol=1e-10)
    np.testing.assert_allclose(found[1], cov, atol=1e-10)


def test_names_subsets_and_the_mean():
    q, new, _ = CASES["full-ep"]
    assert q.terms() == ["mean", "first", "RBF", "offset"]
    pair, both = q.part(["first", "offset"]).f_joint(new), q.parts_joint(new)
    np.testing.assert_allclose(pair[0], both[0][0] + both[0][2], atol=1e-10)
    np.testing.assert_allclose(pair[1], both[1][[0, 2]][:, :, [0, 2]].sum(axis=(0, 2)), atol=1e-10)
    np.testing.assert_allclose(q.part("mean").f(new), [np.full(4, 0.4), np.zeros(4)])
    for wrong in ("nothing", 3, -1, [], ["first", 0]):
        with pytest.raises(ValueError, match="part"):
            q.part(wrong)


def test_draws_have_these_moments():
    q, new, _ = CASES["full-ep"]
    mean, cov = q.parts_joint(new)
    draws = np.asarray(q.parts_samples(jax.random.key(0), new, 4000))
    assert draws.shape == (4000, 3, 4)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.1)
    np.testing.assert_allclose(np.cov(draws.reshape(4000, -1).T), cov.reshape(12, 12), atol=0.15)


@pytest.mark.parametrize("own", [False, True])
def test_parts_of_a_softmax(own):
    kernel = kernels.RBF(0.9) + kernels.Linear(0.5)
    given = [kernel, kernels.RBF(0.7, 2.0) + kernels.Linear(0.3), kernel] if own else kernel
    labels = np.arange(12) % 3.0
    model = sw.Model.full(given, likelihoods.Softmax(3))
    data = sw.Data.of(X, labels)
    q = posterior(model, data, solve(sw.VI(), model, data).sites)
    mean, cov = q.parts_joint(NEW)
    np.testing.assert_allclose(mean.sum(axis=0), q.f_joint(NEW)[0], atol=1e-10)
    np.testing.assert_allclose(cov.sum(axis=(0, 2)), q.f_joint(NEW)[1], atol=1e-10)
    assert q.part(0).f(NEW)[0].shape == (4, 3)


def test_sites_without_curvature_leave_the_prior():
    model = sw.Model.full(KERNEL, likelihoods.BernoulliProbit())
    q = posterior(model, sw.Data.of(X, y), Sites(np.zeros(12), np.zeros(12)))
    _, cov = q.parts_joint(NEW)
    np.testing.assert_allclose(cov[0, :, 1], 0.0, atol=1e-14)
    np.testing.assert_allclose(cov[2, :, 2], 0.12, atol=1e-12)
