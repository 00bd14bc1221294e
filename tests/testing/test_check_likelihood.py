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


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_conformance(name):
    likelihood, y, bad = ALL[name]
    check_likelihood(likelihood, y, bad_y=bad)


@module
class Right(likelihoods.Gaussian):
    """Gaussian noise of deviation 1, restricted to |y| < 10; the faults below are put into it."""

    def check(self, y):
        super().check(y)
        if np.any(np.abs(np.asarray(y)) >= 10):
            raise ValueError("Right: y must be smaller than 10.")


right = Right()


def no(self, y):
    raise ValueError("no")


FAULTS = [
    (["log_prob is not finite"], {"log_prob": lambda self, y, f: jnp.log(-jnp.exp(f))}),
    (["elementwise"], {"log_prob": lambda self, y, f: right.log_prob(y, f) - jnp.mean(f)}),
    (["must be elementwise"], {"log_prob": lambda self, y, f: jnp.sum(right.log_prob(y, f))}),
    (["positive, finite widths"], {"landmark": lambda self, y: (y, 0 * y)}),
    (["one centre and one width per row"], {"landmark": lambda self, y: (jnp.zeros(()), jnp.ones(()))}),
    (["refuses the given y"], {"check": no}),
    (["support must be one of"], {"support": "count"}),
    (["expected_log_prob is", "log_expected_prob is", "with power 0.5 is", "accepts y = 11"], {
        "expected_log_prob": lambda self, y, m, v: right.log_prob(y, m), "check": lambda self, y: None,
        "log_expected_prob": lambda self, y, m, v, power=1.0: right.log_prob(y, m)}),
    (["cdf and log_prob disagree"], {"cdf": lambda self, y, f: right.cdf(1.1 * y, f)}),
    (["must rise"], {"cdf": lambda self, y, f: 1 - right.cdf(y, f)}),
    (["sample does not draw from log_prob", "from cdf", "response_mean is", "response_var is"], {
        "sample": lambda self, key, f: 1.2 * right.sample(key, f) + 0.1}),
]  # fmt: skip


@pytest.mark.parametrize(("sentences", "methods"), FAULTS, ids=[f[0][0] for f in FAULTS])
def test_every_fault_has_its_sentence(sentences, methods):
    with pytest.raises(AssertionError) as caught:
        check_likelihood(module(type("Wrong", (Right,), methods))(), [0.5, 2.0], bad_y=[11.0])
    assert all(s in str(caught.value) for s in sentences), str(caught.value)
    assert len(str(caught.value).splitlines()) <= 8


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

    with pytest.raises(AssertionError, match="is convex"):
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


@module
class Comb(likelihoods.Likelihood):
    """Five narrow modes: more than a search for landmarks can find."""

    def log_prob(self, y, f):
        return jnp.log(1e-6 + sum(jnp.exp(-0.5 * ((f - y - c) / 0.01) ** 2) for c in (-30.0, -7.1, 0.0, 11.3, 39.7)))


def test_the_region_where_quadrature_is_not_enough_is_named():
    with pytest.raises(AssertionError, match=r"log_expected_prob is .* under N\(.*, .*\), but brute force") as caught:
        check_likelihood(Comb(), [0.5])
    assert "Gaussians from N(" in str(caught.value)
    assert "define landmark(y)" in str(caught.value)


@module
class ZeroInflated(likelihoods.Likelihood):
    """A plateau on either side of a step, and nothing but log_prob."""

    def log_prob(self, y, f):
        return jnp.where(y == 0, jnp.log(0.2 + 0.8 * jnp.exp(-jnp.exp(f))), likelihoods.Poisson().log_prob(y, f))


@module
class Square(likelihoods.Likelihood):
    """y = f² + noise: two modes."""

    def log_prob(self, y, f):
        return likelihoods.Gaussian(0.5).log_prob(y, f * f)


@pytest.mark.parametrize("likelihood", [pytest.param(ZeroInflated(), marks=pytest.mark.slow), Square()])
def test_a_users_plateau_and_two_modes_are_resolved(likelihood):
    check_likelihood(likelihood, [0.0, 4.0, 100.0])


@module
class WrongSlopes(likelihoods.BernoulliProbit):
    """The third derivative on NumPy arrays has the wrong sign."""

    def log_prob_slopes(self, y, f):
        return super().log_prob_slopes(y, f) * np.array([1.0, 1.0, 1.0, -1.0])[:, None]


def test_wrong_derivatives_on_numpy_arrays_are_found():
    check_likelihood(likelihoods.BernoulliProbit(), [0.0, 1.0])
    with pytest.raises(AssertionError, match="log_prob_slopes differs from log_prob"):
        check_likelihood(WrongSlopes(), [0.0, 1.0])
