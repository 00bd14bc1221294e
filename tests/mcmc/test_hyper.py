"""The hyperparameter sampler: closed forms and brute force, diagnostics, predictions.

Simulation-based calibration is studies/sbc.py; its result is in results/mcmc/sbc.json.
"""

import dataclasses
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sitewise import Data, Model, kernels, likelihoods
from sitewise.arrays.engine import to_host
from sitewise.hyperpriors import LogNormal
from sitewise.mcmc import diagnostics, emulator, marginal, sample
from sitewise.mcmc.samples import HyperSamples
from sitewise.parameters import Trainable
from sitewise.process.precision import working_precision


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    X = np.linspace(-2, 2, 12)[:, None]
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=12)
    model = Model.full(kernels.RBF(), likelihoods.Gaussian(scale=0.3))
    prior = LogNormal(0.0, 1.0)
    samples = sample(
        model, Data.of(X, y), priors={"kernel.variance": prior},
        fixed=("kernel.lengthscale", "likelihood.scale"), chains=4, warmup=5, draws=150,
    )  # fmt: skip
    return X, y, model, prior, samples


def test_gaussian_likelihood_has_a_closed_form(regression):
    """With one free parameter the posterior is known on a grid."""
    X, y, _, _, samples = regression
    grid = np.linspace(-5, 5, 401)
    with working_precision():
        K = np.asarray(kernels.RBF().matrix(jnp.asarray(X)))
        log_p = []
        for v in grid:
            C = np.exp(v) * K + 0.09 * np.eye(12)
            log_p.append(-0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(C)[1]) - 0.5 * v**2)
    p = np.exp(np.array(log_p) - max(log_p))
    p /= p.sum()
    mean = p @ grid
    sd = np.sqrt(p @ (grid - mean) ** 2)
    found = samples.diagnostics()["kernel.variance"]
    assert abs(found["mean"] - mean) < 4 * sd / np.sqrt(found["bulk_ess"])
    assert abs(found["sd"] / sd - 1) < 4 / np.sqrt(2 * found["bulk_ess"])
    # The evidence of EP is exact here, and so is every weight: only the spline keeps proposals from being accepted.
    assert np.all(samples.accepted > 0.9) and found["bulk_ess"] > 300
    assert found["rhat"] < 1.03 and "kernel.variance" in samples.summary()


@pytest.mark.slow
def test_probit_is_that_of_brute_force():
    """p(y | θ) is the probability of an orthant under N(0, K + I), and a prediction the ratio of two."""
    X, new = np.array([[-1.5], [-1.0], [-0.2], [0.4], [0.9], [1.6]]), np.array([[0.6]])
    y = np.array([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    priors = {"kernel.lengthscale": LogNormal(0.0, 0.7), "kernel.variance": LogNormal(1.0, 1.0)}
    model = Model.full(kernels.Matern32(), likelihoods.BernoulliProbit())
    samples = sample(model, Data.of(X, y), priors=priors, warmup=5, draws=800)
    rows, signs = np.concatenate([X, new]), np.append(y, 1.0)
    log_ell, log_var = np.meshgrid(np.linspace(-2.1, 2.1, 11), np.linspace(-2.0, 4.0, 11))
    density, ones = [], []
    for e, v in zip(log_ell.ravel(), log_var.ravel(), strict=True):
        with working_precision():
            K = np.asarray(kernels.Matern32(np.exp(e), np.exp(v)).matrix(jnp.asarray(rows)))
        C = signs[:, None] * (K + np.eye(7)) * signs
        both = [multivariate_normal.cdf(np.zeros(n), cov=C[:n, :n], abseps=1e-5) for n in (6, 7)]
        weight = np.exp(-0.5 * ((e / 0.7) ** 2 + (v - 1.0) ** 2))
        density.append(weight * both[0])
        ones.append(weight * both[1])
    p = np.array(density) / np.sum(density)
    for label, values in (("kernel.lengthscale", log_ell.ravel()), ("kernel.variance", log_var.ravel())):
        mean = p @ values
        sd = np.sqrt(p @ (values - mean) ** 2)
        found = samples.diagnostics()[label]
        assert abs(found["mean"] - mean) < 4 * sd / np.sqrt(found["bulk_ess"]), label
        assert abs(found["sd"] / sd - 1) < 0.15, label
    assert samples.probability(new, draws=3200)[0] == pytest.approx(np.sum(ones) / np.sum(density), abs=0.01)


def test_chains_are_continued_until_enough_draws_are_effective(regression):
    X, y, model, prior, _ = regression
    settings = {
        "priors": {"kernel.variance": prior}, "fixed": ("kernel.lengthscale", "likelihood.scale"),
        "warmup": 2, "draws": 15, "seed": 3,
    }  # fmt: skip
    once = sample(model, Data.of(X, y), **settings)
    steps = []
    longer = sample(
        model, Data.of(X, y), min_ess=120, callback=lambda done, total: steps.append(done <= total), **settings
    )
    draws = longer.vectors.shape[1]
    assert draws > 15 and draws % 15 == 0 and all(steps)
    np.testing.assert_array_equal(longer.vectors[:, :15], once.vectors)
    np.testing.assert_array_equal(longer.z[:, :15], once.z)
    found = longer.diagnostics()["kernel.variance"]
    assert found["bulk_ess"] >= 120 and found["rhat"] <= 1.05
    shorter = dataclasses.replace(longer, vectors=longer.vectors[:, :-15]).diagnostics()["kernel.variance"]
    assert shorter["bulk_ess"] < 120 or shorter["rhat"] > 1.05
    with pytest.warns(UserWarning, match=r"After 30 draws per chain .* \(min_ess=1e\+06\)"):
        few = sample(model, Data.of(X, y), min_ess=1e6, max_draws=44, **settings)
    assert few.vectors.shape[1] == 30
    with pytest.raises(ValueError, match="min_ess must be a positive number"):
        sample(model, Data.of(X, y), min_ess=0, **settings)


def test_predictions(regression):
    """Close to exact regression at the posterior mean of the variance, which is well determined here."""
    X, y, _, _, samples = regression
    density = samples.log_density(X, y, draws=200)
    with working_precision():
        K = np.asarray(kernels.RBF(variance=np.exp(samples.vectors.mean())).matrix(jnp.asarray(X)))
    C = K @ np.linalg.inv(K + 0.09 * np.eye(12))
    mean, var = C @ y, np.diag(K - C @ K) + 0.09
    exact = -0.5 * ((y - mean) ** 2 / var + np.log(2 * np.pi * var))
    np.testing.assert_allclose(density, exact, atol=0.15)


def test_diagnostics():
    rng = np.random.default_rng(0)
    white = rng.normal(size=(4, 1000))
    assert diagnostics.rhat(white) < 1.01
    assert 3000 < diagnostics.bulk_ess(white) < 5000 and diagnostics.tail_ess(white) > 2500
    walk = np.zeros((4, 1000))
    for t in range(1, 1000):
        walk[:, t] = 0.9 * walk[:, t - 1] + rng.normal(size=4)
    assert 100 < diagnostics.bulk_ess(walk) < 420  # 4000·(1 − 0.9)/(1 + 0.9) = 210
    assert diagnostics.rhat(white + np.arange(4)[:, None]) > 1.2
    assert not np.isfinite(diagnostics.rhat(np.zeros((4, 100))))


def test_draws_at_a_bound_are_told_of(regression):
    samples = regression[-1]
    assert samples.at_bound == ()
    low, high = np.quantile(samples.vectors, [0.1, 0.9])
    pressed = dataclasses.replace(samples, vectors=np.clip(samples.vectors, low, high), limits=np.array([[low, high]]))
    assert pressed.at_bound == ("kernel.variance",)
    assert "Give the parameter a prior" in pressed.summary()


def test_unknown_prior_is_an_error(regression):
    X, y, model, prior, _ = regression
    with pytest.raises(ValueError, match="the trained parameters are kernel"):
        sample(model, Data.of(X, y), priors={"kernel.width": prior})


def test_arviz_is_optional(regression, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match="pip install arviz"):
        regression[-1].to_arviz()


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_arviz_reads_the_same_draws_and_diagnostics(regression):
    arviz = pytest.importorskip("arviz")
    samples = regression[-1]
    converted = samples.to_arviz()
    draws = converted["posterior"]["kernel.variance"]
    assert draws.dims == ("chain", "draw")
    np.testing.assert_array_equal(draws.values, samples.parameters["kernel.variance"])
    # Ranks do not change under the logarithm, so the diagnostics must agree.
    ours = samples.diagnostics()["kernel.variance"]
    assert float(arviz.rhat(converted)["kernel.variance"]) == pytest.approx(ours["rhat"], abs=2e-3)
    for kind in ("bulk", "tail"):
        theirs = float(arviz.ess(converted, method=kind)["kernel.variance"])
        assert theirs == pytest.approx(ours[f"{kind}_ess"], rel=0.02)


def test_an_array_of_parameters_goes_to_arviz(regression):
    pytest.importorskip("arviz")
    X, y, _, prior, _ = regression
    wide = Model.full(kernels.RBF(lengthscale=[1.0, 2.0]), likelihoods.Gaussian(scale=0.3))
    samples = sample(
        wide, Data.of(np.column_stack([X, X**2]), y), priors={"kernel.lengthscale": prior},
        fixed=("kernel.variance", "likelihood.scale"), chains=2, warmup=0, draws=5,
    )  # fmt: skip
    assert samples.to_arviz()["posterior"]["kernel.lengthscale"].shape == (2, 5, 2)


def test_temperatures_are_as_many_as_each_part_needs(monkeypatch):
    """With one class on each side and σ² = 2·10⁴, q puts mass on the wrong side of every threshold; not so with 0.1."""
    X = np.linspace(-2, 2, 24)[:, None]
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
    with working_precision():
        data, trainable = to_host(Data.of(X, np.sign(X[:, 0]))), Trainable.of(model)
        target = marginal.Marginal(trainable, (), to_host(model), data, to_host(data.to_bucket()), trainable.limits({}))
        spread = 0.1 * np.random.default_rng(0).standard_normal((8, 2))
        pilots = np.concatenate([np.log([1.0, 0.1]) + spread, np.log([0.3, 2e4]) + spread])
        node = emulator.Node(pilots[0], *target.approximate(pilots[0], None))
        flat = emulator.Emulator((node,), pilots.mean(axis=0), np.eye(2), target.limits)
        schedule = target.temperatures(jax.random.key(0), flat, pilots)
        assert np.max(schedule.steps[:8]) == 1 < 4 <= np.min(schedule.steps[8:])
        used = []
        anneal = marginal._anneal
        monkeypatch.setattr(marginal, "_anneal", lambda *given: used.append(given[-1]) or anneal(*given))
        for at in (0, 12):
            target.estimate(jax.random.key(1), flat, schedule, pilots[at])
        assert used == [schedule.steps[12]]  # one step is importance sampling, without a program


@pytest.mark.parametrize("version", ["0.20.0", "1.0.0"])
def test_both_versions_of_arviz_get_the_draws_as_they_take_them(version, monkeypatch):
    """ArviZ 0 takes groups as keywords, ArviZ 1 takes one dictionary of groups."""
    draws = {"kernel.variance": np.ones((2, 3))}
    took = {"0": lambda *, posterior: posterior, "1": lambda groups: groups["posterior"]}
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(__version__=version, from_dict=took[version[0]]))
    assert HyperSamples.to_arviz(SimpleNamespace(parameters=draws)) is draws
