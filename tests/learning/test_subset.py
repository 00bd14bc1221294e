"""Hyperparameters learned from a subset, sites of all rows."""

import dataclasses

import numpy as np
import pytest

from sitewise import EP, Data, Model, kernels, likelihoods, resolve
from sitewise.hyperpriors import LogNormal
from sitewise.learning.integration import integrate
from sitewise.learning.subset import sampled

RNG = np.random.default_rng(3)
X = RNG.normal(size=(300, 2))
DATA = Data.of(X, np.where(np.sin(2 * X[:, 0]) + 0.5 * RNG.normal(size=300) > 0, 1.0, -1.0))
MODEL = Model.sparse(kernels.Matern52(), likelihoods.BernoulliProbit(), X[:15])


@pytest.fixture(scope="module")
def fits():
    learner = resolve("hybrid")
    return learner.fit(MODEL, sampled(DATA, 100, 0)), dataclasses.replace(learner, learning_rows=100).fit(MODEL, DATA)


def test_rows_are_drawn_without_repeats_and_always_the_same():
    some = sampled(DATA, 100, 0)
    assert some.rows == 100 and len(np.unique(some.X, axis=0)) == 100
    np.testing.assert_array_equal(some.X, sampled(DATA, 100, 0).X)
    assert sampled(DATA, 300, 0) is DATA


def test_merged_rows_are_drawn_one_by_one():
    """Of places with nine equal rows of one class and one of the other, a sample has rows of both in these shares."""
    places = np.repeat(np.arange(400.0), 2)[:, None]
    data = Data.of(places, np.tile([1.0, -1.0], 400), np.tile([9.0, 1.0], 400))
    some = sampled(data, 300, 0)
    weight, y = np.asarray(some.weight), np.asarray(some.y)
    assert some.rows <= 300 + 2 and not some.fractional
    share = np.sum(weight[y > 0]) / np.sum(weight)
    assert abs(share - 0.9) < 0.05
    assert 1 < np.mean(weight[y > 0]) < 3  # most of the nine rows of a place were not drawn
    assert np.sum(sampled(data, 200, 0).weight) < np.sum(weight)


def test_samples_of_one_seed_contain_each_other():
    small, large = ({tuple(row) for row in sampled(DATA, rows, 7).X} for rows in (50, 150))
    assert small < large and small != {tuple(row) for row in sampled(DATA, 50, 8).X}


def test_sites_are_those_of_all_rows_at_the_hyperparameters_of_the_subset(fits):
    first, fit = fits
    assert fit.parameters == first.parameters and fit.converged
    assert fit.sites.prec.shape == (300,) and "100 of the 300 rows" in fit.report()
    alone = EP(tol=1e-6).solve(fit.model, DATA)
    np.testing.assert_allclose(fit.sites.nat1, alone.sites.nat1, atol=1e-5)
    assert fit.objective == pytest.approx(fit.evidences["ep"], abs=1e-6)


def test_a_rare_class_is_not_lost():
    y = np.where(np.arange(50_000) < 4, 1.0, -1.0)
    some = sampled(Data.of(np.arange(50_000.0)[:, None], y), 1_000, 0)
    assert np.sum(some.y == 1) == 4 and 1_000 <= some.rows <= 1_004


def test_the_integral_is_not_around_the_optimum_of_a_subset(fits):
    with pytest.raises(ValueError, match="learned from 100 of the 300 rows"):
        integrate(fits[1])


def test_the_objective_has_the_prior_of_the_hyperparameters():
    learner = resolve("hybrid", priors={"kernel.variance": LogNormal(0.0, 0.5)})
    first = learner.fit(MODEL, sampled(DATA, 100, 0))
    fit = dataclasses.replace(learner, learning_rows=100).fit(MODEL, DATA)
    prior = first.objective - first.evidences["ep"]
    assert abs(prior) > 0.1 and fit.objective == pytest.approx(fit.evidences["ep"] + prior, abs=1e-6)


def test_standard_errors_are_those_of_the_subset(fits):
    first, fit = fits
    for name, error in first.curvature.standard_errors.items():
        assert fit.curvature.standard_errors[name] == pytest.approx(error, rel=1e-3)
