"""A time series by a Markov chain gives the numbers of the full GP: sites, evidences, gradients, predictions."""

import dataclasses
import functools

import numpy as np
import pytest

from cases import EVIDENCES, LIKELIHOODS, METHODS, observations
from sitewise import Data, Model, kernels, means, posterior
from sitewise.inference.start import first_sites
from sitewise.learning.objective import Objective, profile
from sitewise.parameters import Trainable
from sitewise.runtime.engine import to_host
from sitewise.runtime.precision import working_precision

ROWS = 45
KERNEL = kernels.Matern32(0.9, 1.4) + kernels.Constant(0.3)


@functools.cache
def series(likelihood):
    """Irregular times out of order, some of them equal, a gap, weights, and two rows of padding."""
    rng = np.random.default_rng(4)
    time = np.concatenate([rng.uniform(0, 6, ROWS - 15), rng.uniform(20, 23, 10)])
    time = rng.permutation(np.concatenate([time, time[:5]]))
    y = observations(likelihood, np.sin(2 * time), rng)
    return Data.of(time[:, None], y, weight=rng.integers(1, 3, ROWS).astype(float)).pad(ROWS + 2)


def models(likelihood):
    return [make(KERNEL, LIKELIHOODS[likelihood], means.Constant(0.2)) for make in (Model.full, Model.markov)]


@functools.cache
def evaluations(likelihood, method, evidence, gradient):
    """The value, the gradient and the solution at one θ, by both priors."""
    data, sharp = to_host(series(likelihood)), dataclasses.replace(METHODS[method], tol=1e-11)
    found = []
    for model in models(likelihood):
        trainable = Trainable.of(model)
        objective = Objective(sharp, EVIDENCES[evidence], gradient, trainable)
        with working_precision():
            start = first_sites(model.likelihood, data)
            found.append(profile(objective, to_host(model), data, trainable.to_vector(model), start))
    return found


@pytest.mark.parametrize("evidence", EVIDENCES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_every_evidence_and_its_gradient(likelihood, method, evidence):
    dense, markov = evaluations(likelihood, method, evidence, "implicit")
    assert dense.solution.code == markov.solution.code == 0
    for one, other in zip(dense.solution.sites, markov.solution.sites, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-8)
    assert markov.value == pytest.approx(dense.value, rel=1e-10)
    np.testing.assert_allclose(markov.gradient, dense.gradient, rtol=1e-8, atol=1e-8 * np.abs(dense.gradient).max())


@pytest.mark.parametrize("gradient", ["fixed", "one_step"])
@pytest.mark.parametrize("method", METHODS)
def test_the_other_gradients(method, gradient):
    dense, markov = evaluations("student-t", method, "ep", gradient)
    np.testing.assert_allclose(markov.gradient, dense.gradient, rtol=1e-8, atol=1e-8 * np.abs(dense.gradient).max())


@pytest.mark.parametrize(
    "likelihood", ["probit", "student-t"]
)  # Laplace's sites of the second have negative precisions
def test_predictions_between_and_beyond_the_rows(likelihood):
    data = series(likelihood)
    sites = METHODS["laplace"].solve(models(likelihood)[0], data).sites
    assert likelihood == "probit" or np.min(sites.prec) < 0
    new = np.array([30.0, -4.0, 10.0, 3.3, 3.3, 21.0, float(data.X[0, 0])])[:, None]
    dense, markov = (posterior(model, data, sites) for model in models(likelihood))
    for one, other in zip((*dense.f(new), *dense.f_joint(new)), (*markov.f(new), *markov.f_joint(new)), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11)
