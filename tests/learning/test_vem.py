"""Algorithm 1: its stopping rules, and agreement with the nested learner where the objectives agree."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import problem
from sitewise import VEM, Data, Laplace, Model, evidence, kernels, likelihoods, resolve
from sitewise.arrays import programs
from sitewise.arrays.engine import traced
from sitewise.learning.vem import CAP, FELL, NOT_FINITE, SETTLED, Adam


@pytest.fixture(scope="module")
def small():
    X, y = problem("probit", 30, seed=5)
    return Model.full(kernels.Matern52(), likelihoods.BernoulliProbit(), jitter=1e-6), Data.of(X, y)


def test_with_the_elbo_it_climbs_to_the_nested_optimum(small):
    model, data = small
    fit = VEM(evidence=evidence.elbo, learning_rate=0.05, max_rounds=400).fit(model, data)
    nested = resolve("vi").fit(model, data)
    values = [entry["learning"] for entry in fit.trace]
    assert np.all(np.diff(values[5:]) > -1e-3)
    assert fit.objective == pytest.approx(nested.objective, abs=0.02)


def test_a_falling_objective_stops_and_rolls_back(small):
    model, data = small
    fit = VEM(learning_rate=0.3, max_rounds=300).fit(model, data)
    assert fit.reason in (FELL, SETTLED)
    if fit.reason == FELL:
        assert fit.trace[-1]["learning"] < fit.trace[-2]["learning"]
        assert fit.objective == fit.trace[-2]["learning"]
        assert fit.parameters["kernel.variance"] == pytest.approx(fit.trace[-2]["kernel.variance"])


def test_the_cap_is_reported_and_the_trace_kept(small):
    model, data = small
    fit = VEM(learning_rate=0.3, max_rounds=3).fit(model, data)
    assert fit.reason == CAP and not fit.converged and len(fit.trace) == 3
    assert {"learning", "elbo", "ep", "kernel.lengthscale", "kernel.variance"} <= set(fit.trace[0])


def test_learners_whose_rounds_are_the_same_share_a_program(small):
    with traced():
        VEM(learning_rate=0.3, max_rounds=2).fit(*small)
        before = set(programs._memory.cache_keys())
        VEM(learning_rate=0.3, max_rounds=1, stop_on_fall=False, name="other").fit(*small)
    assert set(programs._memory.cache_keys()) == before


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["full", "per feature", "sparse", "weighted"])
def test_the_host_engine_follows_the_path_of_the_compiled_program(small, prior):
    model, data = small
    if prior == "per feature":
        model = Model.full(kernels.Matern52(lengthscale=np.ones(data.X.shape[1])), model.likelihood, jitter=1e-6)
    elif prior == "sparse":
        model = Model.sparse(kernels.Matern52(), model.likelihood, np.asarray(data.X)[:7])
    elif prior == "weighted":
        data = Data.of(data.X, data.y, weight=np.linspace(0.2, 2.0, data.rows))
    learner = VEM(max_rounds=4)
    on_host = learner.fit(model, data)
    with traced():
        compiled = learner.fit(model, data)
    assert on_host.rounds == compiled.rounds == 4
    for ours, theirs in zip(on_host.trace, compiled.trace, strict=True):
        for name in theirs:
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-8, err_msg=name)
    np.testing.assert_allclose(on_host.sites.prec, compiled.sites.prec, rtol=1e-8)


@pytest.mark.parametrize(
    "likelihood", [likelihoods.Softmax(3), likelihoods.VaryingParameter(likelihoods.Gaussian(), "scale")]
)
def test_several_latent_functions_are_refused(small, likelihood):
    data = Data.of(small[1].X, np.arange(small[1].rows) % 3.0)
    with pytest.raises(ValueError, match="Algorithm 1 is for one latent function per row"):
        VEM().fit(Model.full(kernels.RBF(), likelihood), data)


def test_the_steps_of_adam_are_those_of_optax():
    optax = pytest.importorskip("optax")
    rng = np.random.default_rng(0)
    peer = optax.adam(0.01, b1=0.9, b2=0.999, eps=1e-7)
    state, ours = peer.init(jnp.zeros(3)), Adam.start(np.zeros(3))
    for slope in rng.normal(size=(30, 3)) * [1.0, 1e-6, 1e3]:
        change, state = peer.update(jnp.asarray(-slope), state)
        ours = ours.after(slope)
        np.testing.assert_allclose(0.01 * ours.direction(), change, rtol=1e-5)


def test_published_start_and_settings(small):
    model, data = small
    learner = VEM()
    state = learner.init(model, jax.tree.map(jnp.asarray, data))
    assert np.all(state.sites.nat1 == 0) and np.all(state.sites.prec == 1e-6)
    np.testing.assert_allclose(jax.nn.softplus(state.vector), 1.0)
    published = (learner.rate, learner.e_steps, learner.m_steps, learner.learning_rate, learner.max_rounds)
    assert published == (0.1, 20, 20, 0.01, 10_000)
    robust = VEM.published_student_t(5000)
    assert (robust.rate, robust.learning_rate, robust.max_rounds) == (0.001, 0.001, 5000)
    assert robust.inference.min_prec == 2e-8 and not robust.stop_on_fall


def test_one_adam_state_lives_through_all_m_steps(small):
    model, data = small
    padded = jax.tree.map(jnp.asarray, data.pad(32))
    learner = dataclasses.replace(VEM(), m_steps=3)
    state, _ = learner.step(model, padded, learner.init(model, padded))
    state, _ = learner.step(model, padded, state)
    counts = [int(x) for x in jax.tree.leaves(state.adam) if jnp.issubdtype(x.dtype, jnp.integer)]
    assert counts == [6]


def test_a_first_round_that_is_not_finite_keeps_the_start(small):
    """Poisson under a prior of deviation 100: the first natural step from zero sites overflows."""
    data = small[1]
    model = Model.full(kernels.Matern52(variance=1e4), likelihoods.Poisson())
    fit = VEM(max_rounds=3).fit(model, Data.of(data.X, np.arange(data.rows, dtype=float)))
    assert fit.reason == NOT_FINITE and not fit.converged
    assert np.isfinite(fit.objective) and fit.objective == pytest.approx(fit.evidences["ep"])


def test_laplace_with_outliers_steps_with_clipped_curvature():
    X = np.linspace(0, 5, 12)[:, None]
    y = np.sin(X[:, 0])
    y[[3, 8]] += 5.0
    learner = VEM(Laplace(), evidence.laplace, max_rounds=3, stop_on_fall=False)
    fit = learner.fit(Model.full(kernels.RBF(1.0), likelihoods.StudentT(0.3)), Data.of(X, y))
    assert fit.rounds == 3 and np.isfinite(fit.objective)
