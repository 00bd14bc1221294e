"""Gradients of θ ↦ evidence(θ, λ*(θ)) against central differences of the nested objective."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import EVIDENCES, LIKELIHOODS, METHODS, problem
from sitewise import Data, Model, kernels, means
from sitewise.inference.start import initial_sites
from sitewise.learning.objective import Objective, profile
from sitewise.parameters import Trainable

ROWS = 14
STEP = 1e-4


@functools.cache
def _setup(likelihood):
    X, y = problem(likelihood, ROWS, seed=2)
    model = Model.full(kernels.Matern52([0.8, 1.1], 1.7), LIKELIHOODS[likelihood], means.Constant(0.1))
    data = jax.tree.map(jnp.asarray, Data.of(X, y).pad(16))
    trainable = Trainable.of(model, train=("likelihood.df",) if likelihood == "student-t" else ())
    return model, data, trainable, trainable.to_vector(model)


def _gradient(method, evidence, gradient, likelihood):
    model, data, trainable, vector = _setup(likelihood)
    out = profile(Objective(METHODS[method], EVIDENCES[evidence], gradient, trainable), model, data, vector,
                  initial_sites(model.likelihood, data))  # fmt: skip
    assert out.solution.code == 0
    return np.asarray(out.gradient), out.solution.sites


@functools.cache
def _differences(method, likelihood):
    """Central differences of every evidence at once, solving to 1e-12 at each displaced θ."""
    import dataclasses

    model, data, trainable, vector = _setup(likelihood)
    sharp = dataclasses.replace(METHODS[method], tol=1e-11)
    start = sharp.solve(model, data).sites

    @jax.jit
    def values(vector):
        from sitewise.inference.loop import iterate

        at = trainable.from_vector(model, vector)
        gram = at.prior.gram(data.X)
        point, solution, _ = iterate(sharp, at.likelihood, gram, data, start)
        return jnp.stack([e.read(at.likelihood, data, point.q, solution.sites) for e in EVIDENCES.values()])

    columns = []
    for i in range(vector.shape[0]):
        move = jnp.zeros_like(vector).at[i].set(STEP)
        columns.append((values(vector + move) - values(vector - move)) / (2 * STEP))
    return dict(zip(EVIDENCES, np.asarray(jnp.stack(columns, axis=1)), strict=True))


def _error(got, want):
    return np.max(np.abs(got - want)) / np.max(np.abs(want))


@pytest.mark.parametrize("evidence", EVIDENCES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("likelihood", [name for name in LIKELIHOODS if name != "gaussian"])
def test_implicit_is_exact_for_every_pair(likelihood, method, evidence):
    got, _ = _gradient(method, evidence, "implicit", likelihood)
    assert _error(got, _differences(method, likelihood)[evidence]) < 1e-4


MATCHED = [("laplace", "laplace"), ("vi", "elbo"), ("ep", "ep")]


@pytest.mark.parametrize("likelihood", ["probit", "poisson"])
@pytest.mark.parametrize(("method", "evidence"), MATCHED)
def test_one_step_is_exact_for_matched_pairs(likelihood, method, evidence):
    got, _ = _gradient(method, evidence, "one_step", likelihood)
    assert _error(got, _differences(method, likelihood)[evidence]) < 1e-4


@pytest.mark.parametrize(("method", "evidence", "exact"), [
    ("vi", "elbo", True), ("ep", "ep", True), ("laplace", "laplace", False), ("vi", "ep", False),
])  # fmt: skip
def test_fixed_is_exact_only_where_the_evidence_is_stationary_in_the_sites(method, evidence, exact):
    got, _ = _gradient(method, evidence, "fixed", "probit")
    error = _error(got, _differences(method, "probit")[evidence])
    assert (error < 1e-5) if exact else (error > 1e-3), error
