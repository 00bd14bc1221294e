"""The fast variant of Algorithm 1 follows the path of `VEM`, independently of the other parts."""

import dataclasses

import numpy as np
import pytest

from cases import problem
from sitewise import VEM, Data, Model, evidence, kernels, likelihoods
from sitewise.learning.vem import CAP, FELL, NOT_FINITE, SETTLED
from sitewise_icml2023 import fast_vem


def binary(rows, seed):
    X, y = problem("probit", rows, seed=seed)
    return Model.full(kernels.Matern52(), likelihoods.BernoulliProbit(), jitter=1e-6), Data.of(X, y)


def path(fit):
    return np.array(
        [[e["learning"], e["elbo"], np.ravel(e["kernel.lengthscale"])[0], e["kernel.variance"]] for e in fit.trace]
    )


@pytest.mark.slow
def test_the_path_is_that_of_the_algorithm_as_written(monkeypatch):
    model, data = binary(30, 5)
    learner = VEM(max_rounds=60)
    turns = []
    counted = fast_vem._turns
    monkeypatch.setattr(fast_vem, "_turns", lambda *given: turns.append(1) or counted(*given))
    (short,), written = fast_vem.fit_many(learner, model, [data]), learner.fit(model, data)
    assert short.reason == written.reason == CAP
    np.testing.assert_allclose(path(short), path(written), rtol=1e-4)
    np.testing.assert_allclose(short.sites.prec, written.sites.prec, rtol=1e-4)
    assert short.objective == pytest.approx(written.objective, abs=1e-4)
    assert len(turns) < 20 * 60  # 41 as written; the first rounds, with their long ways, are walked in short pieces


def test_a_walk_that_is_not_corrected_misses_the_path(monkeypatch):
    """That the correction is needed: with a tolerance that lets every first walk pass, the path is another one."""
    model, data = binary(30, 5)
    learner = VEM(max_rounds=8)
    monkeypatch.setattr(fast_vem, "MAX_END_SHIFT", 1e9)
    monkeypatch.setattr(fast_vem, "NEGLIGIBLE_END_SHIFT", 1e9)
    (loose,), written = (
        fast_vem.fit_many(dataclasses.replace(learner, name="loose"), model, [data]),
        learner.fit(model, data),
    )
    assert np.max(np.abs(path(loose) / path(written) - 1)) > 1e-4


@pytest.mark.slow
def test_parts_do_not_depend_on_those_beside_them():
    """Three parts of different sizes in two places: each ends as it does alone, also the one that comes later."""
    learner = VEM(max_rounds=12)
    both = [binary(rows, seed) for rows, seed in ((24, 1), (30, 2), (17, 3))]
    together = fast_vem.fit_many(learner, [m for m, _ in both], [d for _, d in both], at_once=2)
    for (model, data), fit in zip(both, together, strict=True):
        (alone,) = fast_vem.fit_many(learner, model, [data])
        assert fit.sites.prec.shape == (data.rows,)
        np.testing.assert_allclose(path(fit), path(alone), rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "reason"), [({"learning_rate": 0.3}, SETTLED), ({"evidence": evidence.laplace}, FELL)]
)
def test_it_stops_where_the_algorithm_stops(settings, reason):
    model, data = binary(30, 5)
    learner = VEM(max_rounds=300, **settings)
    (short,), written = fast_vem.fit_many(learner, model, [data]), learner.fit(model, data)
    assert short.reason == written.reason == reason and abs(short.rounds - written.rounds) <= 1
    assert short.parameters["kernel.variance"] == pytest.approx(written.parameters["kernel.variance"], rel=1e-3)


@pytest.mark.slow
def test_student_t_with_the_published_settings():
    X, y = problem("student_t", 40, seed=2)
    model, data = Model.full(kernels.Matern52(), likelihoods.StudentT(), jitter=1e-6), Data.of(X, y)
    learner = VEM.published_student_t(15)
    (short,), written = fast_vem.fit_many(learner, model, [data]), learner.fit(model, data)
    for name, value in written.parameters.items():
        np.testing.assert_allclose(short.parameters[name], value, rtol=1e-5)
    assert short.objective == pytest.approx(written.objective, abs=1e-3)


def test_a_round_that_is_not_finite_ends_the_run():
    data = binary(30, 5)[1]
    model = Model.full(kernels.Matern52(variance=1e4), likelihoods.Poisson())
    counts = Data.of(data.X, np.arange(data.rows, dtype=float))
    (fit,) = fast_vem.fit_many(VEM(max_rounds=3), model, [counts])
    assert fit.reason == VEM(max_rounds=3).fit(model, counts).reason == NOT_FINITE
    assert not fit.converged and np.isfinite(fit.objective)


def test_other_priors_are_refused():
    data = binary(30, 5)[1]
    sparse = Model.sparse(kernels.Matern52(), likelihoods.BernoulliProbit(), np.asarray(data.X)[:5])
    with pytest.raises(ValueError, match=r"use many_fits\.fit_many"):
        fast_vem.fit_many(VEM(), sparse, [data])


def test_no_parts_no_fits():
    assert fast_vem.fit_many(VEM(), [], []) == []
