"""Joint classes: against brute force, against the one-latent model of two classes, and against the book's Laplace."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from scipy.linalg import block_diag
from scipy.special import log_softmax, logsumexp

from sitewise import EP, VI, Data, Laplace, Model, evidence, kernels, likelihoods, posterior
from sitewise.inference.start import initial_sites
from sitewise.learning.fit import all_evidences
from sitewise.learning.objective import Objective, profile
from sitewise.parameters import Trainable

probabilities = jax.jit(lambda likelihood, mean, cov: likelihood.log_probabilities(mean, cov))
KERNEL = kernels.Matern52(0.9, 3.0)


def three_classes(rows=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(rows, 2))
    f = np.stack([2 * np.sin(2 * X[:, 0] + 2 * np.pi * c / 3) for c in range(3)], 1)
    return X, np.argmax(f + rng.gumbel(size=f.shape), 1).astype(float)


X, Y = three_classes()
MODEL = Model.full(KERNEL, likelihoods.Softmax(3))
KERNELS = [KERNEL, kernels.Matern52(0.5, 6.0), kernels.Matern52(2.0, 0.7)]
OWN = Model.full(KERNELS, likelihoods.Softmax(3))


@pytest.fixture(scope="module")
def data():
    return jax.tree.map(jnp.asarray, Data.of(X, Y).pad(16))


@pytest.fixture(scope="module")
def vi_sites(data):
    solution = VI().solve(MODEL, data)
    assert solution.outcome.ok
    return solution.sites


def brute_force(grams, y, points):
    """log ∫ Π softmax dN(f; 0, diag(K_c)) over the differences f_c − f_C, with Gauss–Hermite in all of them."""
    n, free = len(y), len(grams) - 1
    x, w = np.polynomial.hermite_e.hermegauss(points)
    grid = np.stack(np.meshgrid(*[x] * (n * free), indexing="ij"), -1).reshape(-1, n * free)
    log_w = np.sum(np.stack(np.meshgrid(*[np.log(w / w.sum())] * (n * free), indexing="ij"), -1), -1).ravel()
    root = np.linalg.cholesky(block_diag(*grams[:-1]) + np.kron(np.ones((free, free)), grams[-1]))
    f = (grid @ root.T).reshape(-1, free, n)
    logs = log_softmax(np.concatenate([f, np.zeros((len(f), 1, n))], 1), axis=1)
    return logsumexp(log_w + sum(logs[:, int(k), i] for i, k in enumerate(y)))


@pytest.mark.parametrize("model", [MODEL, OWN], ids=["shared", "own"])
@pytest.mark.parametrize("labels", [[0, 0], [0, 2]])
def test_two_rows_against_brute_force(labels, model):
    inputs, y = np.array([[0.0, 0.0], [0.5, 0.3]]), np.array(labels, float)
    each = KERNELS if model is OWN else [KERNEL] * 3
    exact = brute_force([np.asarray(k.matrix(jnp.asarray(inputs))) for k in each], y, 24)
    small = Data.of(inputs, y)
    found = all_evidences(model, small, VI().solve(model, small).sites)
    assert exact - 0.3 < found["elbo"] < exact
    np.testing.assert_allclose(found["ep"], exact, atol=0.02)
    laplace = all_evidences(model, small, Laplace().solve(model, small).sites)["laplace"]
    np.testing.assert_allclose(laplace, exact, atol=0.3)
    on_ep = all_evidences(model, small, EP().solve(model, small).sites, ("ep", "nested"))
    np.testing.assert_allclose(on_ep["ep"], exact, atol=0.005)
    assert exact - 0.05 * len(y) < on_ep["nested"] < exact


@pytest.mark.parametrize("variance", [10.0, 1e3])
def test_ep_evidence_of_three_rows_and_three_classes_under_a_wide_prior(variance):
    """Against the mean likelihood of draws from the prior, whose relative error is 0.7 %; Laplace is off by 17 %."""
    inputs, y = np.array([[0.0], [0.7], [1.5]]), np.array([0.0, 1.0, 1.0])
    model, small = Model.full(kernels.RBF(1.0, variance), likelihoods.Softmax(3)), Data.of(inputs, y)
    root = np.linalg.cholesky(np.asarray(model.prior.kernel.matrix(jnp.asarray(inputs))))
    f = root @ np.random.default_rng(0).normal(size=(3, 3, 150_000))
    logs = log_softmax(f, axis=0)
    exact = logsumexp(sum(logs[int(k), i] for i, k in enumerate(y))) - np.log(f.shape[-1])
    found = all_evidences(model, small, EP().solve(model, small).sites, ("ep", "nested"))
    np.testing.assert_allclose(list(found.values()), exact, atol=0.03)


def test_equal_kernels_are_a_shared_one(data, vi_sites):
    equal = Model.full([KERNEL] * 3, MODEL.likelihood)
    first, second = all_evidences(MODEL, data, vi_sites), all_evidences(equal, data, vi_sites)
    for name in first:
        np.testing.assert_allclose(second[name], first[name], rtol=1e-10)
    new = jnp.asarray(three_classes(5, seed=3)[0])
    q, same = (posterior(model, data, vi_sites) for model in (MODEL, equal))
    for one, other in ((q.f(new), same.f(new)), (q.latent.joint(new), same.latent.joint(new))):
        for i in range(2):  # means and covariances
            np.testing.assert_allclose(other[i], one[i], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("model", [MODEL, OWN], ids=["shared", "own"])
def test_laplace_is_that_of_the_book(data, model):
    """R&W eq. 3.44, by Newton's method on all latent values at once."""
    n = len(Y)
    each = [np.asarray(k.matrix(jnp.asarray(X))) for k in (KERNELS if model is OWN else [KERNEL] * 3)]
    big, one_hot, f = block_diag(*each), np.eye(3)[Y.astype(int)].T.ravel(), np.zeros(3 * n)
    for _ in range(40):
        p = np.exp(log_softmax(f.reshape(3, n), axis=0)).ravel()
        stacked = np.concatenate([np.diag(row) for row in p.reshape(3, n)])
        W = np.diag(p) - stacked @ stacked.T
        f = big @ np.linalg.solve(np.eye(3 * n) + W @ big, W @ f + one_hot - p)
    log_p = np.sum(log_softmax(f.reshape(3, n), axis=0)[Y.astype(int), np.arange(n)])
    book = log_p - 0.5 * f @ np.linalg.solve(big, f) - 0.5 * np.linalg.slogdet(np.eye(3 * n) + W @ big)[1]
    solution = Laplace().solve(model, data)
    np.testing.assert_allclose(all_evidences(model, data, solution.sites)["laplace"], book, atol=1e-7)
    mean, cov = posterior(model, data, solution.sites).f(jnp.asarray(X))
    np.testing.assert_allclose(mean, f.reshape(3, n).T, atol=1e-6)
    full = np.linalg.inv(np.linalg.inv(big) + W).reshape(3, n, 3, n)
    np.testing.assert_allclose(cov, np.einsum("cidi->icd", full), atol=1e-6)


def test_two_classes_are_the_logit_of_the_difference():
    """f₁ − f₀ has the kernel 2κ; evidence and predictions on Laplace's sites agree to rounding and to quadrature."""
    y = (Y > 0).astype(float)
    joint, single = Model.full(KERNEL, likelihoods.Softmax(2)), Model.full(2.0 * KERNEL, likelihoods.BernoulliLogit())
    two, one = Data.of(X, y), Data.of(X, 2 * y - 1)
    s2, s1 = Laplace().solve(joint, two).sites, Laplace().solve(single, one).sites
    found, wanted = all_evidences(joint, two, s2), all_evidences(single, one, s1)
    for name, atol in (("laplace", 1e-7), ("ep", 1e-3), ("loo", 1e-3)):
        np.testing.assert_allclose(found[name], wanted[name], atol=atol)
    new = jnp.asarray(three_classes(5, seed=3)[0])
    mean, cov = posterior(joint, two, s2).f(new)
    found = np.exp(probabilities(joint.likelihood, mean, cov))
    np.testing.assert_allclose(found[:, 1], posterior(single, one, s1).probability(new), atol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)


def test_ep_of_two_classes_is_close_to_ep_of_the_logit():
    y = (Y > 0).astype(float)
    joint, single = Model.full(KERNEL, likelihoods.Softmax(2)), Model.full(2.0 * KERNEL, likelihoods.BernoulliLogit())
    two, one = Data.of(X, y), Data.of(X, 2 * y - 1)
    s2, s1 = EP().solve(joint, two).sites, EP().solve(single, one).sites
    np.testing.assert_allclose(
        all_evidences(joint, two, s2)["ep"], all_evidences(single, one, s1)["ep"], atol=0.001 * len(y)
    )
    new = jnp.asarray(three_classes(5, seed=3)[0])
    found = np.exp(probabilities(joint.likelihood, *posterior(joint, two, s2).f(new)))
    np.testing.assert_allclose(found[:, 1], posterior(single, one, s1).probability(new), atol=0.005)


@pytest.mark.parametrize("variance", [1.0, 1e3, 1e6])
def test_ep_settles_at_any_variance(variance):
    """Separable classes, where VI and Laplace's evidence have no scale to stop at."""
    inputs = np.random.default_rng(1).normal(size=(60, 2))
    separable = Data.of(inputs, np.argmax(inputs @ np.array([[1.0, -0.5, -0.5], [0.0, 1.0, -1.0]]), 1).astype(float))
    solution = EP().solve(Model.full(kernels.Matern52(2.0, variance), likelihoods.Softmax(3)), separable)
    assert solution.outcome.ok
    assert solution.stats.steps <= 40


PAIRS = [
    (VI(), evidence.elbo, "fixed"), (VI(), evidence.ep, "implicit"), (Laplace(), evidence.laplace, "implicit"),
    (EP(), evidence.nested, "fixed"), (EP(), evidence.nested, "implicit"), (EP(), evidence.ep, "implicit"),
    (EP(power=0.5), dataclasses.replace(evidence.nested, name="nested(0.5)", power=0.5), "fixed"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{p[0].name}-{p[1].name}-{p[2]}")
def test_gradients_equal_differences(pair, data):
    method, read, gradient = pair
    trainable = Trainable.of(OWN)
    at = np.asarray(trainable.to_vector(OWN))
    start = initial_sites(OWN.likelihood, data)

    def at_vector(vector):
        return profile(Objective(method, read, gradient, trainable), OWN, data, jnp.asarray(vector), start)

    here, h = at_vector(at), 1e-4
    assert here.solution.outcome.ok
    for i in range(len(at)):
        step = h * np.eye(len(at))[i]
        slope = float(at_vector(at + step).value - at_vector(at - step).value) / (2 * h)
        np.testing.assert_allclose(float(here.gradient[i]), slope, atol=1e-4)


@pytest.mark.parametrize(("method", "names"), [(VI(), ("elbo", "ep")), (EP(), ("nested", "ep"))], ids=["vi", "ep"])
def test_the_order_of_the_classes_means_nothing(data, method, names):
    order = np.array([2, 0, 1])
    moved = jax.tree.map(jnp.asarray, Data.of(X, order[Y.astype(int)].astype(float)).pad(16))
    both = [(d, method.solve(MODEL, d).sites) for d in (data, moved)]
    first, second = (all_evidences(MODEL, d, s, names) for d, s in both)
    for name in names:
        np.testing.assert_allclose(second[name], first[name], atol=1e-6)
    new = jnp.asarray(three_classes(5, seed=3)[0])
    before, after = (np.exp(probabilities(MODEL.likelihood, *posterior(MODEL, d, s).f(new))) for d, s in both)
    np.testing.assert_allclose(after[:, order], before, atol=1e-7)


def test_weights_are_copies():
    weight = np.array([1, 2, 1, 3, 1, 1, 1, 1, 2, 1, 1, 1])
    copied = Data.of(np.repeat(X, weight, 0), np.repeat(Y, weight)).pad(16)
    weighted = Data.of(X, Y, weight).pad(16)
    for method, names in ((VI(), ("elbo", "ep", "loo")), (EP(), ("nested", "ep", "loo"))):
        first, second = (all_evidences(MODEL, d, method.solve(MODEL, d).sites, names) for d in (copied, weighted))
        for name in names:
            np.testing.assert_allclose(first[name], second[name], rtol=1e-6)


def equations(jaxpr):
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


@pytest.mark.parametrize("model", [MODEL, OWN], ids=["shared", "own"])
def test_nothing_is_factorised_in_batches(data, model):
    """Batches of factorisations wait for each other in XLA's threads on the CPU, two of them at once for ever."""
    trainable = Trainable.of(model)
    start = initial_sites(model.likelihood, data)
    program = jax.make_jaxpr(
        lambda vector: profile(Objective(VI(), evidence.ep, "implicit", trainable), model, data, vector, start)
    )(trainable.to_vector(model))
    found = [e for e in equations(program.jaxpr) if e.primitive.name in ("cholesky", "triangular_solve")]
    assert found
    assert all(e.invars[0].aval.ndim == 2 for e in found)


def test_what_is_not_there_says_so():
    with pytest.raises(ValueError, match="class numbers 0 to 2"):
        likelihoods.Softmax(3).check(np.array([0.0, 3.0]))
    with pytest.raises(ValueError, match="2 kernels for 3 classes"):
        Model.full(KERNELS[:2], likelihoods.Softmax(3))
    with pytest.raises(ValueError, match="may differ in the values of their parameters only"):
        Model.full([*KERNELS[:2], kernels.RBF()], likelihoods.Softmax(3))
    with pytest.raises(ValueError, match="Only a Softmax takes a list of kernels"):
        Model.full(KERNELS, likelihoods.Gaussian())
