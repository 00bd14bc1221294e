"""Expectations at every width of the Gaussian, against a fine composite rule and against 24-digit arithmetic."""

import functools
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from cases import LIKELIHOODS
from sitewise import likelihoods
from sitewise.likelihoods import Likelihood
from sitewise.numerics.quadrature.gaussian_cdf import log_cdf_values
from sitewise.numerics.quadrature.gaussian_rules import GaussHermite, expect_with_slopes
from sitewise.types import module

sys.path.insert(0, str(Path(__file__).parents[3] / "studies"))
import quadrature_table as study

WIDTHS = (0.01, 0.1, 1.0, 5.0, 100.0)
MEANS = (-5.0, 0.3, 8.0)
Y = {"gaussian": 0.7, "probit": 1.0, "logit": -1.0, "student-t": 0.7, "poisson": 3.0}


@jax.jit
def _log_prob(likelihood, y, f):
    return likelihood.log_prob(y, f)


@functools.partial(jax.jit, static_argnums=0)
def _expectation(name, likelihood, *rows):
    return getattr(likelihood, name)(*rows)


def _composite(log_prob, mean, sd, centre, log_of_mean):
    """Gauss–Legendre on panels that are fine both around the mean and around the likelihood's centre."""
    edges = np.concatenate(
        [mean + sd * np.linspace(-30, 30, 1001), centre + np.sinh(np.linspace(-15, 15, 1001)) * 0.02]
    )
    inside = np.unique(edges[(edges >= mean - 30 * sd) & (edges <= mean + 30 * sd)])
    edges = np.pad(inside, (0, len(edges) - len(inside)), mode="edge")  # panels of no width: one shape for all
    x, w = np.polynomial.legendre.leggauss(6)
    middle, half = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    f = (middle[:, None] + half[:, None] * x).ravel()
    weight = (half[:, None] * w).ravel() * np.exp(-0.5 * ((f - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    values = np.asarray(log_prob(f))
    if not log_of_mean:
        return float(np.sum(np.where(weight > 0, weight * values, 0.0)))
    top = values.max()
    return float(top + np.log(np.sum(weight * np.exp(values - top))))


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("power", [1.0, 0.3])
def test_tilted_integral(name, power):
    likelihood, y = LIKELIHOODS[name], jnp.asarray(Y[name])
    centre = float(likelihood.landmark(y[None])[0][0])
    mean, sd = (a.ravel() for a in np.meshgrid(MEANS, WIDTHS))
    got = _expectation("log_expected_prob", likelihood, np.full(mean.shape, y), mean, sd**2, power)
    want = [
        _composite(lambda f: power * _log_prob(likelihood, y, f), m, s, centre, True)
        for m, s in zip(mean, sd, strict=True)
    ]
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_expected_log_prob(name):
    likelihood, y = LIKELIHOODS[name], jnp.asarray(Y[name])
    centre = float(likelihood.landmark(y[None])[0][0])
    widths = [w for w in WIDTHS if w <= 5 or name != "poisson"]  # E[e^f] at sd 100 is not a double
    mean, sd = (a.ravel() for a in np.meshgrid(MEANS, widths))
    got = _expectation("expected_log_prob", likelihood, np.full(mean.shape, y), mean, sd**2)
    want = [
        _composite(lambda f: _log_prob(likelihood, y, f), m, s, centre, False) for m, s in zip(mean, sd, strict=True)
    ]
    np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)


@module
class OnlyLogProb(Likelihood):
    """A user's likelihood: nothing but log_prob."""

    def log_prob(self, y, f):
        return -jax.nn.softplus(-y * f)


def test_a_users_likelihood_needs_only_log_prob():
    logit = likelihoods.BernoulliLogit()
    mean, sd = (a.ravel() for a in np.meshgrid(MEANS, WIDTHS))
    rows = np.ones(mean.shape), mean, sd**2
    for name in ("expected_log_prob", "log_expected_prob"):
        np.testing.assert_allclose(
            _expectation(name, OnlyLogProb(), *rows), _expectation(name, logit, *rows), rtol=1e-8, atol=1e-8
        )


def test_published_rule_is_available_and_wrong_where_it_is_wrong():
    """20 Gauss–Hermite points miss E[log Φ] by nats at sd 100: the reason it is not the default."""
    rows = np.ones(1), np.full(1, -30.0), np.full(1, 1e4)
    default = _expectation("expected_log_prob", likelihoods.BernoulliProbit(), *rows)
    published = _expectation("expected_log_prob", likelihoods.BernoulliProbit(quadrature=GaussHermite(20)), *rows)
    assert abs(float((published - default)[0])) > 1.0


# Where version 0.1.0 was off by 1e-7 to 600 nats, with the places of a user's likelihood that no landmark names.
CORNERS = [
    ("Poisson", [0.0], -0.7, 0.3, 500.0),
    ("Poisson", [3.0], 1.1, 50.0, 1e6),
    ("Poisson, softplus", [200.0], 200.0, -2.0, 1e4),
    ("StudentT(1, 3)", [0.7], 0.7, 6.0, 1e6),
    ("BernoulliProbit", [1.0], 0.0, -50.0, 1e4),
    ("Beta(10)", [0.01], -4.6, 0.3, 500.0),
    ("NegativeBinomial(0.3)", [1000.0], 6.9, 0.3, 500.0),
    ("CensoredGaussian", [-5.0, 5.0], 0.0, -2.0, 500.0),
    ("zero-inflated Poisson (only log_prob)", [0.0], 0.0, 0.3, 500.0),
    ("two modes (only log_prob)", [4.0], 2.0, -2.0, 1.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("corner", CORNERS, ids=[f"{c[0]}-{c[3]:g}-{c[4]:g}" for c in CORNERS])
def test_corners_against_high_precision(corner):
    name, y, centre, place, var = corner
    row = {"case": name, "y": y, "centre": centre, "mean": centre + place * np.sqrt(var), "var": var}
    study.refer([row])
    study.measure([row], "now")
    assert max(study.errors(row, "now")) <= 1e-8, row


def test_the_study_runs_and_its_stored_table_keeps_the_promise():
    stored = json.loads((study.RESULTS / "table.json").read_text())
    assert set(stored) == set(study.CASES)
    shipped = {name: labels for name, labels in stored.items() if "only log_prob" not in name}
    for summary in (study.main(["--quick"]), shipped):
        assert max(part["error"] for labels in summary.values() for part in labels["after"].values()) <= 1e-8


@pytest.mark.parametrize("name", ["logit", "student-t", "poisson"])
def test_tilted_moments_are_those_of_the_tilted_density(name):
    likelihood, y = LIKELIHOODS[name], Y[name]
    mean, sd = (a.ravel() for a in np.meshgrid((-5.0, 0.3, 3.0), (0.1, 1.0, 100.0)))
    shift, ratio = _expectation("tilted_moments", likelihood, np.full(mean.shape, y), mean, sd**2)
    for i, (m, s) in enumerate(zip(mean, sd, strict=True)):
        f = np.unique(np.concatenate([m + s * np.linspace(-40, 40, 20_001), 20 * np.sinh(np.linspace(-9, 9, 20_001))]))
        heights = np.asarray(_log_prob(likelihood, y, f)) - 0.5 * ((f - m) / s) ** 2
        mass = np.exp(heights - heights.max()) * np.gradient(f)
        first = np.sum(mass * (f - m)) / np.sum(mass)
        second = np.sum(mass * (f - m - first) ** 2) / np.sum(mass)
        np.testing.assert_allclose([shift[i], ratio[i]], [first, second / s**2], rtol=1e-5, atol=1e-6)


def test_derivatives_are_those_of_the_expectation():
    """∂E[g]/∂m = E[g'] and ∂E[g]/∂v = ½E[g''], at a Gaussian a hundred times as wide as the likelihood."""
    likelihood = likelihoods.BernoulliLogit()
    y, mean, var = jnp.ones(3), jnp.array([-30.0, 0.0, 80.0]), jnp.full(3, 1e4)
    slopes = jax.grad(lambda m, v: jnp.sum(likelihood.expected_log_prob(y, m, v)), argnums=(0, 1))(mean, var)
    for slope, step in zip(slopes, ((1e-2, 0.0), (0.0, 1.0)), strict=True):
        ends = [likelihood.expected_log_prob(y, mean + k * step[0], var + k * step[1]) for k in (1, -1)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * max(step)), rtol=2e-6)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_single_precision_is_finite(name):
    with jax.enable_x64(False):
        likelihood = type(LIKELIHOODS[name])()
        mean, var = (jnp.asarray(a.ravel(), jnp.float32) for a in np.meshgrid((-30.0, 0.3, 8.0), (1e-6, 1.0, 1e6)))
        y = jnp.full(mean.shape, Y[name], jnp.float32)
        values = [jax.jit(likelihood.log_expected_prob)(y, mean, var, 0.5), *likelihood.tilted_moments(y, mean, var)]
        if name != "poisson":  # E[e^f] is not a float
            values.append(jax.jit(likelihood.expected_log_prob)(y, mean, var))
        for value in values:
            assert value.dtype == jnp.float32
            assert np.all(np.isfinite(value))


def test_every_likelihood_is_in_the_table():
    """Likelihoods of several latent functions have integrals of their own."""
    wanted = set(likelihoods.__all__) - {"Likelihood", "Softmax", "TwoFunctions", "VaryingParameter"}
    assert wanted <= {type(likelihood).__name__ for likelihood, *_ in study.CASES.values()}


def test_wide_and_narrow_gaussians_together_have_the_slopes_of_each_alone():
    """Wide Gaussians have other nodes; slopes are differences of the slope before them."""
    mean, var = np.array([0.4, -2.0, 1.5, -6.0]), np.array([0.3, 400.0, 12.0, 5e4])
    found = expect_with_slopes(log_cdf_values, mean, var)
    alone = [expect_with_slopes(log_cdf_values, mean[[i]], var[[i]])[:, 0] for i in range(4)]
    np.testing.assert_allclose(found.T, alone, rtol=1e-9, atol=1e-12)
    step = 1e-3 * np.sqrt(var)
    ends = [expect_with_slopes(log_cdf_values, mean + sign * step, var) for sign in (-1, 1)]
    np.testing.assert_allclose((ends[1] - ends[0])[:4] / (2 * step), found[1:], rtol=1e-5, atol=1e-12)


def test_log_cdf_values_are_scipys():
    z = np.concatenate([np.linspace(-29.9, 9, 101), [-40.0, -1e5]])
    np.testing.assert_allclose(log_cdf_values(z[:101]), special.log_ndtr(z[:101]), rtol=1e-13, atol=2e-16)
    np.testing.assert_array_equal(log_cdf_values(z), special.log_ndtr(z))
