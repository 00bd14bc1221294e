"""Markov priors at the ends: equal times, steps far below and above a lengthscale, precise sites, short seasons."""

import mpmath
import numpy as np
import pytest

from sitewise import Data, Model, Sites, kernels, likelihoods, resolve
from sitewise.kernels.state_space import truncation_error
from sitewise.priors import MarkovPrior

KERNELS = {"12": kernels.Matern12(1.0, 1.3), "32": kernels.Matern32(1.0, 1.3), "52": kernels.Matern52(1.0, 1.3)}


@pytest.mark.parametrize("precise", [1e-3, 1e9])
@pytest.mark.parametrize("name", KERNELS)
def test_many_rows_at_one_time_are_one_row(name, precise):
    """mean Σb/(1/v + Σw), variance 1/(1/v + Σw), log Z ½(−log(1 + v Σw) + (Σb)² times the variance)."""
    rng = np.random.default_rng(1)
    b, w = precise * rng.normal(size=3000), precise * rng.gamma(1.0, 1.0, 3000)
    q = MarkovPrior(KERNELS[name]).gram(np.full((3000, 1), 0.7)).condition(Sites(b, w))
    var = 1 / (1 / 1.3 + np.sum(w))
    np.testing.assert_allclose(q.var, var, rtol=1e-9)
    np.testing.assert_allclose(q.mean, np.sum(b) * var, rtol=1e-9)
    assert q.log_z == pytest.approx(0.5 * (np.sum(b) ** 2 * var - np.log1p(1.3 * np.sum(w))), rel=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_rows_far_apart_are_independent(name):
    X, b, w = 1e9 * np.arange(5.0)[:, None], np.linspace(-2, 3, 5), np.array([0.0, 1e-6, 1, 1e6, 1e12])
    q = MarkovPrior(KERNELS[name]).gram(X).condition(Sites(b, w))
    np.testing.assert_allclose(q.var, 1 / (1 / 1.3 + w), rtol=1e-12)
    np.testing.assert_allclose(q.mean, b / (1 / 1.3 + w), rtol=1e-12)


@pytest.mark.parametrize("step", [1e-9, 1e-3])
@pytest.mark.parametrize("name", KERNELS)
def test_short_steps_with_precise_sites(name, step):
    """Against dense algebra of 60 digits, of a covariance matrix that has no more than a few digits in double ones."""
    rng = np.random.default_rng(3)
    time, b, w = (
        step * np.cumsum(rng.uniform(0.5, 2, 6)),
        1e4 * rng.normal(size=6),
        np.array([1, 1e8, 0, 1e4, 1e8, 1.0]),
    )
    q = MarkovPrior(KERNELS[name]).gram(time[:, None]).condition(Sites(b, w))
    with mpmath.workdps(60):
        root = mpmath.sqrt(int(name[0]))
        polynomial = {"12": lambda r: 1, "32": lambda r: 1 + r, "52": lambda r: 1 + r + r**2 / 3}[name]
        K = mpmath.matrix(6, 6)
        for i in range(6):
            for j in range(6):
                r = root * abs(mpmath.mpf(time[i]) - mpmath.mpf(time[j]))
                K[i, j] = mpmath.mpf(1.3) * polynomial(r) * mpmath.exp(-r)
        cov = (K**-1 + mpmath.diag(list(map(mpmath.mpf, w)))) ** -1
        mean = cov * mpmath.matrix(list(map(mpmath.mpf, b)))
        var, mean = ([float(a) for a in part] for part in ([cov[i, i] for i in range(6)], mean))
    np.testing.assert_allclose(q.var, var, rtol=1e-6)
    np.testing.assert_allclose(q.mean, mean, rtol=1e-6, atol=1e-6 * np.sqrt(np.max(var)))


@pytest.mark.slow
def test_a_season_stays_where_its_truncation_is_right():
    """The lengthscale of these data would be far shorter; learning stops where a hundredth is left out, and says so."""
    rng = np.random.default_rng(4)
    time = rng.uniform(0, 6, 150)
    y = np.where(np.mod(time, 1.0) < 0.04, 4.0, 0.0) + 0.05 * rng.normal(size=150)
    model = Model.markov(kernels.Matern32(20.0) * (2.0 * kernels.Periodic(0.8, 1.0)), likelihoods.Gaussian(0.1))
    held = ("kernel.parts.1.base.period", "kernel.parts.0.*")
    fit = resolve("hybrid", fixed=held, max_rounds=30).fit(model, Data.of(time[:, None], y))
    assert "kernel.parts.1.base.lengthscale" in fit.at_bound
    assert 0.009 < truncation_error(fit.model.prior.kernel, 7) <= 0.01
    assert np.all(np.isfinite(fit.posterior().f(time[:3, None])))
