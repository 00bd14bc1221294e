"""Limits that connect likelihoods, and observations at the edges of the support."""

import jax
import numpy as np
import pytest
from scipy.special import ndtr

from cases import METHODS
from sitewise import Data, Model, evidence, kernels, likelihoods

F = np.linspace(-3, 3, 13)


def table(*columns):
    return np.stack([np.broadcast_to(np.asarray(c, float), F.shape) for c in columns], axis=-1)


@jax.jit
def _log_prob(likelihood, y, f):
    return likelihood.log_prob(y, f)


@jax.jit
def _expectations(likelihood, y, mean, var):
    return likelihood.expected_log_prob(y, mean, var), likelihood.log_expected_prob(y, mean, var)


SAME = {
    "Student-t with many degrees of freedom is Gaussian": (
        likelihoods.StudentT(0.5, 1e9), F + 0.7, likelihoods.Gaussian(0.5), F + 0.7, 1e-6),
    "negative binomial with a large shape is Poisson": (
        likelihoods.NegativeBinomial(1e9), np.round(3 + F), likelihoods.Poisson(), np.round(3 + F), 1e-6),
    "exposure shifts f by its logarithm": (
        likelihoods.Poisson(exposure=True), table(3.0, np.exp(0.4)), likelihoods.Poisson(), 3.0 + 0 * F, None),
    "one trial is a Bernoulli": (likelihoods.Binomial(), table(1, 1), likelihoods.BernoulliLogit(), 1 + 0 * F, 1e-12),
    "one trial is a Bernoulli, probit": (
        likelihoods.Binomial(link="probit"), table(0, 1), likelihoods.BernoulliProbit(), 0 * F, 1e-12),
    "given noise that is the same everywhere is Gaussian": (
        likelihoods.HeteroscedasticGaussian(), table(0.3, 0.25), likelihoods.Gaussian(0.5), 0.3 + 0 * F, 1e-12),
    "a value that was observed is Gaussian": (
        likelihoods.CensoredGaussian(0.5), table(0.3, 0.3), likelihoods.Gaussian(0.5), 0.3 + 0 * F, 1e-12),
    "a narrow interval is a density times its width": (
        likelihoods.CensoredGaussian(0.5), table(0.3 - 5e-6, 0.3 + 5e-6), likelihoods.Gaussian(0.5), 0.3 + 0 * F, None),
    "a lifetime that was observed is not censored": (
        likelihoods.Weibull(1.7, censored=True), table(1.3, 1.3), likelihoods.Weibull(1.7), 1.3 + 0 * F, 1e-12),
    "a narrow interval of a lifetime is a density times its width": (
        likelihoods.LogLogistic(1.7, censored=True), table(1.3 - 5e-6, 1.3 + 5e-6), likelihoods.LogLogistic(1.7),
        1.3 + 0 * F, None),
    "Weibull lifetimes of shape 1 are Gamma ones of shape 1": (
        likelihoods.Weibull(1.0), 1.3 + 0 * F, likelihoods.Gamma(1.0), 1.3 + 0 * F, 1e-12),
    "a right-censored exponential lifetime is no event of a Poisson process": (
        likelihoods.Weibull(1.0, censored=True), table(1.3, np.inf), likelihoods.Poisson(exposure=True),
        table(0, 1.3), None),
    "without inflation there are Poisson counts": (
        likelihoods.ZeroInflatedPoisson(1e-9), np.round(3 + F), likelihoods.Poisson(), np.round(3 + F), 1e-6),
    "without inflation there are negative binomial counts": (
        likelihoods.ZeroInflatedNegativeBinomial(1e-9, 2.0), np.round(3 + F), likelihoods.NegativeBinomial(2.0),
        np.round(3 + F), 1e-6),
    "amounts beyond a hurdle that all take are Gamma": (
        likelihoods.HurdleGamma(2.0, 40.0, 0.0), 1.3 + 0 * F, likelihoods.Gamma(2.0), 1.3 + 0 * F, 1e-12),
    "beta-binomial with a high precision is binomial": (
        likelihoods.BetaBinomial(1e8), table(3, 10), likelihoods.Binomial(), table(3, 10), 1e-5),
    "one beta-binomial trial is a Bernoulli": (
        likelihoods.BetaBinomial(2.0), table(1, 1), likelihoods.BernoulliLogit(), 1 + 0 * F, 1e-9),
    "the median of an asymmetric Laplace is Laplace noise": (
        likelihoods.AsymmetricLaplace(0.3), F + 0.7, likelihoods.LaplaceNoise(0.6), F + 0.7, 1e-9),
    "sharp angles are Gaussian": (
        likelihoods.VonMises(1e8), F + 1e-5, likelihoods.Gaussian(1e-4), F + 1e-5, 1e-6),
    "one output is the plain likelihood": (
        likelihoods.Switched([likelihoods.NegativeBinomial(2.0)]), table(3, 0), likelihoods.NegativeBinomial(2.0),
        3 + 0 * F, 1e-12),
    "softplus is the log link far to the left": (
        likelihoods.Poisson(link="softplus"), 2 + 0 * F, likelihoods.Poisson(), 2 + 0 * F, None),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_limits(name):
    one, y_one, other, y_other, tol = SAME[name]
    f, g, shift = F, F, 0.0
    if "exposure" in name:
        g, tol = F + 0.4, 1e-12
    if "narrow" in name:
        shift, tol = np.log(1e-5), 1e-5
    if "right-censored" in name:
        g, tol = -F, 1e-12
    if "softplus" in name:
        f = g = F - 40
        tol = 1e-12
    np.testing.assert_allclose(_log_prob(one, y_one, f), _log_prob(other, y_other, g) + shift, rtol=tol, atol=tol)
    var = np.full(F.shape, 0.8 if "sharp" not in name else 1e-9)
    for a, b in zip(_expectations(one, y_one, f, var), _expectations(other, y_other, g, var), strict=True):
        np.testing.assert_allclose(a, b + shift, rtol=max(tol, 1e-5), atol=max(tol, 1e-5))


# Not every one with every method: each pair is a program to compile.
EXTREMES = {
    "counts of a million": ("vi", likelihoods.Poisson(), [1e6, 1.2e6, 3, 0]),
    "shares next to 0 and 1": ("vi", likelihoods.Beta(5.0), [1e-12, 1e-8, 0.5, 1 - 1e-12]),
    "tiny and huge values": ("ep", likelihoods.Gamma(2.0), [1e-9, 1e-8, 1.0, 1e9]),
    "far censored": ("ep", likelihoods.CensoredGaussian(0.1), [[5, np.inf], [5, 6], [0, 0], [-np.inf, -5]]),
    "far outliers": ("ep", likelihoods.StudentT(0.1, 3.0), [0.0, 1e6, 0.1, -1e6]),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_extreme_observations_give_finite_converged_results(name):
    method, likelihood, y = EXTREMES[name]
    X = np.array([[0.0], [0.5], [9.0], [30.0]])
    model = Model.full(kernels.Matern52(1.0, 100.0), likelihood)
    data = Data.of(X, y)
    likelihood.check(data.y)
    solution = METHODS[method].solve(model, data)
    assert solution.outcome.ok
    matched = evidence.elbo if method == "vi" else evidence.ep
    assert np.isfinite(float(matched(model, data, solution.sites)))
    if name == "counts of a million":
        traced = jax.jit(METHODS[method].solve)(model, data)
        assert traced.outcome.ok
        assert np.isfinite(float(jax.jit(matched)(model, data, traced.sites)))


def test_a_site_a_million_times_as_precise_as_the_prior_keeps_the_digits_of_the_mean():
    """Counts of a million are such sites: K b − VᵀV b would be off by 1e-7 here, a ten-thousandth of the deviation."""
    from sitewise.sites import Sites

    X, counts = np.array([[0.0], [0.5], [9.0]]), np.array([1e6, 1.2e6, 9e5])
    gram = Model.full(kernels.Matern52(1.0, 100.0), likelihoods.Poisson()).prior.gram(X)
    target = np.log(counts)
    sites = Sites(counts * target, counts)
    # The prior pulls by (W K)⁻¹ of the way: m = t − W⁻¹(K + W⁻¹)⁻¹t.
    want = target - np.linalg.solve(gram.K + np.diag(1 / counts), target) / counts
    for mean in (gram.condition(sites).mean, jax.jit(lambda gram, sites: gram.condition(sites).mean)(gram, sites)):
        np.testing.assert_allclose(mean, want, rtol=0, atol=1e-13)


def test_a_logit_next_to_a_wide_gaussian_is_a_step():
    """E σ(f) = ∫ σ'(t) P(f > t) dt, on either side of where quadrature gives way to the closed form."""
    t = np.linspace(-60, 60, 20_001)
    slope = 0.25 / np.cosh(t / 2) ** 2
    sd, standing = (a.ravel() for a in np.meshgrid((0.99e3, 1.01e3, 1e7, 1e14), (-3.0, 0.0, 0.4, 5.0)))
    expected = jax.jit(likelihoods.BernoulliLogit().log_expected_prob)
    p, other = (np.exp(expected(np.full(sd.shape, y), standing * sd, sd**2)) for y in (1.0, -1.0))
    exact = np.trapezoid(slope * ndtr(standing[:, None] - t / sd[:, None]), t)
    np.testing.assert_allclose(p, exact, rtol=0, atol=1e-6)
    np.testing.assert_allclose(p + other, 1, rtol=0, atol=1e-6)
