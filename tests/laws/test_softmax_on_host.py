"""EP of joint classes on NumPy arrays: the compiled programs, differences and invariances are the references."""

import numpy as np
import pytest

from sitewise import EP, Data, Model, evidence, kernels, likelihoods, resolve, value_and_grad
from sitewise.inference.loop import _assess
from sitewise.learning.problem import Problem
from sitewise.learning.schedule import schedule_of
from sitewise.priors.classes import ClassCovariance
from sitewise.process.precision import working_precision
from sitewise.rows import on_rows

RNG = np.random.default_rng(5)
X = RNG.normal(size=(14, 2))
Y = np.argmax(X @ np.array([[1.0, -0.5, -0.5], [0.0, 1.0, -1.0]]), axis=1).astype(float)
SOFTMAX = likelihoods.Softmax(3)
HALF = EP(power=0.5)


def model(variance: float = 4.0, lengthscale: float = 1.5) -> Model:
    return Model.full(kernels.Matern52(lengthscale, variance), SOFTMAX)


def test_update_and_evidence_are_those_of_the_compiled_programs():
    data, method, read = Data.of(X, Y, RNG.integers(0, 3, 14).astype(float)), HALF, evidence.half_nested
    sites = method.solve(model(30.0), data).sites
    with working_precision():
        likelihood, data, q, sites = evidence.conditioned(model(30.0), data, sites)
        closed = method.assess(likelihood, data, q, sites, False)
        compiled = on_rows(_assess, (method.update(), False), likelihood, data, q, sites)
        for found, wanted in zip(closed[0], compiled[0], strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)
        traced = on_rows(_read, read, likelihood, data, q, sites)[1][0]
    assert float(read.on_marginals(likelihood, data, q, sites)) == pytest.approx(float(traced), abs=1e-7)


def _read(read, likelihood, data, q, sites):
    return (), (read.read(likelihood, data, q, sites),)


@pytest.mark.parametrize("variance", [0.1, 10.0, 1e4])
def test_gradient_with_fixed_sites_equals_differences(variance):
    data, step = Data.of(X, Y), 1e-4

    def value(lengthscale, variance):
        return float(value_and_grad(HALF, evidence.half_nested, "fixed")(model(variance, lengthscale), data)[0])

    kernel = value_and_grad(HALF, evidence.half_nested, "fixed")(model(variance), data)[1].prior.kernel
    by_length = (value(1.5 * (1 + step), variance) - value(1.5 * (1 - step), variance)) / (3.0 * step)
    by_variance = (value(1.5, variance * (1 + step)) - value(1.5, variance * (1 - step))) / (2 * step * variance)
    np.testing.assert_allclose(kernel.lengthscale, by_length, atol=1e-5)
    np.testing.assert_allclose(kernel.variance * variance, by_variance * variance, atol=1e-5)


@pytest.mark.parametrize("variance", [1e-2, 1.0, 1e2, 1e4, 1e6])
def test_ep_settles_at_every_variance_without_a_covariance(monkeypatch, variance):
    """Separable classes; a covariance of all rows and classes costs as much as ten updates."""

    def refuse(*_):
        raise AssertionError("covariance")

    monkeypatch.setattr(ClassCovariance, "matrix", property(refuse))
    learning, final = EP(tol=1e-3, power=0.5), EP(tol=1e-3, power=0.02)
    assert [round(method.power, 3) for method in final.approach(learning)] == [0.1]
    sites = None
    for method in (learning, *final.approach(learning), final):
        found = method.solve(model(variance), Data.of(X, Y), sites)
        assert found.outcome.ok and found.stats.steps <= 50
        sites = found.sites


def test_conditioning_of_rows_that_their_sites_hardly_determine():
    """Precisions from 1e-12 to 1: variances by both formulas of the host against dense algebra."""
    rows = Data.of(X, Y)
    prec = 10.0 ** RNG.uniform(-12, 0, (3, 14))
    sites = type(EP().solve(model(), rows).sites)(RNG.normal(size=(3, 14)) * prec, prec)
    with working_precision():
        host = evidence.conditioned(model(), rows, sites)[2]
        K = np.asarray(model().prior.gram(X).K)
    total = np.zeros((42, 42))
    for i in range(14):
        w = prec[:, i]
        total[np.ix_(range(i, 42, 14), range(i, 42, 14))] = np.diag(w) - np.outer(w, w) / w.sum()
    cov = np.linalg.inv(np.linalg.inv(np.kron(np.eye(3), K)) + total)
    for i in range(14):
        p = prec[:, i] / prec[:, i].sum()
        to_g = np.eye(3) - np.outer(np.ones(3), p)
        np.testing.assert_allclose(host.cross[i], to_g @ cov[i::14, i::14] @ to_g.T, rtol=1e-6, atol=1e-8)


def test_classes_have_coarse_stages_from_fewer_rows_and_an_own_tolerance():
    data = Data.of(RNG.normal(size=(300, 2)), RNG.integers(0, 3, 300).astype(float))
    problem = Problem.of(resolve("hybrid", least_gain=0.05), model(), data)
    first, main = schedule_of(problem, 300, staged=True).stages
    assert first.coarse and first.rows == 100
    assert main.tol == pytest.approx(0.1 * problem.pair.inference.tol)
    exact = Problem.of(resolve("hybrid"), model(), data)
    assert schedule_of(exact, 300, staged=False).stages[-1].tol is None
