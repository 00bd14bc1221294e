"""A search on many rows starts from the optimum for some of them, and ends where it would have ended."""

import dataclasses

import numpy as np
import pytest

from sitewise import EP, VI, Data, Model, Nested, evidence, kernels, likelihoods
from sitewise.learning import rehearsal
from sitewise.learning.checkpoint import Start

RNG = np.random.default_rng(3)
X = RNG.normal(size=(600, 2))
Y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=600))
DATA = Data.of(X, Y)
MODEL = Model.sparse(kernels.Matern52(5.0), likelihoods.BernoulliProbit(), X[:12])
LEARNER = Nested(EP(), evidence.ep, "auto", tol=1e-7)


@pytest.fixture(scope="module")
def plain():
    return LEARNER.fit(MODEL, DATA)  # too few rows for a rehearsal


def test_the_optimum_is_the_same_after_fewer_evaluations(monkeypatch, plain):
    monkeypatch.setattr(rehearsal, "_ROWS", 150)
    fit = LEARNER.fit(MODEL, DATA)
    assert fit.converged and len(fit.trace) < len(plain.trace) - 3
    np.testing.assert_allclose(fit.objective, plain.objective, atol=1e-7)
    for name in ("kernel.lengthscale", "kernel.variance"):
        np.testing.assert_allclose(fit.parameters[name], plain.parameters[name], rtol=1e-4)


def test_no_rehearsal_of_a_full_prior_or_from_known_sites(monkeypatch, plain):
    def refuse(*_, **__):
        raise AssertionError("a rehearsal")

    monkeypatch.setattr(rehearsal.Search, "drive", refuse)
    monkeypatch.setattr(rehearsal, "_ROWS", 10)
    with pytest.raises(AssertionError, match="a rehearsal"):
        LEARNER.fit(MODEL, DATA)
    searched = rehearsal.Search(LEARNER, Model.full(kernels.Matern52(), MODEL.likelihood), DATA, 600, None, None)
    start = Start(np.zeros(2))
    assert rehearsal.rehearsed(searched, start, 0) is start


def test_rows_that_end_at_a_bound_are_no_start(monkeypatch):
    """All labels drawn are equal: the evidence of those rows alone rises with the variance."""
    monkeypatch.setattr(rehearsal, "_ROWS", 100)
    weight = np.where(Y > 0, 1.0, 0.0)
    data = Data.of(X, Y, weight)
    learner = Nested(VI(), evidence.elbo, "auto", bounds={"kernel.variance": (0.1, 50.0)})
    search = rehearsal.Search(learner, MODEL, data, 600, None, None)
    start = search.starts(0, 0)[0]
    vector, inverse, sites = rehearsal.rehearsed(search, start, 0)
    assert vector is start.vector and inverse is None and sites is None


def test_the_hessian_by_differences_is_that_of_the_objective(plain):
    search = rehearsal.Search(LEARNER, plain.model, DATA, 600, None, None)
    best = search.drive(search.starts(0, 0)[0], max_rounds=1)
    found = rehearsal._inverse_hessian(search, best)
    np.testing.assert_allclose(found / 600, plain.curvature.covariance, rtol=0.1)


def test_a_search_with_a_hessian_needs_fewer_evaluations(monkeypatch):
    """Eight columns of which six do not matter: an ascent would learn that column by column."""
    table = RNG.normal(size=(600, 8))
    labels = np.sign(np.sin(2 * table[:, 0]) + table[:, 1] + 0.3 * RNG.normal(size=600))
    model = Model.sparse(kernels.Matern52(np.full(8, 3.0)), likelihoods.BernoulliProbit(), table[:20])
    learner = Nested(EP(), evidence.ep, "auto", bounds={"*": (1e-2, 1e3)}, tol=1e-5)
    data = Data.of(table, labels)
    exact = learner.fit(model, data)
    quick = dataclasses.replace(learner, least_gain=0.1).fit(model, data)
    assert quick.converged and exact.objective - quick.objective < 9 * 0.1
    assert quick.solution.stats.residual < 1e-8  # sites are as accurate as without
    assert len(quick.trace) < len(exact.trace)


def test_differences_that_are_no_numbers_give_no_hessian(monkeypatch, plain):
    search = rehearsal.Search(LEARNER, plain.model, DATA, 600, None, None)
    best = search.drive(search.starts(0, 0)[0], max_rounds=1)
    broken = search.evaluate(best.vector, best.solution.sites)._replace(gradient=np.full(2, np.nan))
    monkeypatch.setattr(search, "evaluate", lambda *_: broken)
    assert rehearsal._inverse_hessian(search, best) is None
