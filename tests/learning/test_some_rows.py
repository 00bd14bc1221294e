"""Hyperparameters of some rows, sites of all."""

import numpy as np
import pytest

from sitewise import EP, Data, Model, kernels, likelihoods, resolve
from sitewise.hyperpriors import LogNormal
from sitewise.learning.integration import integrate
from sitewise.learning.some_rows import some_of, with_all_rows

RNG = np.random.default_rng(3)
X = RNG.normal(size=(300, 2))
DATA = Data.of(X, np.where(np.sin(2 * X[:, 0]) + 0.5 * RNG.normal(size=300) > 0, 1.0, -1.0))


@pytest.fixture(scope="module")
def fits():
    learner = resolve("hybrid")
    some = some_of(DATA, 100)
    first = learner.fit(Model.sparse(kernels.Matern52(), likelihoods.BernoulliProbit(), X[:15]), some)
    return first, with_all_rows(learner, first, DATA)


def test_rows_are_drawn_without_repeats_and_always_the_same():
    some = some_of(DATA, 100)
    assert some.rows == 100 and len(np.unique(some.X, axis=0)) == 100
    np.testing.assert_array_equal(some.X, some_of(DATA, 100).X)
    assert some_of(DATA, 300) is DATA


def test_sites_are_those_of_all_rows_at_what_some_have_taught(fits):
    first, fit = fits
    assert fit.parameters == first.parameters and fit.converged
    assert fit.sites.prec.shape == (300,) and "100 of the 300 rows" in fit.report()
    alone = EP(tol=1e-6).solve(fit.model, DATA)
    np.testing.assert_allclose(fit.sites.nat1, alone.sites.nat1, atol=1e-5)
    assert fit.objective == pytest.approx(fit.evidences["ep"], abs=1e-6)


def test_a_rare_class_is_not_lost():
    y = np.where(np.arange(50_000) < 4, 1.0, -1.0)
    some = some_of(Data.of(np.arange(50_000.0)[:, None], y), 1_000)
    assert np.sum(some.y == 1) == 4 and 1_000 <= some.rows <= 1_004


def test_the_integral_is_not_around_the_optimum_of_some_rows(fits):
    with pytest.raises(ValueError, match="100 of the 300 rows taught"):
        integrate(fits[1])


def test_the_objective_has_the_prior_of_the_hyperparameters():
    learner = resolve("hybrid", priors={"kernel.variance": LogNormal(0.0, 0.5)})
    some = some_of(DATA, 100)
    first = learner.fit(Model.sparse(kernels.Matern52(), likelihoods.BernoulliProbit(), X[:15]), some)
    fit = with_all_rows(learner, first, DATA)
    prior = first.objective - first.evidences["ep"]
    assert abs(prior) > 0.1 and fit.objective == pytest.approx(fit.evidences["ep"] + prior, abs=1e-6)


def test_standard_errors_are_those_of_the_rows_that_taught(fits):
    first, fit = fits
    for name, error in first.curvature.standard_errors.items():
        assert fit.curvature.standard_errors[name] == pytest.approx(error, rel=1e-3)
