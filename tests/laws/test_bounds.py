"""Evidences against brute-force quadrature of log Z on three rows, and the limits that connect them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import LIKELIHOODS, METHODS, problem
from sitewise import EP, VI, Data, Model, evidence, kernels, likelihoods


@jax.jit
def _log_prob_of_all(likelihood, y, f):
    return jnp.sum(likelihood.log_prob(y, f), axis=1)


def brute_force_log_z(model, X, y, points=90) -> float:
    """log ∫ Π p(y_i|f_i) N(f; 0, K) df by a tensor trapezoid rule in whitened coordinates."""
    axis = np.linspace(-7.5, 7.5, points)
    z = np.stack(np.meshgrid(*[axis] * len(X), indexing="ij"), axis=-1).reshape(-1, len(X))
    root = np.linalg.cholesky(model.prior.gram(X).K)
    total = np.asarray(_log_prob_of_all(model.likelihood, y, z @ root.T)) - 0.5 * np.sum(z * z, axis=1)
    top = total.max()
    cell = len(X) * np.log((axis[1] - axis[0]) / np.sqrt(2 * np.pi))
    return float(top + np.log(np.sum(np.exp(total - top))) + cell)


def _solve_and_read(read, method, model, data):
    solution = method.solve(model, data)
    return read(model, data, solution.sites), solution.code


ENGINES = {"host": _solve_and_read, "traced": functools.partial(jax.jit, static_argnums=(0, 1))(_solve_and_read)}


@pytest.mark.parametrize(("likelihood", "engine"), [*((name, "host") for name in LIKELIHOODS), ("logit", "traced")])
def test_elbo_is_a_bound_on_every_methods_sites(likelihood, engine):
    for seed in range(6):
        X, y = problem(likelihood, 3, seed)
        model = Model.full(kernels.Matern52(0.8, 0.5 + 0.3 * seed), LIKELIHOODS[likelihood])
        truth = brute_force_log_z(model, X, y)
        for name, method in METHODS.items():
            value, code = ENGINES[engine](evidence.elbo, method, model, Data.of(X, y))
            assert code == 0, (name, seed)
            assert value <= truth + 1e-6, (name, seed)
            assert value >= truth - 1.5, (name, seed)


@pytest.mark.slow
def test_ep_evidence_is_accurate_for_probit():
    """100 random models on three rows: median error at most 1e-3 nats (paper's claim that EP is near exact)."""
    rng = np.random.default_rng(0)
    errors = []
    for i in range(100):
        X, y = rng.normal(size=(3, 2)), rng.choice([-1.0, 1.0], size=3)
        model = Model.full(kernels.Matern52(np.exp(rng.normal()), np.exp(rng.normal())), likelihoods.BernoulliProbit())
        truth = brute_force_log_z(model, X, y, points=60)
        value, code = ENGINES["host" if i < 50 else "traced"](evidence.ep, EP(), model, Data.of(X, y))
        assert code == 0
        errors.append(abs(float(value) - truth))
    assert np.median(errors) <= 1e-3
    assert np.max(errors) <= 2e-2


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_power_to_zero_is_the_elbo(likelihood):
    X, y = problem(likelihood, 14)
    model = Model.full(kernels.Matern52(0.8, 1.5), LIKELIHOODS[likelihood])
    data = Data.of(X, y)
    sites = VI().solve(model, data).sites
    bound = float(evidence.elbo(model, data, sites))
    gaps = [float(evidence.power_ep(a)(model, data, sites)) - bound for a in (1e-2, 1e-3, 1e-4)]
    assert abs(gaps[2]) < 2e-4 * 14
    if likelihood == "poisson":
        traced = jax.jit(evidence.power_ep(1e-4))(model, data, sites)
        assert float(traced) - bound == pytest.approx(gaps[2], abs=1e-9)
    if likelihood != "gaussian":  # there every power is exact, and the gaps are rounding
        assert abs(gaps[0]) > abs(gaps[1]) > abs(gaps[2])
