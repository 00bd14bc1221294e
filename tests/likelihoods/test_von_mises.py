"""Expectations of the von Mises likelihood for every concentration, distance and variance, against two references.

For narrow Gaussians the reference is a sum over a fine grid; for wide ones the Fourier series in 40-digit arithmetic.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpmath import mp

from sitewise.likelihoods import VonMises

CONCENTRATIONS = (1e-3, 1.0, 30.0, 1e3, 1e4, 1e6)
DISTANCES = (0.0, 0.1, 1.5, 3.0, np.pi - 1e-6)
NARROW = (1e-8, 1e-6, 1e-4, 1e-2, 0.1, 0.3, 0.5)
WIDE = (0.5 + 1e-9, 0.51, 1.0, 10.0, 1e4)
MEAN = 0.3


@jax.jit
def log_expected_prob(
    likelihood: VonMises, y: jax.Array, mean: jax.Array, var: jax.Array, power: jax.Array | float = 1.0
) -> jax.Array:
    return likelihood.log_expected_prob(y, mean, var, power)


def by_grid(kappa: float, d: float, var: float) -> tuple[float, float, float]:
    """Return log E[exp(κ (cos − 1))], the tilted mean minus the mean, and the ratio of the variances."""
    sd = np.sqrt(var)
    step = min(sd, 1 / np.sqrt(kappa)) / 12
    x = np.arange(-max(38 * sd, 2 * np.pi - d + 3 * sd if d > 3 else 0.0), max(38 * sd, d + 3 * sd) + step, step)
    log = -2 * kappa * np.sin(0.5 * (d - x)) ** 2 - 0.5 * x**2 / var
    mass = np.exp(log - log.max())
    mean = np.average(x, weights=mass)
    total = log.max() + np.log(mass.sum() * step / np.sqrt(2 * np.pi * var))
    return float(total), float(mean), float(np.average((x - mean) ** 2, weights=mass) / var)


def by_series(kappa: float, d: float, var: float) -> tuple[float, float, float]:
    """Return the same by the series, with v·ℓ' and 1 + v·ℓ'' for the moments."""
    with mp.workdps(40):
        level, sums, n = mp.besseli(0, kappa), [mp.mpf(1), mp.mpf(0), mp.mpf(0)], 0
        while True:
            n += 1
            size = 2 * mp.besseli(n, kappa) / level * mp.exp(-(mp.mpf(n) ** 2) * var / 2)
            cosine, sine = mp.cos(n * mp.mpf(d)), mp.sin(n * mp.mpf(d))
            sums = [sums[0] + size * cosine, sums[1] + n * size * sine, sums[2] - n * n * size * cosine]
            if n * n * size < mp.mpf(10) ** -38:
                break
        slope = sums[1] / sums[0]
        bend = sums[2] / sums[0] - slope**2
        return float(mp.log(sums[0]) + mp.log(level) - kappa), float(var * slope), float(1 + var * bend)


def cases(variances: tuple[float, ...], reference: object) -> tuple[np.ndarray, ...]:
    rows = [
        (kappa, d, var, *reference(kappa, d, var))  # type: ignore[operator]
        for kappa, d, var in itertools.product(CONCENTRATIONS, DISTANCES, variances)
    ]
    return tuple(np.array(rows).T)


@pytest.fixture(scope="module", params=["narrow", "wide"])
def table(request: pytest.FixtureRequest) -> tuple[np.ndarray, ...]:
    return cases(NARROW, by_grid) if request.param == "narrow" else cases(WIDE, by_series)


def test_expected_densities(table: tuple[np.ndarray, ...]) -> None:
    kappa, d, var, want, *_ = table
    mean = jnp.full(len(d), MEAN)
    constant = VonMises(1.0).log_prob(jnp.zeros(()), jnp.zeros(()))  # of p^κ at its maximum, per unit of κ
    got = log_expected_prob(VonMises(1.0), jnp.asarray(MEAN + d), mean, jnp.asarray(var), jnp.asarray(kappa))
    np.testing.assert_allclose(got - kappa * constant, want, rtol=1e-8, atol=1e-8)
    for turns in (-1, 2):  # and in every turn
        again = log_expected_prob(
            VonMises(1.0), jnp.asarray(MEAN + d + 2 * np.pi * turns), mean, jnp.asarray(var), jnp.asarray(kappa)
        )
        near = np.pi - d > 1e-5  # at the antipode a rounding error of d moves mass between two turns
        np.testing.assert_allclose(again[near], got[near], rtol=1e-7, atol=1e-7)
    for one in (1e-3, 1e3, 1e6):  # the concentration itself instead of a power
        here = kappa == one
        likelihood = VonMises(one)
        value = log_expected_prob(likelihood, jnp.asarray(MEAN + d[here]), mean[here], jnp.asarray(var[here]))
        top = likelihood.log_prob(jnp.zeros(()), jnp.zeros(()))
        np.testing.assert_allclose(value - top, want[here], rtol=1e-8, atol=1e-8)


def test_tilted_moments_and_derivatives(table: tuple[np.ndarray, ...]) -> None:
    kappa, d, var, _, shift, ratio = table
    y, mean, v, power = jnp.asarray(MEAN + d), jnp.full(len(d), MEAN), jnp.asarray(var), jnp.asarray(kappa)
    got_shift, got_ratio = VonMises(1.0).tilted_moments(y, mean, v, power)
    np.testing.assert_allclose((got_shift - shift) / np.sqrt(var * np.maximum(ratio, 1)), 0.0, atol=1e-6)
    np.testing.assert_allclose(got_ratio, ratio, rtol=1e-6, atol=1e-9)

    def total(mean: jax.Array, var: jax.Array) -> jax.Array:
        return jnp.sum(log_expected_prob(VonMises(1.0), y, mean, var, power))

    slope, by_var = jax.grad(total, (0, 1))(mean, v)
    np.testing.assert_allclose((v * slope - shift) / np.sqrt(var * np.maximum(ratio, 1)), 0.0, atol=1e-6)
    # ∂ log E[p]/∂v = ½ (ℓ'' + ℓ'²), with ℓ'' = (ratio − 1)/v and ℓ' = shift/v
    wanted = 0.5 * ((ratio - 1) + shift**2 / var)
    np.testing.assert_allclose(v * by_var, wanted, rtol=1e-6, atol=1e-7)


def test_expected_log_density_and_the_smoothed_density() -> None:
    rng = np.random.default_rng(0)
    for kappa, var, resid in itertools.product((0.1, 3e3), (1e-3, 3.0), (1e-4, 4.0)):
        likelihood, d = VonMises(kappa), rng.uniform(-3, 3)
        y, mean = jnp.asarray(d), jnp.zeros(())
        grid = np.linspace(-12 - 4 / np.sqrt(var), 12 + 4 / np.sqrt(var), 200_001)
        log_density = -0.5 * grid**2 - np.log(np.sum(np.exp(-0.5 * grid**2)))
        density = np.exp(log_density)
        log_p = likelihood.log_prob(y, jnp.asarray(np.sqrt(var) * grid))
        np.testing.assert_allclose(
            likelihood.expected_log_prob(y, mean, jnp.asarray(var)), np.sum(density * log_p), rtol=1e-9
        )
        smoothed = likelihood.expected_log_prob(y, jnp.asarray(np.sqrt(var) * grid), jnp.asarray(resid))
        wanted = np.logaddexp.reduce(np.asarray(smoothed) + log_density)
        got = likelihood.log_expected_smoothed_prob(y, mean, jnp.asarray(var), jnp.asarray(resid))
        np.testing.assert_allclose(got, wanted, rtol=1e-8, atol=1e-8)


def test_gradients_by_the_concentration() -> None:
    for kappa, var in itertools.product((0.3, 40.0, 2e3), (0.1, 0.7)):
        y, mean, v = jnp.asarray([0.2, 2.9]), jnp.zeros(2), jnp.full(2, var)

        step = 1e-4 * kappa
        above, below = (_total(jnp.asarray(kappa + change), y, mean, v) for change in (step, -step))
        slope = jax.grad(_total)(jnp.asarray(kappa), y, mean, v)
        np.testing.assert_allclose(slope, (above - below) / (2 * step), rtol=1e-6, atol=1e-9)


@jax.jit
def _total(kappa: jax.Array, y: jax.Array, mean: jax.Array, var: jax.Array) -> jax.Array:
    return jnp.sum(VonMises(kappa).log_expected_prob(y, mean, var))
