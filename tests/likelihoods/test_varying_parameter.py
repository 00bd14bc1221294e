"""Likelihoods in which one parameter depends on x: the limit of a constant parameter, conformance, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sitewise import Model, kernels, likelihoods, means
from sitewise.likelihoods import TwoFunctions, VaryingParameter
from sitewise.numerics.dense.directions import along, variances_of_blocks
from sitewise.parameters import values
from sitewise.process.precision import working_precision
from sitewise.testing import check_likelihood, check_two_functions
from sitewise.types import module, replace, static

BASES = {
    "gaussian": (likelihoods.Gaussian(0.4), "scale", [0.3, -2.0]),
    "log-normal": (likelihoods.LogNormal(0.6), "scale", [0.1, 3.0]),
    "student-t": (likelihoods.StudentT(0.5, 4.0), "scale", [0.3, -2.0]),
    "gamma": (likelihoods.Gamma(2.5), "shape", [0.1, 3.0]),
    "negative-binomial": (likelihoods.NegativeBinomial(2.0, exposure=True), "shape", [[0, 2], [4, 7]]),
    "zero-inflated-poisson": (likelihoods.ZeroInflatedPoisson(0.3), "inflation", [0.0, 3.0]),
    "zero-inflated-negative-binomial": (likelihoods.ZeroInflatedNegativeBinomial(0.3, 2.0), "inflation", [0.0, 3.0]),
    "log-logistic": (
        likelihoods.LogLogistic(2.5, censored=True),
        "shape",
        [[1, 1.5], [1, 1], [0.5, np.inf]],
    ),
    "beta": (likelihoods.Beta(8.0), "precision", [0.1, 0.6]),
    "hurdle-gamma": (likelihoods.HurdleGamma(2.0, 0.3, 0.7), "intercept", [0.0, 2.0]),
}


@pytest.mark.parametrize("name", BASES)
def test_a_constant_parameter_is_the_base(name):
    base, parameter, y = BASES[name]
    two = VaryingParameter(base, parameter)
    with working_precision():
        y = jnp.asarray(y, float)
        f = jnp.linspace(-0.4, 0.7, len(y))
        mean = jnp.stack([f, jnp.full(len(y), two.start_level())])
        np.testing.assert_allclose(two.log_prob(y, mean), base.log_prob(y, f), rtol=1e-10)
        cov = jnp.broadcast_to(jnp.diag(jnp.array([0.3, 1e-10])), (len(y), 2, 2))
        found = jax.jit(two.expected_log_prob)(y, along(mean), variances_of_blocks(cov))
        np.testing.assert_allclose(found, base.expected_log_prob(y, f, jnp.full(len(y), 0.3)), atol=1e-7)
    assert f"likelihood.base.{parameter}" not in values(Model.full(kernels.RBF(), two))


@pytest.mark.parametrize(
    "base", [likelihoods.ZeroInflatedPoisson(0.3), likelihoods.ZeroInflatedNegativeBinomial(0.3, 2.0)]
)
@pytest.mark.parametrize("sd, error", [(0.4, 1e-9), (1.0, 1e-6), (2.0, 1e-4)])
def test_the_quadrature_of_zeros_has_the_stated_error(base, sd, error):
    two, rng, count = VaryingParameter(base, "inflation"), np.random.default_rng(0), 40
    with working_precision():
        mean = np.stack([rng.uniform(-3, 3, count), rng.uniform(-5, 4, count)])
        correlation = rng.uniform(-0.8, 0.8, count)
        cov = sd**2 * np.stack([[np.ones(count), correlation], [correlation, np.ones(count)]]).transpose(2, 0, 1)
        y = jnp.asarray(np.arange(count) % 2 * 3.0)
        found = jax.jit(two.expected_log_prob)(y, along(mean), variances_of_blocks(jnp.asarray(cov)))
        z = np.linspace(-8, 8, 301)
        density = np.exp(-0.5 * z**2) / np.sum(np.exp(-0.5 * z**2))
        f = mean[0] + sd * z[:, None, None]
        g = mean[1] + sd * (correlation * z[:, None, None] + np.sqrt(1 - correlation**2) * z[:, None])
        values = two.log_prob(y, jnp.stack(jnp.broadcast_arrays(f, g)))
    np.testing.assert_allclose(found, np.einsum("i,j,ijn->n", density, density, values), atol=2 * error)


def test_conformance():
    check_two_functions(VaryingParameter(likelihoods.Gaussian(0.4), "scale"), [0.3, -2.0], bad_y=[np.nan])


@module
class NoisyPair(TwoFunctions):
    """Gaussian noise with a log scale, by quadrature alone, with room for planted errors."""

    shift: float = static(default=0.0)
    spread: float = static(default=1.0)
    summed: bool = static(default=False)
    wide: float = static(default=1.0)

    functions = ("location", "log scale")

    def log_prob(self, y, f):
        out = -0.5 * jnp.log(2 * jnp.pi) - f[1] - 0.5 * ((y - f[0]) * jnp.exp(-f[1])) ** 2
        return out + 0.1 * jnp.sum(out) if self.summed else out

    def landmark(self, y):
        return jnp.stack([y, jnp.zeros_like(y)]), jnp.ones((2, *y.shape))

    def expected_log_prob(self, y, mean, var):
        return super().expected_log_prob(y, mean, var) + self.shift

    def tilted_moments(self, y, mean, var, power=1.0):
        shift, cov = super().tilted_moments(y, mean, var, power)
        return shift, self.wide * cov

    def cdf(self, y, f):
        return jax.scipy.stats.norm.cdf((y - f[0]) * jnp.exp(-f[1]))

    def response_mean(self, f):
        return f[0]

    def response_var(self, f):
        return jnp.exp(2 * f[1])

    def sample(self, key, f):
        return f[0] + self.spread * jnp.exp(f[1]) * jax.random.normal(key, f[0].shape)


def test_a_likelihood_of_ones_own_passes():
    check_two_functions(NoisyPair(), [0.3, -2.0])


@pytest.mark.parametrize(
    "planted, message",
    [
        ({"shift": 1e-3}, "expected_log_prob is"),
        ({"spread": 1.2}, "sample does not draw"),
        ({"summed": True}, "log_prob"),
        ({"wide": 1.001}, "the covariance of tilted_moments is off"),
    ],
)
def test_planted_errors_are_found(planted, message):
    with pytest.raises(AssertionError, match=message):
        check_two_functions(NoisyPair(**planted), [0.3, -2.0])


def test_refusals():
    with pytest.raises(ValueError, match="choose 'scale'"):
        VaryingParameter(likelihoods.Gaussian(), "shape")
    with pytest.raises(ValueError, match="has no parameter"):  # E[log p] would be −∞
        VaryingParameter(likelihoods.Weibull(), "shape")
    with pytest.raises(ValueError, match="has no parameter"):
        VaryingParameter(likelihoods.Poisson(), "rate")
    with pytest.raises(ValueError, match="must be a likelihood"):
        VaryingParameter("gaussian", "scale")
    with pytest.raises(ValueError, match="to start from"):
        VaryingParameter(replace(likelihoods.Gaussian(), scale=None), "scale")
    two = VaryingParameter(likelihoods.Gaussian(), "scale")
    with pytest.raises(ValueError, match="use check_two_functions"):
        check_likelihood(two, [0.0])
    with pytest.raises(ValueError, match="use check_likelihood"):
        check_two_functions(likelihoods.Gaussian(), [0.0])
    with pytest.raises(ValueError, match="all features are stored"):
        Model.sparse(kernels.RBF(), two, [[0.0]], keep=5)
    with pytest.raises(ValueError, match="needs a full or sparse GP"):
        Model.markov(kernels.Matern32(), two)
    with pytest.raises(ValueError, match="one kernel or two"):
        Model.full([kernels.RBF()] * 3, two)
    with pytest.raises(ValueError, match="list of means"):
        Model.full(kernels.RBF(), likelihoods.Gaussian(), [means.Zero(), None])
