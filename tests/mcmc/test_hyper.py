"""The hyperparameter sampler: calibration, a closed form, diagnostics, predictions."""

import dataclasses
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import Data, Model, kernels, likelihoods
from sitewise.hyperpriors import LogNormal
from sitewise.mcmc import diagnostics, sample
from sitewise.runtime.precision import working_precision

sys.path.insert(0, str(Path(__file__).parents[2] / "studies"))
from sbc import calibrate


def test_simulation_based_calibration():
    """The full run (both models) is studies/sbc.py; its result is in results/mcmc/sbc.json."""
    for parameter, result in calibrate("probit", replications=100, rows=6, thin=4).items():
        assert result["p"] > 0.01, (parameter, result)


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    X = np.linspace(-2, 2, 12)[:, None]
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=12)
    model = Model.full(kernels.RBF(), likelihoods.Gaussian(scale=0.3))
    prior = LogNormal(0.0, 1.0)
    samples = sample(
        model, Data.of(X, y), priors={"kernel.variance": prior},
        fixed=("kernel.lengthscale", "likelihood.scale"), chains=4, warmup=100, draws=500,
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
    assert abs(found["sd"] / sd - 1) < 0.15
    assert found["rhat"] < 1.03 and "kernel.variance" in samples.summary()


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
    assert "Give it a prior" in pressed.summary()


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
        fixed=("kernel.variance", "likelihood.scale"), chains=2, warmup=25, draws=25,
    )  # fmt: skip
    assert samples.to_arviz()["posterior"]["kernel.lengthscale"].shape == (2, 25, 2)
