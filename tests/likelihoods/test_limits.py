"""Limits that connect likelihoods, and observations at the edges of the support."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

from cases import METHODS
from sitewise import Data, Model, evidence, kernels, likelihoods

F = jnp.linspace(-3, 3, 13)


def table(*columns):
    return jnp.stack([jnp.broadcast_to(jnp.asarray(c, float), F.shape) for c in columns], axis=-1)


SAME = {
    "Student-t with many degrees of freedom is Gaussian": (
        likelihoods.StudentT(0.5, 1e9), F + 0.7, likelihoods.Gaussian(0.5), F + 0.7, 1e-6),
    "negative binomial with a large shape is Poisson": (
        likelihoods.NegativeBinomial(1e9), jnp.round(3 + F), likelihoods.Poisson(), jnp.round(3 + F), 1e-6),
    "exposure shifts f by its logarithm": (
        likelihoods.Poisson(exposure=True), table(3.0, jnp.exp(0.4)), likelihoods.Poisson(), 3.0 + 0 * F, None),
    "one trial is a Bernoulli": (likelihoods.Binomial(), table(1, 1), likelihoods.BernoulliLogit(), 1 + 0 * F, 1e-12),
    "one trial is a Bernoulli, probit": (
        likelihoods.Binomial(link="probit"), table(0, 1), likelihoods.BernoulliProbit(), 0 * F, 1e-12),
    "given noise that is the same everywhere is Gaussian": (
        likelihoods.HeteroscedasticGaussian(), table(0.3, 0.25), likelihoods.Gaussian(0.5), 0.3 + 0 * F, 1e-12),
    "a value that was observed is Gaussian": (
        likelihoods.CensoredGaussian(0.5), table(0.3, 0.3), likelihoods.Gaussian(0.5), 0.3 + 0 * F, 1e-12),
    "a narrow interval is a density times its width": (
        likelihoods.CensoredGaussian(0.5), table(0.3 - 5e-6, 0.3 + 5e-6), likelihoods.Gaussian(0.5), 0.3 + 0 * F, None),
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
    if "softplus" in name:
        f = g = F - 40
        tol = 1e-12
    np.testing.assert_allclose(one.log_prob(y_one, f), other.log_prob(y_other, g) + shift, rtol=tol, atol=tol)
    var = jnp.full(F.shape, 0.8)
    for method in ("expected_log_prob", "log_expected_prob"):
        values = getattr(one, method)(y_one, f, var), getattr(other, method)(y_other, g, var) + shift
        np.testing.assert_allclose(*values, rtol=max(tol, 1e-5), atol=max(tol, 1e-5))


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


def test_a_site_a_million_times_as_precise_as_the_prior_keeps_the_digits_of_the_mean():
    """Counts of a million are such sites: K b − VᵀV b would be off by 1e-7 here, a ten-thousandth of the deviation."""
    from sitewise.sites import Sites

    X, counts = jnp.array([[0.0], [0.5], [9.0]]), jnp.array([1e6, 1.2e6, 9e5])
    gram = Model.full(kernels.Matern52(1.0, 100.0), likelihoods.Poisson()).prior.gram(X)
    target = jnp.log(counts)
    mean = gram.condition(Sites(counts * target, counts)).mean
    # The prior pulls by (W K)⁻¹ of the way: m = t − W⁻¹(K + W⁻¹)⁻¹t.
    want = target - jnp.linalg.solve(gram.K + jnp.diag(1 / counts), target) / counts
    np.testing.assert_allclose(mean, want, rtol=0, atol=1e-13)


def test_a_logit_next_to_a_wide_gaussian_is_a_step():
    """E σ(f) = ∫ σ'(t) P(f > t) dt, on either side of where quadrature gives way to the closed form."""
    t = np.linspace(-60, 60, 20_001)
    slope = 0.25 / np.cosh(t / 2) ** 2
    logit = likelihoods.BernoulliLogit()
    for sd in (0.99e3, 1.01e3, 1e7, 1e14):
        for standing in (-3.0, 0.0, 0.4, 5.0):
            mean, var = jnp.asarray(standing * sd), jnp.asarray(sd**2)
            p, other = (np.exp(logit.log_expected_prob(jnp.asarray(y), mean, var)) for y in (1.0, -1.0))
            exact = np.trapezoid(slope * ndtr(standing - t / sd), t)
            assert abs(p - exact) < 1e-6 and abs(p + other - 1) < 1e-6
