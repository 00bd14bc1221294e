"""The density of sums of gamma pieces against sums of many terms in high precision, and against known distributions."""

import jax
import mpmath
import numpy as np
import pytest
from scipy import stats

from sitewise import likelihoods

_log_prob = jax.jit(lambda one, y, f: one.log_prob(y, f))


def _exact(y, f, phi, p):
    """log Σ_j Poisson(j; λ) Gamma(y; jα, γ), term by term, with 30 digits."""
    with mpmath.workdps(30):
        mean = mpmath.exp(f)
        pieces = mean ** (2 - p) / (phi * (2 - p))
        alpha, scale = (2 - p) / (p - 1), phi * (p - 1) * mean ** (p - 1)
        likely = float(y ** (2 - p) / (phi * (2 - p)))
        reach = 14 * np.sqrt(likely + 1) + 60
        total = mpmath.mpf(0)
        for j in range(max(1, int(likely - reach)), int(likely + reach)):
            log_count = j * mpmath.log(pieces) - pieces - mpmath.loggamma(j + 1)
            a = j * alpha
            total += mpmath.exp(
                log_count + (a - 1) * mpmath.log(y) - y / scale - a * mpmath.log(scale) - mpmath.loggamma(a)
            )
        return float(mpmath.log(total))


@pytest.mark.parametrize("p", [1.05, 1.5, 1.95])
@pytest.mark.parametrize("phi", [1e-3, 1.0, 30.0])
def test_the_series(p, phi):
    """Up to thousands of pieces, where only some of the terms are taken."""
    y = np.array([0.03, 1.0, 40.0])
    f = np.log(y) + 0.3
    found = _log_prob(likelihoods.Tweedie(phi, p), y, f)
    np.testing.assert_allclose(found, [_exact(*pair, phi, p) for pair in zip(y, f, strict=True)], rtol=1e-9, atol=1e-8)


def test_the_distribution_is_that_of_simulated_sums():
    """Mean, variance, zeros and quantiles of sums that NumPy draws."""
    phi, p, f = 0.7, 1.6, 0.4
    rng = np.random.default_rng(0)
    mean = np.exp(f)
    alpha, scale = (2 - p) / (p - 1), phi * (p - 1) * mean ** (p - 1)
    count = rng.poisson(mean ** (2 - p) / (phi * (2 - p)), 40_000)
    y = np.where(count > 0, rng.gamma(np.maximum(count, 1) * alpha, scale), 0.0)
    assert abs(y.mean() - mean) < 5 * y.std() / 200 and y.var() == pytest.approx(phi * mean**p, rel=0.05)
    at = np.array([0.0, 0.1, 1.0, 3.0])
    found = jax.jit(likelihoods.Tweedie(phi, p).cdf)(at, np.full(4, f))
    np.testing.assert_allclose(found, np.mean(y[:, None] <= at, axis=0), atol=0.01)


def test_many_pieces_are_gaussian():
    """A relative deviation of 1e-3: the distribution function crosses ½ at the mean, as that of a Gaussian."""
    one = likelihoods.Tweedie(1e-6, 1.5)
    y = 1 + 1e-3 * np.array([-2.0, 0.0, 1.0])
    np.testing.assert_allclose(jax.jit(one.cdf)(y, np.zeros(3)), stats.norm.cdf([-2, 0, 1]), atol=2e-3)
