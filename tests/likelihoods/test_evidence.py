"""Evidences of all methods against brute-force quadrature, on one and two rows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import METHODS, MORE_LIKELIHOODS
from sitewise import Data, Model, evidence, kernels

X = np.array([[0.0], [0.7]])
KERNEL = kernels.Matern52(1.0, 1.4)
EXACT = ("log-normal", "heteroscedastic-gaussian")


@functools.partial(jax.jit, static_argnums=0)
def _solve(methods, model, one, two):
    """All three methods on both problems in one program per likelihood: the second row of `one` is padding."""
    out = {}
    for name in methods:
        matched = {"laplace": evidence.laplace, "vi": evidence.elbo, "ep": evidence.ep}[name]
        for rows, data in ((1, one), (2, two)):
            solution = METHODS[name].solve(model, data)
            out[name, rows] = matched(model, data, solution.sites), solution.code
    return out


def _brute_force(model, y, rows, points=1201) -> float:
    """log ∫ Π p(y_i|f_i) N(f; 0, K) df by the trapezoid rule in whitened coordinates."""
    axis = np.linspace(-9, 9, points)
    z = np.stack(np.meshgrid(*[axis] * rows, indexing="ij"), axis=-1).reshape(-1, rows)
    root = np.linalg.cholesky(np.asarray(KERNEL.matrix(jnp.asarray(X[:rows]))))
    log_p = model.likelihood.log_prob(jnp.asarray(y[:rows]), jnp.asarray(z @ root.T))
    total = np.sum(np.asarray(log_p), axis=1) - 0.5 * np.sum(z * z, axis=1)
    cell = rows * np.log((axis[1] - axis[0]) / np.sqrt(2 * np.pi))
    return float(total.max() + np.log(np.sum(np.exp(total - total.max()))) + cell)


@pytest.mark.parametrize("name", MORE_LIKELIHOODS)
def test_evidences_on_one_and_two_rows(name):
    likelihood, values, _ = MORE_LIKELIHOODS[name]
    y = np.asarray(values, float)[[1, 0]]  # the middle of the support, then an edge of it
    model = Model.full(KERNEL, likelihood)
    # Laplace's method needs curvature, which Laplace noise has nowhere.
    methods = tuple(m for m in METHODS if (m, name) != ("laplace", "laplace-noise"))
    found = _solve(methods, model, Data.of(X[:1], y[:1]).pad(2), Data.of(X, y))
    for rows in (1, 2):
        truth = _brute_force(model, y, rows)
        values = {method: float(found[method, rows][0]) for method in methods}
        assert all(found[method, rows][1] == 0 for method in methods)
        # With one row the cavity is the prior, and EP is exact whatever the likelihood.
        assert values["ep"] == pytest.approx(truth, abs=2e-5 if rows == 1 or name in EXACT else 0.03)
        assert values["vi"] <= truth + 2e-5
        assert values["vi"] == pytest.approx(truth, abs=2e-5 if name in EXACT else 0.5)
        if "laplace" in methods:
            assert values["laplace"] == pytest.approx(truth, abs=2e-5 if name in EXACT else 0.5)
