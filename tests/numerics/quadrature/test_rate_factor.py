"""Moments of N(mean, var)·exp(−e^h) against adaptive quadrature."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from sitewise.numerics.quadrature.rate_factor import tilted_by_rate


def brute_force(mean: float, var: float) -> tuple[float, float, float]:
    """log of the normaliser, tilted mean minus mean, tilted variance over var, by integration piece by piece."""
    sd = np.sqrt(var)

    def height(h):
        return -0.5 * (h - mean) ** 2 / var - np.exp(np.minimum(h, 600.0))

    grid = np.linspace(min(mean, 0.0) - 12 * sd - 5, max(mean + 12 * sd, 5.0), 200_001)
    mode, top = grid[np.argmax(height(grid))], np.max(height(grid))
    edges = mode + np.concatenate([-(10.0 ** np.linspace(3, -4, 15)), [0.0], 10.0 ** np.linspace(-4, 1, 11)]) * sd
    edges = np.unique(np.concatenate([edges, np.linspace(-6, 4, 11)]))

    def integral(power, centre):
        return sum(
            quad(lambda h: (h - centre) ** power * np.exp(height(h) - top), low, high, epsabs=0, epsrel=1e-12)[0]
            for low, high in itertools.pairwise(edges)
        )

    total = integral(0, 0.0)
    shift = integral(1, mean) / total
    ratio = integral(2, mean + shift) / total / var
    return top + np.log(total) - 0.5 * np.log(2 * np.pi * var), shift, ratio


@pytest.mark.parametrize(
    ("mean", "var"),
    [(0.0, 1.0), (-3.0, 0.01), (4.0, 0.3), (-20.0, 400.0), (10.0, 10.0), (30.0, 1e3), (-200.0, 1e4), (500.0, 1e6)],
)
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_moments_against_adaptive_quadrature(mean, var):
    found = tilted_by_rate(np.array([mean]), np.array([var]))
    log_value, shift, ratio = brute_force(mean, var)
    assert found.log_value[0] == pytest.approx(log_value, abs=1e-7)
    assert found.shift[0] == pytest.approx(shift, abs=1e-7 * np.sqrt(var * ratio))
    assert found.ratio[0] == pytest.approx(ratio, rel=1e-6)


def test_a_factor_that_hardly_matters_has_its_first_order_moments():
    """For e^mean → 0: log E = −E[e^h], shift = −var·E[e^h], ratio = 1 − var·E[e^h], to relative precision."""
    mean, var = np.array([-40.0, -300.0]), np.array([0.5, 2.0])
    rate = np.exp(mean + var / 2)
    found = tilted_by_rate(mean, var)
    np.testing.assert_allclose(found.shift, -var * rate, rtol=1e-7)
    np.testing.assert_allclose(found.log_value, 0.0, atol=1e-11)
    np.testing.assert_allclose(found.ratio, 1.0, atol=1e-12)
