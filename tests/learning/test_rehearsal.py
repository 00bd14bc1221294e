"""A search on many rows starts from the optimum for some of them, and ends where it would have ended."""

import dataclasses

import numpy as np
import pytest

from sitewise import EP, VI, Data, Model, Nested, evidence, kernels, likelihoods, means
from sitewise.learning import rehearsal
from sitewise.types import replace

RNG = np.random.default_rng(3)
X = RNG.normal(size=(600, 2))
F = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=600)
Y = np.sign(F)
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

    assert rehearsal.stages_of(searched, 0) == []


def test_rows_that_end_at_a_bound_are_no_start(monkeypatch):
    """All labels drawn are equal: the evidence of those rows alone rises with the variance."""
    monkeypatch.setattr(rehearsal, "_ROWS", 100)
    weight = np.where(Y > 0, 1.0, 0.0)
    data = Data.of(X, Y, weight)
    learner = Nested(VI(), evidence.elbo, "auto", bounds={"kernel.variance": (0.1, 50.0)})
    search = rehearsal.Search(learner, MODEL, data, 600, None, None)
    start = search.starts(0, 0)[0]
    stages = rehearsal.stages_of(search, 0)
    assert stages and rehearsal.rehearsed(search, stages, start) is start


def test_the_hessian_by_differences_is_that_of_the_objective(plain):
    search = rehearsal.Search(LEARNER, plain.model, DATA, 600, None, None)
    best = search.drive(search.starts(0, 0)[0], max_rounds=1)
    found = rehearsal._inverse_hessian(search, best.vector, best.solution.sites)
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
    assert rehearsal._inverse_hessian(search, best.vector, best.solution.sites) is None


def test_the_cap_on_rounds_is_one_for_both_ascents():
    for rounds in (1, 4, 17):
        fit = dataclasses.replace(LEARNER, least_gain=1e-6, max_rounds=rounds).fit(MODEL, DATA)
        assert fit.rounds <= rounds


def test_a_number_that_is_no_logarithm_has_a_unit_of_its_own():
    """A mean of thousands: a floor of half a nat for each unit, squared, would call any distance nothing to gain."""
    y = 5000.0 + 1000.0 * np.asarray(F)
    model = Model.sparse(
        kernels.Matern52(1.0, 1e4), likelihoods.Gaussian(1e3), X[:12], mean=means.Constant(4000.0)
    )  # fmt: skip
    learner = Nested(EP(), evidence.ep, "auto", least_gain=0.1, fixed=("kernel.*", "likelihood.*"), max_rounds=3)
    search = rehearsal.Search(learner, model, Data.of(X, y), 600, None, None)
    best = search.drive(search.starts(0, 0)[0])
    unit = np.sqrt(rehearsal._inverse_hessian(search, best.vector, best.solution.sites)[0, 0] / 600)
    assert unit == pytest.approx(best_error(model, y), rel=0.05) and unit > 10


def best_error(model, y):
    """The standard error of the mean, by its evidence at three values."""
    values = [
        float(evidence.ep(model_at, data, EP().solve(model_at, data).sites))
        for at in (-500.0, 0.0, 500.0)
        for model_at, data in [
            (replace(model, prior=replace(model.prior, mean=means.Constant(5000.0 + at))), Data.of(X, y))
        ]
    ]
    return 500.0 / np.sqrt(2 * values[1] - values[0] - values[2])
