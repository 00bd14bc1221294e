"""Evidences of all methods against brute-force quadrature, on one and two rows."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from cases import METHODS, MORE_LIKELIHOODS
from sitewise import Data, Model, evidence, kernels
from sitewise.inference.start import initial_sites

X = np.array([[0.0], [0.7]])
KERNEL = kernels.Matern52(1.0, 1.4)
EXACT = ("log-normal", "heteroscedastic-gaussian")


MATCHED = {"laplace": evidence.laplace, "vi": evidence.elbo, "ep": evidence.ep}


@functools.partial(jax.jit, static_argnums=0)
def _solve(methods, model, problems):
    """Evidence and residual of every method on every problem, in one program per likelihood.

    Two rows need no solver: T is applied 150 times, half a step each, which compiles in a fraction of the time.
    """

    def one(name, data):
        gram = model.prior.gram(data.X)

        def step(_, sites):
            target = METHODS[name].propose(model.likelihood, data, gram.condition(sites), sites)
            return jax.tree.map(lambda old, new: jnp.where(data.mask, 0.5 * (old + new), 0.0), sites, target)

        sites = lax.fori_loop(0, 150, step, initial_sites(model.likelihood, data))
        moved = step(0, sites)
        gap = jnp.max(jnp.abs(jnp.stack(moved) - jnp.stack(sites)) / (1 + jnp.abs(jnp.stack(sites))))
        return MATCHED[name](model, data, sites), gap

    return {name: lax.map(functools.partial(one, name), problems) for name in methods}


def _brute_force(model, y, rows) -> float:
    """log ∫ Π p(y_i|f_i) N(f; 0, K) df by the trapezoid rule in whitened coordinates."""
    axis = np.linspace(-9, 9, {1: 20001, 2: 601}[rows])
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
    both = [Data.of(X[:1], y[:1]).pad(2), Data.of(X, y)]
    found = _solve(methods, model, jax.tree.map(lambda *a: jnp.stack(a), *both))
    for rows in (1, 2):
        truth = _brute_force(model, y, rows)
        assert all(gap[rows - 1] < 1e-7 for _, gap in found.values())
        values = {method: float(value[rows - 1]) for method, (value, _) in found.items()}
        # With one row the cavity is the prior, and EP is exact whatever the likelihood.
        assert values["ep"] == pytest.approx(truth, abs=2e-5 if rows == 1 or name in EXACT else 0.03)
        assert values["vi"] <= truth + 2e-5
        assert values["vi"] == pytest.approx(truth, abs=2e-5 if name in EXACT else 0.5)
        if "laplace" in methods:
            assert values["laplace"] == pytest.approx(truth, abs=2e-5 if name in EXACT else 0.5)
