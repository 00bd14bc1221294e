"""With Gaussian noise every method and every evidence is exact."""

import functools

import jax
import numpy as np
import pytest

from cases import KERNELS, METHODS, problem
from sitewise import Data, Model, evidence, kernels, likelihoods, means, posterior, value_and_grad
from sitewise.arrays.engine import traced
from sitewise.likelihoods import Likelihood
from sitewise.types import module

NOISE = 0.4
READ = {"laplace": evidence.laplace, "elbo": evidence.elbo, "loo": evidence.loo}
READ |= {f"ep({a})": evidence.power_ep(a) for a in (0.1, 0.5, 1.0)}


def _read_all(method, model, data, X_new):
    solution = method.solve(model, data)
    q = posterior(model, data, solution.sites)
    return {k: e(model, data, solution.sites) for k, e in READ.items()}, q.f(X_new), solution.code


ENGINES = {"host": _read_all, "traced": functools.partial(jax.jit, static_argnums=0)(_read_all)}


@jax.jit
def _prior(kernel, mean, X, X_new):
    """Traced, so that the host's matrices are compared with those of a program."""
    return kernel.matrix(X), kernel.matrix(X_new, X), kernel.variances(X_new), mean(X), mean(X_new)


def _dense(kernel, mean, X, y, X_new):
    """Textbook formulas (R&W section 2.2 and eq. 5.12), with inverses."""
    K, cross, variances, mean_here, mean_there = map(np.asarray, _prior(kernel, mean, X, X_new))
    K = K + NOISE**2 * np.eye(len(X))
    centred = y - mean_here
    inverse = np.linalg.inv(K)
    log_z = -0.5 * centred @ inverse @ centred - 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    var = 1 / np.diag(inverse)
    residual = (inverse @ centred) * var
    loo = np.sum(-0.5 * residual**2 / var - 0.5 * np.log(2 * np.pi * var))
    new_mean = mean_there + cross @ inverse @ centred
    new_var = variances - np.sum(cross @ inverse * cross, axis=1)
    return log_z, loo, new_mean, new_var


CASES = [(kernel, method, "host") for kernel in KERNELS for method in METHODS]
CASES += [("active", method, "traced") for method in METHODS]


@pytest.mark.parametrize(("kernel", "method", "engine"), CASES)
def test_every_evidence_and_the_posterior_are_exact(kernel, method, engine):
    X, y = problem("gaussian", 14)
    X_new = np.random.default_rng(1).normal(size=(5, 2))
    if kernel == "index":  # whose second column has levels
        X, X_new = (np.column_stack([A[:, 0], np.arange(len(A)) % 3]) for A in (X, X_new))
    mean = means.Linear([0.3, -0.2], 0.5)
    model = Model.full(KERNELS[kernel], likelihoods.Gaussian(NOISE), mean)
    values, (new_mean, new_var), code = ENGINES[engine](METHODS[method], model, Data.of(X, y), X_new)
    log_z, loo, exact_mean, exact_var = _dense(KERNELS[kernel], mean, X, y, X_new)
    assert code == 0
    assert values.pop("loo") == pytest.approx(loo, abs=1e-8)
    for name, value in values.items():
        assert value == pytest.approx(log_z, abs=1e-8), name
    np.testing.assert_allclose(new_mean, exact_mean, atol=1e-9)
    np.testing.assert_allclose(new_var, exact_var, atol=1e-9)


def _slopes(method, read, likelihood, make):
    """The gradient by the host's engine and by a program, and the conditionings that the host needed."""
    rng = np.random.default_rng(3)
    X, y = rng.uniform(0, 4, (30, 1)), rng.normal(size=30)
    model = make(kernels.Matern32(0.8, 1.3), likelihood, means.Constant(0.2))
    data = Data.of(X, y, weight=rng.integers(1, 3, 30).astype(float))
    value = value_and_grad(method, read, has_aux=True)
    (_, solution), by = value(model, data)
    with traced():
        _, expected = value(model, data)
    return [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(each)]) for each in (by, expected)], solution


@pytest.mark.parametrize("make", [Model.full, Model.markov])
@pytest.mark.parametrize("read", [evidence.ep, evidence.elbo, evidence.laplace, evidence.loo])
def test_nothing_is_iterated_and_the_gradient_is_that_of_the_whole_formula(read, make):
    """The host leaves out what is zero; a program does not."""
    (found, expected), solution = _slopes(METHODS["vi"], read, likelihoods.Gaussian(NOISE), make)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert solution.stats.steps == 1


@module
class Bent(likelihoods.Gaussian):
    """It inherits that it is conjugate, and is not."""

    def log_prob(self, y, f):
        return likelihoods.Gaussian.log_prob(self, y, f) - 0.5 * jax.nn.softplus(f)

    expected_log_prob = Likelihood.expected_log_prob
    log_expected_prob = Likelihood.log_expected_prob


@pytest.mark.parametrize("make", [Model.full, Model.markov])
def test_a_likelihood_is_not_taken_for_a_gaussian_by_its_name(make):
    (found, expected), solution = _slopes(METHODS["vi"], evidence.ep, Bent(NOISE), make)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    assert solution.outcome.ok and solution.stats.steps > 1
