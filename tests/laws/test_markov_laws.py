"""A time series by a Markov chain gives the numbers of the full GP: sites, evidences, gradients, predictions."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from cases import EVIDENCES, LIKELIHOODS, METHODS, observations
from sitewise import EP, VI, Data, Model, kernels, means, posterior, value_and_grad
from sitewise.arrays.engine import to_host
from sitewise.evidence import power_ep
from sitewise.inference.start import first_sites
from sitewise.learning.objective import Objective, profile
from sitewise.parameters import Trainable, values
from sitewise.process.precision import working_precision

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


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.3, 0.7])
@pytest.mark.parametrize("likelihood", ["logit", "student-t"])
def test_ep_of_other_powers(likelihood, power):
    """Sites of EP with this power, and its own evidence with the exact gradient."""
    total, data = value_and_grad(EP(power=power, tol=1e-11), power_ep(power), has_aux=True), series(likelihood)
    ((one, sites), slopes), ((two, others), wanted) = (total(model, data) for model in models(likelihood))
    assert sites.outcome.ok and others.outcome.ok and two == pytest.approx(one, rel=1e-10)
    for a, b in zip(sites.sites, others.sites, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-8)
    dense, markov = (values(s) for s in (slopes, wanted))
    largest = max(np.max(np.abs(v)) for v in dense.values())
    for name, slope in dense.items():
        np.testing.assert_allclose(markov[name], slope, rtol=1e-8, atol=1e-8 * largest)


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


def test_series_that_share_parameters_are_independent():
    """One model of three series of different lengths: the sums of their evidences and gradients; each its own f."""
    rng = np.random.default_rng(6)
    name = rng.permutation(np.repeat([3.0, -1.0, 8.0], [14, 5, 9]))
    time = rng.uniform(0, 4, len(name))
    X, y = np.stack([time, name], axis=1), observations("poisson", np.sin(2 * time), rng)
    total, each = value_and_grad(VI(tol=1e-11), EVIDENCES["ep"]), LIKELIHOODS["poisson"]
    value, slopes = total(Model.markov(KERNEL, each, means.Constant(0.2), series=1), Data.of(X, y))
    parts = [Data.of(time[name == one][:, None], y[name == one]) for one in np.unique(name)]
    alone = [total(Model.markov(KERNEL, each, means.Constant(0.2)), part) for part in parts]
    assert value == pytest.approx(sum(v for v, _ in alone), rel=1e-10)
    for found, *wanted in zip(*map(jax.tree.leaves, (slopes, *(s for _, s in alone))), strict=True):
        np.testing.assert_allclose(found, sum(wanted), rtol=1e-8)
    model = Model.markov(KERNEL, each, means.Constant(0.2), series=1)
    sites = VI().solve(model, Data.of(X, y)).sites
    new = np.array([[2.0, 8.0], [2.0, 5.0], [9.0, -1.0], [2.0, -1.0]])  # the second of a series without rows
    q = posterior(model, Data.of(X, y), sites)
    mean, cov = q.f_joint(new)
    np.testing.assert_allclose(q.f(new), (mean, np.diag(cov)), rtol=1e-10)
    assert mean[1] == 0.2 and cov[1, 1] == pytest.approx(1.7) and not np.any(cov[:2, 2:]) and cov[2, 3] != 0
