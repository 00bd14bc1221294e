"""With Gaussian noise every method and every evidence is exact."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import KERNELS, METHODS, problem
from sitewise import Data, Model, evidence, likelihoods, means, posterior

NOISE = 0.4
READ = {"laplace": evidence.laplace, "elbo": evidence.elbo, "loo": evidence.loo}
READ |= {f"ep({a})": evidence.power_ep(a) for a in (0.1, 0.5, 1.0)}


@functools.partial(jax.jit, static_argnums=0)
def _read_all(method, model, data, X_new):
    solution = method.solve(model, data)
    q = posterior(model, data, solution.sites)
    return {k: e(model, data, solution.sites) for k, e in READ.items()}, q.f(X_new), solution.code


def _dense(kernel, mean, X, y, X_new):
    """Textbook formulas (R&W section 2.2 and eq. 5.12), with inverses."""
    K = np.asarray(kernel.matrix(jnp.asarray(X))) + NOISE**2 * np.eye(len(X))
    centred = y - np.asarray(mean(jnp.asarray(X)))
    inverse = np.linalg.inv(K)
    log_z = -0.5 * centred @ inverse @ centred - 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    var = 1 / np.diag(inverse)
    residual = (inverse @ centred) * var
    loo = np.sum(-0.5 * residual**2 / var - 0.5 * np.log(2 * np.pi * var))
    cross = np.asarray(kernel.matrix(jnp.asarray(X_new), jnp.asarray(X)))
    new_mean = np.asarray(mean(jnp.asarray(X_new))) + cross @ inverse @ centred
    new_var = np.asarray(kernel.variances(jnp.asarray(X_new))) - np.sum(cross @ inverse * cross, axis=1)
    return log_z, loo, new_mean, new_var


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_evidence_and_the_posterior_are_exact(kernel, method):
    X, y = problem("gaussian", 14)
    X_new = np.random.default_rng(1).normal(size=(5, 2))
    mean = means.Linear([0.3, -0.2], 0.5)
    model = Model.full(KERNELS[kernel], likelihoods.Gaussian(NOISE), mean)
    values, (new_mean, new_var), code = _read_all(METHODS[method], model, Data.of(X, y), X_new)
    log_z, loo, exact_mean, exact_var = _dense(KERNELS[kernel], mean, X, y, X_new)
    assert code == 0
    assert values.pop("loo") == pytest.approx(loo, abs=1e-8)
    for name, value in values.items():
        assert value == pytest.approx(log_z, abs=1e-8), name
    np.testing.assert_allclose(new_mean, exact_mean, atol=1e-9)
    np.testing.assert_allclose(new_var, exact_var, atol=1e-9)
