"""Both engines give the same numbers: NumPy arrays computed on the host, JAX arrays in a traced program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import problem
from sitewise import EP, VI, Data, Laplace, Model, evidence, kernels, likelihoods, posterior, resolve
from sitewise.arrays.engine import is_host, traced
from sitewise.learning import stages

PAIRS = {
    "laplace": likelihoods.BernoulliLogit(),
    "ep": likelihoods.StudentT(),
    "vi": likelihoods.Poisson(),
    "hybrid": likelihoods.BernoulliProbit(),
}
KINDS = {"laplace": "logit", "ep": "student-t", "vi": "poisson", "hybrid": "probit"}


@pytest.mark.slow
@pytest.mark.parametrize("method", PAIRS)
def test_a_fit_is_the_same(method, monkeypatch):
    """From the same first step: only the host guesses the Hessian at the start."""
    monkeypatch.setattr(stages, "can_guess", lambda _: False)
    X, y = problem(KINDS[method], 24, seed=3)
    model, data = Model.full(kernels.Matern52(np.ones(X.shape[1])), PAIRS[method]), Data.of(X, y)
    here = resolve(method, max_rounds=12).fit(model, data)
    with traced():
        there = resolve(method, max_rounds=12).fit(model, data)
    assert here.objective == pytest.approx(there.objective, rel=1e-10)
    assert len(here.trace) == len(there.trace)
    for name, value in there.parameters.items():
        np.testing.assert_allclose(np.log(np.abs(here.parameters[name])), np.log(np.abs(value)), atol=1e-8)
    for one, other in zip(here.sites, there.sites, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    new = X[:5] + 0.1
    for one, other in zip(here.posterior().f(new), there.posterior().f(new), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


@pytest.fixture(scope="module")
def solved():
    X, y = problem("probit", 24, seed=3)
    model, data = Model.full(kernels.RBF(1.2, 2.0), likelihoods.BernoulliProbit()), Data.of(X, y)
    return model, data, VI().solve(model, data).sites


@pytest.mark.parametrize("method", [Laplace(), EP(), VI()], ids=lambda method: method.name)
def test_sites_are_the_same(solved, method):
    model, data, _ = solved
    here = method.solve(model, data)
    there = jax.jit(lambda data: method.solve(model, data))(jax.tree.map(jnp.asarray, data))
    assert is_host(*here.sites) and not is_host(*there.sites) and int(here.code) == int(there.code) == 0
    for one, other in zip(here.sites, there.sites, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_evidences_and_predictions_are_the_same_under_a_callers_transformations(solved):
    _, data, sites = solved
    reads = {name: e for name, e in evidence.ALL.items() if name not in evidence.FOR_RESIDUALS}

    def all_of(lengthscale):
        moved = Model.full(kernels.RBF(lengthscale, 2.0), likelihoods.BernoulliProbit())
        q = posterior(moved, data, sites)
        return [e(moved, data, sites) for e in reads.values()] + [q.log_density(data.X[:3], data.y[:3]).sum()]

    here = [float(value) for value in all_of(1.2)]
    np.testing.assert_allclose(jax.jit(all_of)(1.2), here, rtol=1e-10)
    np.testing.assert_allclose(np.transpose(jax.vmap(all_of)(jnp.array([1.2, 1.5])))[0], here, rtol=1e-10)
    step = 1e-5
    slopes = [jax.grad(lambda x, i=i: all_of(x)[i])(1.2) for i in range(2)]
    differences = [(float(all_of(1.2 + step)[i]) - float(all_of(1.2 - step)[i])) / (2 * step) for i in range(2)]
    np.testing.assert_allclose(slopes, differences, rtol=1e-6)


def test_values_that_are_constant_in_a_callers_program_are_computed_there_and_then(solved):
    model, data, sites = solved
    plain = float(evidence.ep(model, data, sites))
    assert float(jax.jit(lambda x: x * evidence.ep(model, data, sites))(2.0)) == pytest.approx(2 * plain)


def test_results_are_numpy_arrays_in_double_precision_whatever_the_programs_precision(solved):
    model, data, sites = solved
    single = Data.of(np.float32(data.X), np.float32(data.y))
    with jax.enable_x64(False):
        assert is_host(evidence.ep(model, single, sites)) and evidence.ep(model, single, sites).dtype == np.float64
        mean, var = posterior(model, single, sites).f(np.float32(data.X))
    assert mean.dtype == var.dtype == np.float64
