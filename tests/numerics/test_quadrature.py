"""Expectations at every width of the Gaussian, against a fine composite rule."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import LIKELIHOODS
from sitewise import likelihoods
from sitewise.likelihoods import Likelihood
from sitewise.numerics.quadrature import GaussHermite
from sitewise.types import module

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
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=3e-5)


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
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


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
            _expectation(name, OnlyLogProb(), *rows), _expectation(name, logit, *rows), atol=2e-5
        )


def test_published_rule_is_available_and_wrong_where_it_is_wrong():
    """20 Gauss–Hermite points miss E[log Φ] by nats at sd 100: the reason it is not the default."""
    rows = np.ones(1), np.full(1, -30.0), np.full(1, 1e4)
    default = _expectation("expected_log_prob", likelihoods.BernoulliProbit(), *rows)
    published = _expectation("expected_log_prob", likelihoods.BernoulliProbit(quadrature=GaussHermite(20)), *rows)
    assert abs(float((published - default)[0])) > 1.0
