"""A search on many rows starts from the optimum for some of them, and ends where it would have ended."""

import dataclasses

import numpy as np
import pytest

from sitewise import EP, VI, Data, Laplace, Model, Nested, evidence, kernels, likelihoods, means
from sitewise.learning import hessian, schedule
from sitewise.learning import stages as run_stages
from sitewise.learning.checkpoint import Start
from sitewise.learning.problem import Problem
from sitewise.learning.schedule import Stage, schedule_of
from sitewise.learning.search import Trace, search
from sitewise.types import replace

RNG = np.random.default_rng(3)
X = RNG.normal(size=(600, 2))
F = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=600)
Y = np.sign(F)
DATA = Data.of(X, Y)
MODEL = Model.sparse(kernels.Matern52(5.0), likelihoods.BernoulliProbit(), X[:12])
LEARNER = Nested(EP(), evidence.ep, "auto", tol=1e-7)

pytestmark = pytest.mark.usefixtures("double")


@pytest.fixture(scope="module")
def plain():
    return LEARNER.fit(MODEL, DATA)  # too few rows for a coarse stage


def stages(learner, model, data=DATA, rows=None, staged=True):
    problem = Problem.of(learner, model, data)
    return schedule_of(problem, rows or data.rows, staged=staged).stages


def test_the_optimum_is_the_same_after_fewer_evaluations(monkeypatch, plain):
    monkeypatch.setattr(schedule, "MIN_COARSE_ROWS", 150)
    fit = LEARNER.fit(MODEL, DATA)
    assert fit.converged and len(fit.trace) < len(plain.trace) - 3
    np.testing.assert_allclose(fit.objective, plain.objective, atol=1e-7)
    for name in ("kernel.lengthscale", "kernel.variance"):
        np.testing.assert_allclose(fit.parameters[name], plain.parameters[name], rtol=1e-4)


def test_the_stages_follow_from_prior_rows_and_settings(monkeypatch):
    monkeypatch.setattr(schedule, "MIN_COARSE_ROWS", 60)
    coarse = [stage.rows for stage in stages(LEARNER, MODEL) if stage.coarse]
    assert coarse == [60, 180]  # three times 180 is not more than 600 rows
    # Without a least gain one accurate search follows; with one, a search with approximate sites goes before.
    assert stages(LEARNER, MODEL)[2:] == (Stage(),)
    quick = dataclasses.replace(LEARNER, least_gain=0.05)
    assert [s.sites_tol for s in stages(quick, MODEL)[2:]] == [1e-3, None]
    assert stages(quick, MODEL)[-1].continues and stages(quick, MODEL)[-2].hessian
    # Neither given sites nor an accelerator has a coarse stage.
    assert stages(quick, MODEL, staged=False) == (Stage(least_gain=0.05),)
    # Random starts come last, and then the sites of all rows where some were used for learning.
    more = stages(dataclasses.replace(LEARNER, restarts=2), MODEL, rows=900)
    assert [s.restart for s in more[-3:]] == [1, 2, None] and more[-1].max_rounds == 0 and more[-4].rows == 600


def test_coarse_stages_of_a_full_prior_have_a_third_of_the_rows_each(monkeypatch):
    full, quick = Model.full(kernels.Matern52(), MODEL.likelihood), dataclasses.replace(LEARNER, least_gain=0.05)
    assert [s.rows for s in stages(quick, full)] == [200, None, None]  # of 600 rows
    approximate = Stage(least_gain=0.05, sites_tol=schedule.STAGE_SITES_TOL)
    assert stages(quick, full)[-2:] == (approximate, Stage(least_gain=0.05, continues=True))
    monkeypatch.setattr(schedule, "MIN_COARSE_FULL_ROWS", 60)
    assert [s.rows for s in stages(quick, full)] == [66, 200, None, None]
    wide = Model.full(kernels.Matern52(np.ones(30)), MODEL.likelihood)  # 31 numbers need 155 rows
    data = Data.of(np.random.default_rng(1).normal(size=(600, 30)), Y)
    assert [s.rows for s in stages(quick, wide, data)] == [200, None, None]
    # A search without a coarse stage is cheap, and has a smaller gain to stop at.
    few, least = Data.of(X[:179], Y[:179]), schedule.SINGLE_STAGE_LEAST_GAIN
    assert [s.least_gain for s in stages(quick, full, few)] == [least, least]
    assert stages(LEARNER, full, few) == (Stage(),)
    dozen = stages(quick, full, Data.of(X[:12], Y[:12]))
    assert [s.least_gain for s in dozen] == [12 * schedule.LEAST_GAIN_PER_ROW] * 2
    markov = Model.markov(kernels.Matern32(), MODEL.likelihood)
    assert stages(quick, markov, Data.of(X[:, :1], Y)) == (Stage(least_gain=schedule.SINGLE_STAGE_LEAST_GAIN),)


def test_only_searches_that_stop_by_gain_and_pay_for_variances_have_approximate_sites():
    quick, few = {"least_gain": 0.05}, Data.of(X[:50], Y[:50])
    full = Model.full(kernels.Matern52(), MODEL.likelihood)
    assert [s.sites_tol for s in stages(Nested(VI(), evidence.ep, **quick), full, few)] == [1e-3, None]
    assert len(stages(Nested(VI(), evidence.ep), full, few)) == 1
    assert len(stages(Nested(VI(), evidence.ep, fixed=("*",), **quick), full, few)) == 1
    assert len(stages(Nested(Laplace(), evidence.laplace, **quick), full, few)) == 1
    assert len(stages(Nested(VI(), evidence.ep, **quick), replace(full, likelihood=likelihoods.Gaussian()), few)) == 1


def test_the_optimum_of_a_full_prior_is_the_same_after_fewer_evaluations(monkeypatch):
    full = Model.full(kernels.Matern52(np.array([0.5, 0.5])), MODEL.likelihood)
    learner = Nested(VI(), evidence.ep)
    staged = learner.fit(full, DATA)
    monkeypatch.setattr(schedule, "MIN_COARSE_FULL_ROWS", 10**6)
    direct = learner.fit(full, DATA)
    assert staged.converged and len(staged.trace) < 0.7 * len(direct.trace)
    np.testing.assert_allclose(staged.objective, direct.objective, atol=1e-6)
    np.testing.assert_allclose(
        staged.parameters["kernel.lengthscale"], direct.parameters["kernel.lengthscale"], rtol=1e-3
    )
    # With a least gain the search ends earlier, within the gain that it states: 0.02 nats for each of three numbers.
    monkeypatch.undo()
    quick = dataclasses.replace(learner, least_gain=0.02).fit(full, DATA)
    assert len(quick.trace) <= len(staged.trace) and -0.06 <= quick.objective - direct.objective <= 1e-6


def test_coarse_stages_have_fewer_inducing_inputs_unless_they_are_trained(monkeypatch):
    monkeypatch.setattr(schedule, "MIN_COARSE_ROWS", 60)
    monkeypatch.setattr(schedule, "MIN_COARSE_INPUTS", 5)
    assert [s.inputs for s in stages(LEARNER, MODEL)] == [5, 5, None]
    trained = dataclasses.replace(LEARNER, train=("inducing",))
    assert [s.inputs for s in stages(trained, MODEL)] == [None, None, None]
    fit = LEARNER.fit(MODEL, DATA)
    assert fit.stages[0].stage.inputs == 5 and np.shape(fit.model.prior.inducing) == (12, 2)


def test_the_report_lists_the_stages(monkeypatch, plain):
    monkeypatch.setattr(schedule, "MIN_COARSE_ROWS", 150)
    text = dataclasses.replace(LEARNER, least_gain=0.01).fit(MODEL, DATA).report()
    assert "Stages of the fit:\n  1. 150 rows, sites to 1e-03, least gain 0.02 nats per hyperparameter" in text
    assert "3. all rows, accurate sites" in text and "nats per row after" in text
    assert "Stages" not in plain.report()


def test_rows_that_end_at_a_bound_are_no_start(monkeypatch):
    """All labels drawn are equal: the evidence of those rows alone rises with the variance."""
    monkeypatch.setattr(schedule, "MIN_COARSE_ROWS", 100)
    data = Data.of(X, Y, np.where(Y > 0, 1.0, 0.0))
    learner = Nested(VI(), evidence.elbo, "auto", bounds={"kernel.variance": (0.1, 50.0)})
    problem = Problem.of(learner, MODEL, data)
    [stage] = [s for s in stages(learner, MODEL, data) if s.coarse]
    found = run_stages._coarse(problem, lambda _: MODEL, stage, Start(problem.start), 0, Trace(), [], data)
    assert found.vector is problem.start and found.inverse is None and found.sites is None


def test_the_hessian_by_differences_is_that_of_the_objective(plain):
    problem = Problem.of(LEARNER, plain.model, DATA)
    best = search(problem, Start(problem.start), Trace(), max_rounds=1)
    found = hessian.inverse_per_row(problem, best.vector, best.solution.sites)
    np.testing.assert_allclose(found / 600, plain.curvature.covariance, rtol=0.1)


def test_differences_of_a_quadratic_give_its_hessian():
    A = np.array([[3.0, 1.0], [1.0, 2.0]])
    for central in (True, False):
        found = hessian.by_differences(lambda v: A @ v, np.ones(2), np.array([0.1, -0.2]), np.arange(2), central)
        np.testing.assert_allclose(found, A, rtol=1e-12)
    partial = hessian.by_differences(lambda v: A @ v, np.ones(2), np.full(2, 0.1), np.array([1]))
    np.testing.assert_allclose(partial, [[np.nan, np.nan], [1.0, 2.0]])


def test_a_search_with_a_hessian_needs_fewer_evaluations():
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
    problem = Problem.of(LEARNER, plain.model, DATA)
    best = search(problem, Start(problem.start), Trace(), max_rounds=1)
    broken = problem.evaluate(best.vector, best.solution.sites)._replace(gradient=np.full(2, np.nan))
    monkeypatch.setattr(Problem, "evaluate", lambda *_: broken)
    assert hessian.inverse_per_row(problem, best.vector, best.solution.sites) is None


def test_the_cap_on_rounds_is_one_for_all_searches_of_the_rows():
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
    problem = Problem.of(learner, model, Data.of(X, y))
    best = search(problem, Start(problem.start), Trace())
    unit = np.sqrt(hessian.inverse_per_row(problem, best.vector, best.solution.sites)[0, 0] / 600)
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


def test_moved_inducing_inputs_have_a_higher_evidence(monkeypatch, plain):
    moved = dataclasses.replace(LEARNER, move_inputs=True).fit(MODEL, DATA)
    assert moved.converged and moved.objective > plain.objective + 1
    assert [end.stage.move_inputs for end in moved.stages] == [False, True, False]
    # Per row of each stage: the second one has all rows here, and ends where the third begins.
    assert plain.objective < 600 * moved.stages[1].objective <= moved.objective + 1e-6
    monkeypatch.setattr(schedule, "MIN_COARSE_ROWS", 20)
    fewer = dataclasses.replace(LEARNER, move_inputs=True).fit(MODEL, DATA).stages
    [some] = [end for end in fewer if end.stage.move_inputs]
    assert some.stage.rows == 540 and abs(some.objective - fewer[-1].objective) < 0.02
    with pytest.raises(ValueError, match="has no inducing inputs to move"):
        dataclasses.replace(LEARNER, move_inputs=True).fit(Model.full(kernels.Matern52(), MODEL.likelihood), DATA)


def test_nothing_is_factorised_after_the_hyperparameters_are_final(monkeypatch):
    """The posterior of a fit is made of the factor of its last evaluation."""
    for model in (MODEL, Model.full(kernels.Matern52(), MODEL.likelihood)):
        fit = LEARNER.fit(model, DATA)
        again = fit.model.prior.posterior(np.asarray(DATA.X), fit.sites.scaled(np.asarray(DATA.weight)))

        def refuse(*_, **__):
            raise AssertionError("factorised again")

        with monkeypatch.context() as patch:
            patch.setattr(type(fit.model.prior), "posterior", refuse)
            found = fit.posterior().f(X[:9])
        np.testing.assert_allclose(found, again.marginals(X[:9]), rtol=1e-8)
