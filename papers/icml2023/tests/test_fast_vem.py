"""The fast variant of Algorithm 1 follows the path of `VEM`, independently of the other parts."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import problem
from sitewise import VEM, Data, Model, evidence, kernels, likelihoods
from sitewise.learning.vem import CAP, FELL, NOT_FINITE, SETTLED
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise_icml2023 import batch_algebra, fast_vem, vem_batches


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
    launches = []
    counted = vem_batches.turns
    monkeypatch.setattr(vem_batches, "turns", lambda *given: launches.append(1) or counted(*given))
    (short,), written = vem_batches.fit_many(learner, model, [data]), learner.fit(model, data)
    assert short.reason == written.reason == CAP
    np.testing.assert_allclose(path(short), path(written), rtol=1e-4)
    np.testing.assert_allclose(short.sites.prec, written.sites.prec, rtol=1e-4)
    assert short.objective == pytest.approx(written.objective, abs=1e-4)
    assert (
        vem_batches.TURNS * len(launches) < 12 * 60
    )  # 41 as written; the first rounds, with their long ways, are walked in short pieces


@pytest.mark.slow
@pytest.mark.parametrize("batched", [False, True])
def test_rounds_with_one_lengthscale_per_feature_are_those_of_the_algorithm_as_written(batched, monkeypatch):
    monkeypatch.setattr(vem_batches, "on_accelerator", lambda: batched)
    monkeypatch.setattr(batch_algebra, "LEAF", 16)
    model, data = binary(30, 5)
    kernel = kernels.Matern52(lengthscale=np.ones(data.X.shape[1]))
    model = Model.full(kernel, model.likelihood, jitter=1e-6)
    learner = VEM(max_rounds=25)
    (ours,), written = vem_batches.fit_many(learner, model, [data]), learner.fit(model, data)
    assert ours.reason == written.reason == CAP and ours.rounds == written.rounds
    np.testing.assert_allclose(path(ours), path(written), rtol=1e-8)
    np.testing.assert_allclose(ours.sites.prec, written.sites.prec, rtol=1e-7)
    for name, value in written.parameters.items():
        np.testing.assert_allclose(ours.parameters[name], value, rtol=1e-8)


def test_a_walk_that_is_not_corrected_misses_the_path(monkeypatch):
    """That the correction is needed: with a tolerance that lets every first walk pass, the path is another one."""
    model, data = binary(30, 5)
    learner = VEM(max_rounds=8)
    monkeypatch.setattr(fast_vem, "MAX_END_SHIFT", 1e9)
    monkeypatch.setattr(fast_vem, "NEGLIGIBLE_END_SHIFT", 1e9)
    (loose,), written = (
        vem_batches.fit_many(dataclasses.replace(learner, name="loose"), model, [data]),
        learner.fit(model, data),
    )
    assert np.max(np.abs(path(loose) / path(written) - 1)) > 1e-4


@pytest.mark.slow
def test_parts_do_not_depend_on_those_beside_them():
    """Three parts of different sizes in two places: each ends as it does alone, also the one that comes later."""
    learner = VEM(max_rounds=12)
    both = [binary(rows, seed) for rows, seed in ((24, 1), (30, 2), (17, 3))]
    together = vem_batches.fit_many(learner, [m for m, _ in both], [d for _, d in both], at_once=2)
    for (model, data), fit in zip(both, together, strict=True):
        (alone,) = vem_batches.fit_many(learner, model, [data])
        assert fit.sites.prec.shape == (data.rows,)
        np.testing.assert_allclose(path(fit), path(alone), rtol=1e-8)


@pytest.mark.slow
def test_a_batch_shrinks_to_its_last_parts(monkeypatch):
    """Of four parts the last ends in a batch of one place, as it does alone."""
    monkeypatch.setattr(vem_batches, "TURNS", 1)
    places = []
    plain = vem_batches.Batch._shrink
    monkeypatch.setattr(vem_batches.Batch, "_shrink", lambda self: (plain(self), places.append(len(self.places))))
    both = [binary(30, seed) for seed in range(4)]
    together = vem_batches.fit_many(VEM(max_rounds=6), [m for m, _ in both], [d for _, d in both])
    assert places[0] == 4 and places[-1] == 1
    for (model, data), fit in zip(both, together, strict=True):
        (alone,) = vem_batches.fit_many(VEM(max_rounds=6), model, [data])
        np.testing.assert_allclose(path(fit), path(alone), rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "reason"), [({"learning_rate": 0.3}, SETTLED), ({"evidence": evidence.laplace}, FELL)]
)
def test_it_stops_where_the_algorithm_stops(settings, reason):
    model, data = binary(30, 5)
    learner = VEM(max_rounds=300, **settings)
    (short,), written = vem_batches.fit_many(learner, model, [data]), learner.fit(model, data)
    assert short.reason == written.reason == reason and abs(short.rounds - written.rounds) <= 1
    assert short.parameters["kernel.variance"] == pytest.approx(written.parameters["kernel.variance"], rel=1e-3)


@pytest.mark.slow
def test_student_t_with_the_published_settings():
    X, y = problem("student_t", 40, seed=2)
    model, data = Model.full(kernels.Matern52(), likelihoods.StudentT(), jitter=1e-6), Data.of(X, y)
    learner = VEM.published_student_t(15)
    (short,), written = vem_batches.fit_many(learner, model, [data]), learner.fit(model, data)
    for name, value in written.parameters.items():
        np.testing.assert_allclose(short.parameters[name], value, rtol=1e-5)
    assert short.objective == pytest.approx(written.objective, abs=1e-3)


def test_a_round_that_is_not_finite_ends_the_run():
    data = binary(30, 5)[1]
    model = Model.full(kernels.Matern52(variance=1e4), likelihoods.Poisson())
    counts = Data.of(data.X, np.arange(data.rows, dtype=float))
    (fit,) = vem_batches.fit_many(VEM(max_rounds=3), model, [counts])
    assert fit.reason == VEM(max_rounds=3).fit(model, counts).reason == NOT_FINITE
    assert not fit.converged and np.isfinite(fit.objective)


def test_other_priors_are_refused():
    data = binary(30, 5)[1]
    sparse = Model.sparse(kernels.Matern52(), likelihoods.BernoulliProbit(), np.asarray(data.X)[:5])
    with pytest.raises(ValueError, match=r"use many_fits\.fit_many"):
        vem_batches.fit_many(VEM(), sparse, [data])


def test_no_parts_no_fits():
    assert vem_batches.fit_many(VEM(), [], []) == []


@pytest.mark.slow
def test_the_algebra_of_a_batch_gives_the_same_path(monkeypatch):
    """The program of an accelerator, here for one part on the CPU, with blocks of 16 rows."""
    model, data = binary(40, 5)
    learner = VEM(max_rounds=6)
    (alone,) = vem_batches.fit_many(learner, model, [data])
    monkeypatch.setattr(vem_batches, "on_accelerator", lambda: True)
    monkeypatch.setattr(batch_algebra, "LEAF", 16)
    (batched,) = vem_batches.fit_many(learner, model, [data])
    np.testing.assert_allclose(path(batched), path(alone), rtol=1e-9)


@pytest.mark.parametrize("lengthscale", [1.3, np.array([0.5, 1.0, 4.0])])
def test_conditioning_in_blocks_is_that_of_the_library(lengthscale, monkeypatch):
    monkeypatch.setattr(batch_algebra, "LEAF", 8)
    rng = np.random.default_rng(0)
    with working_precision():
        X = jnp.asarray(rng.standard_normal((29, 3))).at[3].set(0.5).at[4].set(0.5)
        prec = jnp.asarray(rng.gamma(1.0, 3.0, 29)).at[-4:].set(0.0)
        sites = Sites(jnp.where(prec > 0, jnp.asarray(rng.standard_normal(29)), 0.0), prec)
        kernel = kernels.Matern52(lengthscale=jnp.asarray(lengthscale), variance=jnp.asarray(4.0))
        prior = Model.full(kernel, likelihoods.BernoulliProbit(), jitter=1e-6).prior

        @jax.jit
        def both(X):
            out = []
            for gram, pull, condition in (
                (*batch_algebra.gram_with_pull(prior, X, batch_algebra.unit_distances(X)), batch_algebra.condition),
                (*prior.gram_with_pull(X), lambda gram, sites: gram.condition_with_factor(sites, None)),
            ):
                q, factors = condition(gram, sites)
                by = pull(gram.pull(sites, factors, q, jax.tree.map(jnp.ones_like, q))).kernel
                out.append((q, by, gram.covariance(sites, factors).matrix))
            return out

        ours, theirs = both(X)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
