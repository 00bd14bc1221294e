"""Gradients of θ ↦ evidence(θ, λ*(θ)) against central differences of the nested objective."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import EVIDENCES, LIKELIHOODS, METHODS, problem
from sitewise import Data, Model, kernels, means
from sitewise.arrays.engine import is_host
from sitewise.inference.loop import iterate
from sitewise.inference.start import first_sites
from sitewise.learning.objective import Objective, profile
from sitewise.parameters import Trainable
from sitewise.process.precision import working_precision

ROWS = 14
STEP = 1e-4


@functools.cache
def _setup(likelihood):
    X, y = problem(likelihood, ROWS, seed=2)
    model = Model.full(kernels.Matern52([0.8, 1.1], 1.7), LIKELIHOODS[likelihood], means.Constant(0.1))
    data = Data.of(X, y).pad(16)
    trainable = Trainable.of(model, train=("likelihood.df",) if likelihood == "student-t" else ())
    return model, data, trainable, trainable.to_vector(model)


def _gradient(method, evidence, gradient, likelihood, arrays=np):
    """On the host engine for `arrays` of NumPy, on the traced one for those of JAX."""
    model, data, trainable, vector = _setup(likelihood)
    objective = Objective(METHODS[method], EVIDENCES[evidence], gradient, trainable)
    with working_precision():
        start = first_sites(model.likelihood, data)
        out = profile(objective, *jax.tree.map(arrays.asarray, (model, data, vector, start)))
    assert out.solution.code == 0
    assert is_host(out.gradient) == (arrays is np)
    return np.asarray(out.gradient)


@functools.cache
def _differences(method, likelihood):
    """Central differences of every evidence at once, solving to 1e-11 at each displaced θ."""
    model, data, trainable, vector = _setup(likelihood)
    sharp = dataclasses.replace(METHODS[method], tol=1e-11)
    start = sharp.solve(model, data).sites

    def values(vector):
        at = trainable.from_vector(model, vector)
        point, solution, *_ = iterate(sharp, at.likelihood, at.prior.gram(data.X), data, start)
        return np.array([e.on_marginals(at.likelihood, data, point.q, solution.sites) for e in EVIDENCES.values()])

    moves = STEP * np.eye(len(vector))
    with working_precision():
        columns = [(values(vector + move) - values(vector - move)) / (2 * STEP) for move in moves]
    return dict(zip(EVIDENCES, np.stack(columns, axis=1), strict=True))


def _error(got, want):
    return np.max(np.abs(got - want)) / np.max(np.abs(want))


@pytest.mark.parametrize("evidence", EVIDENCES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("likelihood", [name for name in LIKELIHOODS if name != "gaussian"])
def test_implicit_is_exact_for_every_pair(likelihood, method, evidence):
    got = _gradient(method, evidence, "implicit", likelihood)
    assert _error(got, _differences(method, likelihood)[evidence]) < 1e-4


MATCHED = [("laplace", "laplace"), ("vi", "elbo"), ("ep", "ep")]


@pytest.mark.parametrize("likelihood", ["probit", "poisson"])
@pytest.mark.parametrize(("method", "evidence"), MATCHED)
def test_one_step_is_exact_for_matched_pairs(likelihood, method, evidence):
    got = _gradient(method, evidence, "one_step", likelihood)
    assert _error(got, _differences(method, likelihood)[evidence]) < 1e-4


@pytest.mark.parametrize(("method", "evidence", "exact"), [
    ("vi", "elbo", True), ("ep", "ep", True), ("laplace", "laplace", False), ("vi", "ep", False),
])  # fmt: skip
def test_fixed_is_exact_only_where_the_evidence_is_stationary_in_the_sites(method, evidence, exact):
    got = _gradient(method, evidence, "fixed", "probit")
    error = _error(got, _differences(method, "probit")[evidence])
    assert (error < 1e-5) if exact else (error > 1e-3), error


TRACED = [
    ("implicit", "student-t", "vi", "ep"),
    ("implicit", "probit", "ep", "elbo"),
    ("implicit", "poisson", "laplace", "loo"),
    ("one_step", "poisson", "laplace", "laplace"),
    ("fixed", "probit", "vi", "elbo"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("gradient", "likelihood", "method", "evidence"), TRACED)
def test_all_three_are_as_exact_in_a_traced_program(gradient, likelihood, method, evidence):
    got = _gradient(method, evidence, gradient, likelihood, jnp)
    assert _error(got, _differences(method, likelihood)[evidence]) < (1e-5 if gradient == "fixed" else 1e-4)
