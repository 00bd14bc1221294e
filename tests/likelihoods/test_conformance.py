"""Every likelihood obeys `check_likelihood`, and `check_likelihood` finds what is wrong with a broken one."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from cases import LIKELIHOODS, MORE_LIKELIHOODS
from sitewise import likelihoods
from sitewise.testing import check_likelihood
from sitewise.types import module

Y = {"gaussian": [0.7, -1.2], "probit": [0, 1], "logit": [0, 1], "student-t": [0.7, -2], "poisson": [0, 3, 40]}
ALL = {name: (likelihood, Y[name], []) for name, likelihood in LIKELIHOODS.items()} | MORE_LIKELIHOODS


@pytest.mark.parametrize("name", ALL)
def test_conformance(name):
    likelihood, y, bad = ALL[name]
    check_likelihood(likelihood, y, bad_y=bad)


gamma = likelihoods.Gamma(2.0)
FAULTS = {
    "log_prob is not finite": {"log_prob": lambda self, y, f: jnp.log(-jnp.exp(f))},
    "elementwise": {"log_prob": lambda self, y, f: gamma.log_prob(y, f) - jnp.mean(f)},
    "must be elementwise in f": {"log_prob": lambda self, y, f: jnp.sum(gamma.log_prob(y, f))},
    "expected_log_prob is": {"expected_log_prob": lambda self, y, m, v: gamma.log_prob(y, m)},
    "log_expected_prob is": {"log_expected_prob": lambda self, y, m, v, power=1.0: gamma.log_prob(y, m)},
    "positive, finite widths": {"landmark": lambda self, y: (jnp.log(y), 0 * y)},
    "a centre and a width per row": {"landmark": lambda self, y: (jnp.zeros(()), jnp.ones(()))},
    "cdf and log_prob disagree": {"cdf": lambda self, y, f: gamma.cdf(1.1 * y, f)},
    "must rise": {"cdf": lambda self, y, f: 1 - gamma.cdf(y, f)},
    "sample does not draw from log_prob": {"sample": lambda self, key, f: gamma.sample(key, f + 0.1)},
    "response_mean is": {"response_mean": lambda self, f: 1.05 * jnp.exp(f)},
    "response_var is": {"response_var": lambda self, f: jnp.exp(f)},
    "check\\(y\\) accepts": {"check": lambda self, y: None},
    "check\\(y\\) refuses": {"check": lambda self, y: (_ for _ in ()).throw(ValueError("no"))},
}


@pytest.mark.parametrize("words", FAULTS)
def test_every_fault_has_its_sentence(words):
    with pytest.raises(AssertionError, match=words):
        check_likelihood(module(type("Broken", (likelihoods.Gamma,), FAULTS[words]))(2.0), [0.5, 2.0])


def test_false_claims_and_wrong_derivatives_are_found():
    import jax

    @jax.custom_jvp
    def crooked(f):
        return -(f**2)

    crooked.defjvp(lambda primals, tangents: (crooked(primals[0]), -1.9 * primals[0] * tangents[0]))

    @module
    class Crooked(likelihoods.Likelihood):
        def log_prob(self, y, f):
            return crooked(f - y)

    with pytest.raises(AssertionError, match="first derivative of log_prob"):
        check_likelihood(Crooked(), [0.5])

    @module
    class Concave(likelihoods.StudentT):
        log_concave = True

    with pytest.raises(AssertionError, match="bends upwards"):
        check_likelihood(Concave(0.5), [0.5])


def test_distributions_with_side_information_agree_with_scipy():
    f = jnp.array([-0.3, 0.4, 1.2])
    rate = np.exp(np.asarray(f))
    y = np.array([[0.0, 2.0], [3.0, 0.5], [9.0, 4.0]])
    mean = y[:, 1] * rate
    poisson, binomial = likelihoods.Poisson(exposure=True), likelihoods.NegativeBinomial(2.0, exposure=True)
    np.testing.assert_allclose(poisson.cdf(jnp.asarray(y), f), stats.poisson.cdf(y[:, 0], mean), rtol=1e-10)
    np.testing.assert_allclose(poisson.log_prob(jnp.asarray(y), f), stats.poisson.logpmf(y[:, 0], mean), rtol=1e-10)
    np.testing.assert_allclose(binomial.cdf(jnp.asarray(y), f), stats.nbinom.cdf(y[:, 0], 2, 2 / (2 + mean)), rtol=1e-9)
    trials = np.array([[0.0, 2.0], [3.0, 5.0], [4.0, 4.0]])
    p = 1 / (1 + np.exp(-np.asarray(f)))
    successes = likelihoods.Binomial()
    want = stats.binom.cdf(trials[:, 0], trials[:, 1], p)
    np.testing.assert_allclose(successes.cdf(jnp.asarray(trials), f), want, rtol=1e-10)
    want = stats.binom.logpmf(trials[:, 0], trials[:, 1], p)
    np.testing.assert_allclose(successes.log_prob(jnp.asarray(trials), f), want, rtol=1e-10)


def test_wrong_columns_are_named():
    with pytest.raises(ValueError, match="the columns successes, trials"):
        likelihoods.Binomial().check(np.ones(3))
    with pytest.raises(ValueError, match="one number per row"):
        likelihoods.Gamma().check(np.ones((3, 2)))
    with pytest.raises(ValueError, match="link must be"):
        likelihoods.Poisson(link="identity")
    with pytest.raises(ValueError, match="a table with the columns"):
        check_likelihood(likelihoods.Binomial(), 1.0)
