"""Laws of y given f that hold for every likelihood: distribution function, draws, starts and defaults."""

import functools

import jax
import numpy as np
import pytest
from scipy import special, stats

from cases import LIKELIHOODS, MORE_LIKELIHOODS
from sitewise import Model, kernels, likelihoods
from sitewise.likelihoods.amounts import AmountsLaw
from sitewise.parameters import Trainable

EVERY = {**LIKELIHOODS, **{name: likelihood for name, (likelihood, *_) in MORE_LIKELIHOODS.items()}}
F = np.array([-0.4, 0.9])
DRAWS = 10_000


@jax.jit
def _drawn(likelihood, key, f, *side):
    return likelihood.sample(key, f, *side), likelihood.response_mean(f, *side), likelihood.response_var(f, *side)


@functools.partial(jax.jit, static_argnames="power")
def _log_expected_prob(likelihood, y, mean, var, power):
    return likelihood.log_expected_prob(y, mean, var, power)


@jax.jit
def _cdf(likelihood, y, f):
    return likelihood.cdf(y, f)


def test_the_expected_distribution_function_of_asymmetric_noise_is_the_integral():
    likelihood = likelihoods.AsymmetricLaplace(0.7, quantile=0.9)
    f = np.linspace(-20, 20, 400_001)
    for mean, var, y in ((0.3, 0.5, 0.1), (-1.0, 2.0, 1.5)):
        d = (y - f) / 0.7  # the quantile 0.9 of y is f
        cdf = np.where(d > 0, 1 - 0.1 * np.exp(-0.9 * np.abs(d)), 0.9 * np.exp(-0.1 * np.abs(d)))
        want = np.trapezoid(cdf * stats.norm.pdf(f, mean, np.sqrt(var)), f)
        found = likelihood.expected_cdf(*(np.array([value]) for value in (y, mean, var)))
        np.testing.assert_allclose(found, want, rtol=1e-6)


def test_the_distribution_function_of_overdispersed_successes_is_scipys():
    precision, n = 3.0, 12
    p = special.expit(F)
    k = np.arange(-1, n + 1.0)
    for share, f in zip(p, F, strict=True):
        y = np.stack([k, np.full_like(k, n)], axis=-1)
        found = _cdf(likelihoods.BetaBinomial(precision), y, np.full_like(k, f))
        want = stats.betabinom.cdf(k, n, precision * share, precision * (1 - share))
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("von-mises", "switched")])
def test_draws_have_the_mean_and_variance_of_the_likelihood(name):
    likelihood = EVERY[name]
    side = (3.0 * np.ones(DRAWS),) if {"exposure", "trials", "noise"} & set(likelihood.keywords) else ()
    drawn, mean, var = (np.asarray(part) for part in _drawn(likelihood, jax.random.key(1), np.full(DRAWS, 0.9), *side))
    assert abs(drawn.mean() - mean[0]) < 5 * np.sqrt(var[0] / DRAWS)
    if name not in ("student-t", "log-logistic"):  # whose draws have no variance to compare with
        assert drawn.var() == pytest.approx(var[0], rel=0.15)


@pytest.mark.parametrize("concentration", [1e-4, 0.5, 2.0, 30.0])
def test_drawn_angles_have_the_mean_cosine_of_the_von_mises_distribution(concentration):
    drawn, _, _ = _drawn(likelihoods.VonMises(concentration), jax.random.key(0), np.full(DRAWS, 0.7))
    cosine = np.cos(np.asarray(drawn) - 0.7)
    want = special.ive(1, concentration) / special.ive(0, concentration)
    assert abs(cosine.mean() - want) < 5 * cosine.std() / np.sqrt(DRAWS)


def test_quantiles_of_amounts_invert_the_distribution_function():
    law = AmountsLaw.of(np.array([0.0, 0.0, 1.0, 2.0, 5.0]))
    for level in (0.5, 0.7, 0.9, 0.99):
        assert law.cdf(law.ppf(level)) == pytest.approx(level, abs=1e-9)
    assert law.ppf(0.3) == 0.0


def test_amounts_start_at_the_share_of_zeros_and_the_mean_of_positive_amounts():
    y = np.array([0.0, 0.0, 0.0, 1.0, 3.0])
    start = likelihoods.HurdleGamma.for_targets(y, np.ones(5))
    # At the mean positive amount, 2, the probability of a positive amount is (2 + ½)/(5 + 1).
    assert float(start.response_mean(np.log(2.0))) == pytest.approx(2.0 * 2.5 / 6)
    assert start.level(y, np.array([1.0, 1.0, 1.0, 3.0, 1.0])) == pytest.approx(np.log(1.5))
    assert start.level(np.zeros(3), np.ones(3)) is None
    empty = likelihoods.HurdleGamma.for_targets(np.zeros(4), np.ones(4))
    assert float(empty.intercept) == 0.0


@pytest.mark.parametrize("power", [0.5, 0.2])
def test_a_power_of_ordinal_probabilities_is_not_the_closed_form_of_power_one(power):
    likelihood = likelihoods.Ordinal(-0.5, [1.0, 0.3])
    y, mean, var = np.array([1.0, 3.0]), np.array([0.3, -0.2]), np.array([0.8, 2.0])
    Z = np.linspace(-9, 9, 4001)
    f = mean + np.sqrt(var) * Z[:, None]
    ends = np.array([-np.inf, -0.5, 0.5, 0.8, np.inf])
    p = (stats.norm.cdf(ends[[2, 4]] - f) - stats.norm.cdf(ends[[1, 3]] - f)) ** power
    want = np.log(np.trapezoid(p * stats.norm.pdf(Z)[:, None], Z, axis=0))
    np.testing.assert_allclose(_log_expected_prob(likelihood, y, mean, var, power), want, rtol=1e-6)


def test_defaults_are_standard_distributions():
    y, f = np.array([0.7]), np.array([0.1])
    student = likelihoods.StudentT()
    want = stats.t.logpdf(y, float(student.df), f, 1.0)
    np.testing.assert_allclose(student.log_prob(y, f), want, rtol=1e-12)
    noise = likelihoods.HeteroscedasticGaussian()
    row, var = np.array([[0.7, 0.3]]), np.array([0.5])
    # With the full power and hardly any residual variance the smoothed likelihood is the likelihood.
    smoothed = noise.log_expected_smoothed_prob(row, f, var, np.array([1e-9]))
    np.testing.assert_allclose(smoothed, noise.log_expected_prob(row, f, var), rtol=1e-6)


def test_the_power_of_a_tweedie_variance_stays_between_poisson_and_gamma():
    trainable = Trainable.of(Model.full(kernels.RBF(), likelihoods.Tweedie()))
    for end in (-30.0, 30.0):
        power = trainable.constrained(np.full(len(trainable.labels), end))["likelihood.variance_power"]
        assert 1 < power < 2


@pytest.mark.parametrize("likelihood", [likelihoods.BernoulliProbit(), likelihoods.BernoulliLogit()])
def test_probabilities_at_numpy_numbers_need_no_program(likelihood, monkeypatch):
    f = np.array([[-40.0, -3.0, 0.0], [0.5, 3.0, 40.0]])
    with jax.enable_x64(True):
        expected = np.asarray(likelihood.response_mean(f))
    monkeypatch.setattr(type(likelihood), "response_mean", None)
    np.testing.assert_allclose(likelihood.response_mean_values(f), expected, rtol=1e-12)
