"""Evidences of all methods against brute-force quadrature, on one and two rows."""

import functools

import jax
import numpy as np
import pytest

from cases import METHODS, MORE_LIKELIHOODS
from sitewise import Data, Model, evidence, kernels

X = np.array([[0.0], [0.7]])
KERNEL = kernels.Matern52(1.0, 1.4)
EXACT = ("log-normal", "heteroscedastic-gaussian")


MATCHED = {"laplace": evidence.laplace, "vi": evidence.elbo, "ep": evidence.ep}


def _solve(name, model, data):
    solution = METHODS[name].solve(model, data)
    return MATCHED[name](model, data, solution.sites), solution.code


ENGINES = {"host": _solve, "traced": functools.partial(jax.jit, static_argnums=0)(_solve)}


@jax.jit
def _log_prob(likelihood, y, f):
    return likelihood.log_prob(y, f)


def _brute_force(model, y, rows) -> float:
    """log ∫ Π p(y_i|f_i) N(f; 0, K) df by the trapezoid rule in whitened coordinates."""
    axis = np.linspace(-9, 9, {1: 20001, 2: 601}[rows])
    z = np.stack(np.meshgrid(*[axis] * rows, indexing="ij"), axis=-1).reshape(-1, rows)
    root = np.linalg.cholesky(KERNEL.matrix(X[:rows]))
    log_p = np.asarray(_log_prob(model.likelihood, y[:rows], z @ root.T))
    total = np.sum(log_p, axis=1) - 0.5 * np.sum(z * z, axis=1)
    cell = rows * np.log((axis[1] - axis[0]) / np.sqrt(2 * np.pi))
    return float(total.max() + np.log(np.sum(np.exp(total - total.max()))) + cell)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "engine"), [*((name, "host") for name in MORE_LIKELIHOODS), ("binomial", "traced")])
def test_evidences_on_one_and_two_rows(name, engine):
    likelihood, values, _ = MORE_LIKELIHOODS[name]
    y = np.asarray(values, float)[[1, 0]]  # the middle of the support, then an edge of it
    model = Model.full(KERNEL, likelihood)
    # Laplace's method needs curvature, which noise with a kink has nowhere.
    methods = tuple(m for m in METHODS if m != "laplace" or likelihood.curved)
    for rows, data in ((1, Data.of(X[:1], y[:1]).pad(2)), (2, Data.of(X, y))):
        truth = _brute_force(model, y, rows)
        found = {method: ENGINES[engine](method, model, data) for method in methods}
        assert all(code == 0 for _, code in found.values())
        values = {method: float(value) for method, (value, _) in found.items()}
        # With one row the cavity is the prior, and EP is exact whatever the likelihood.
        assert values["ep"] == pytest.approx(truth, abs=2e-5 if rows == 1 or name in EXACT else 0.03)
        assert values["vi"] <= truth + 2e-5
        assert values["vi"] == pytest.approx(truth, abs=2e-5 if name in EXACT else 0.5)
        if "laplace" in methods:
            assert values["laplace"] == pytest.approx(truth, abs=2e-5 if name in EXACT else 0.5)
