"""log Z against brute force and closed forms; bracket; padding and weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ais_exactness import brute_force, estimates, gaussian, three_rows
from sitewise import Data, Model, kernels, likelihoods
from sitewise.mcmc import PAPER, Annealing, ais, evidence_certificate, log_evidence
from sitewise.mcmc.reference import Target, draw, reference
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

SEEDS = 20  # studies/ais_exactness.py does the same with 100


def _assert_right(found, exact):
    """Three standard errors are exceeded once in 370; four once in 16 000."""
    miss = np.abs(found.log_z - exact) / found.se
    assert np.sum(miss <= 3) >= SEEDS - 1
    assert np.max(miss) <= 4.5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "path"), [("probit", "ep"), ("poisson", "prior"), ("student-t", "ep")])
def test_brute_force(name, path):
    model, data = three_rows(name)
    found = estimates(Annealing(path=path), model, data, 40, SEEDS)
    _assert_right(found, brute_force(model, data))


@pytest.mark.slow
def test_gaussian_closed_form():
    """n = 50 from the prior within standard errors; from EP the answer is exact."""
    model, data, exact = gaussian()
    found = estimates(Annealing(path="prior"), model, data, 200, SEEDS)
    _assert_right(found, exact)
    assert np.median(found.se) < 0.4
    # Both sides together are better than the forward runs alone.
    assert np.mean((found.log_z - exact) ** 2) < np.mean((found.lower - exact) ** 2)
    one = log_evidence(model, data, steps=4)
    assert abs(one.log_z - exact) < 1e-6 and abs(one.upper - exact) < 1e-6


def _problem(n=20, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return Model.full(kernels.Matern52(variance=30.0), likelihoods.BernoulliProbit()), X, y


@pytest.mark.slow
def test_bracket():
    """The forward estimate is low on average, the reverse one high; together they enclose the truth."""
    model, X, y = _problem()
    data = Data.of(X, y)
    short = estimates(Annealing(chains=4), model, data, 6, SEEDS)
    long = estimates(Annealing(chains=16), model, data, 60, SEEDS)
    truth = np.logaddexp.reduce(long.lower) - np.log(SEEDS)
    assert np.mean(short.lower) < truth < np.mean(short.upper)
    assert np.abs(np.mean(long.upper) - np.mean(long.lower)) < 0.15
    assert np.abs(np.mean(long.log_z) - truth) < 0.1


def test_both_sides_together_on_known_weights():
    """log w ~ N(ℓ − s²/2, s²) forwards has log w̄ ~ N(−ℓ − s²/2, s²) backwards (Crooks); ℓ is known."""
    with working_precision():
        rng = np.random.default_rng(0)
        noise, true = rng.normal(size=(2, 1000, 16)), 3.0
        found, se = jax.vmap(ais.bennett)(jnp.asarray(true - 2 + 2 * noise[0]), jnp.asarray(-true - 2 + 2 * noise[1]))
        miss = (np.asarray(found) - true) / np.asarray(se)
        assert np.abs(np.mean(found - true)) < 0.05
        assert np.mean(np.abs(miss) <= 3) >= 0.995
        assert 0.5 < np.std(miss) < 1.05
        np.testing.assert_allclose(ais.widening(jnp.array([16.0, 1e6])), [3.5864 / 3, 1.0], rtol=1e-3)


@pytest.mark.slow
def test_padding_is_exact():
    model, X, y = _problem()
    data = Data.of(X, y)
    plain = estimates(Annealing(chains=4), model, data, 6, SEEDS)
    padded = estimates(Annealing(chains=4), model, data.pad(32), 6, SEEDS)
    np.testing.assert_allclose(padded.log_z, plain.log_z, atol=1e-7)
    np.testing.assert_allclose(padded.upper, plain.upper, atol=1e-7)


def test_weights_are_copies():
    """An integer weight equals copies of the row, both in log Z_q + r and in the residual itself."""
    model, X, y = _problem(6)
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0])
    rows = np.repeat(np.arange(6), weight.astype(int))
    with working_precision():
        once = jax.tree.map(jnp.asarray, Data.of(X, y, weight=weight))
        copies = jax.tree.map(jnp.asarray, Data.of(X[rows], y[rows]))
        sites = Sites(jnp.linspace(-1, 1, 6), jnp.linspace(0.1, 1, 6))
        ref = reference(model, once, sites)
        many = reference(model, copies, Sites(sites.nat1[rows], sites.prec[rows]))
        f = draw(jax.random.key(0), ref, 5)
        first = Target(ref, model.likelihood, once).residual(f)
        second = Target(many, model.likelihood, copies).residual(f[rows])
        np.testing.assert_allclose(first, second, rtol=1e-12)
        np.testing.assert_allclose(float(ref.log_z), float(many.log_z), rtol=1e-7)
        np.testing.assert_allclose(ref.mean[rows], many.mean, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_adaptive_says_which():
    model, X, y = _problem()
    met = log_evidence(model, Data.of(X, y), steps=32, se_per_row=0.015)
    spent = log_evidence(model, Data.of(X, y), steps=4, max_steps=8, se_per_row=5e-6)
    assert met.tight and "target met" in met.reason and met.se <= 0.3
    assert not spent.tight and "not met with the maximum of 8 steps" in spent.reason and spent.steps == 8


@pytest.mark.slow
def test_paper_setting():
    model, X, y = _problem()
    paper = log_evidence(model, Data.of(X, y), annealing=PAPER, steps=500, max_steps=500)
    ours = log_evidence(model, Data.of(X, y), steps=256)
    assert abs(paper.log_z - ours.log_z) < 1.0 and np.isnan(paper.upper)


def test_certificate():
    model, X, y = _problem()
    found = evidence_certificate(model, Data.of(X, y), steps=128)
    assert found.bound_holds
    assert found.verdicts["ep"] in ("good", "undecided")
    assert abs(found.evidences["laplace"] - found.mcmc.log_z) > abs(found.evidences["ep"] - found.mcmc.log_z)
    assert "log Z" in str(found)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="path must be"):
        Annealing(path="nowhere")
    with pytest.raises(ValueError, match="chains must be"):
        Annealing(chains=1)


@pytest.mark.slow
def test_where_ep_does_not_settle_another_start_is_found():
    """A count of 10⁸ under a narrow prior: EP ends far from the posterior, 190 prior deviations away.

    Chains that start there never arrive, and both directions agree on −1.4·10⁸.
    """
    variance = 0.0036
    model = Model.full(kernels.Matern12(1.0, variance), likelihoods.NegativeBinomial(3.0))
    data = Data.of(np.array([[0.0], [100.0]]), np.array([1e8, 0.0]))
    found = log_evidence(model, data, steps=64, max_steps=256, se_per_row=0.3)
    f = np.linspace(-2.0, 14.0, 1_000_001)
    with working_precision():
        rows = [np.asarray(model.likelihood.log_prob(np.full_like(f, y), f)) for y in (1e8, 0.0)]
    prior = -0.5 * f**2 / variance - 0.5 * np.log(2 * np.pi * variance) + np.log(f[1] - f[0])
    exact = sum(np.logaddexp.reduce(row + prior) for row in rows)
    assert found.tight and abs(found.log_z - exact) <= 4 * found.se + 1e-6 * abs(exact)
