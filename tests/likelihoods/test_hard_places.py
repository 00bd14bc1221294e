"""Expectations by quadrature against brute force where parameters or observations make log p awkward."""

import jax.numpy as jnp
import pytest

from sitewise import likelihoods
from sitewise.process.precision import working_precision
from sitewise.testing.check_likelihood import _Case, _expectations

INF = float("inf")
HARD = {
    "a plateau seven nats down": (likelihoods.ZeroInflatedPoisson(0.001), [0.0]),
    "a plateau beyond a slope": (likelihoods.ZeroInflatedNegativeBinomial(0.01, 20.0), [0.0, 30.0]),
    "a hurdle against the amount": (likelihoods.HurdleGamma(1.0, 0.3, -1.7), [0.0, 300.0]),
    "a hurdle without a slope": (likelihoods.HurdleGamma(5.0, 0.3, 0.0), [0.0, 0.01]),
    "few pieces and many": (likelihoods.Tweedie(2.0, 1.9), [0.0, 0.01, 300.0]),
    "trials that hardly agree": (likelihoods.BetaBinomial(0.5), [[0, 4], [50, 100]]),
    "sharp angles": (likelihoods.VonMises(60.0), [3.0]),
    "a wide interval": (likelihoods.Weibull(1.7, censored=True), [[0.1, 20.0]]),
    "a steep lifetime": (likelihoods.LogLogistic(30.0, censored=True), [[1.0, INF], [1.0, 1.3]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_expectations(name):
    likelihood, y = HARD[name]
    with working_precision():
        assert list(_expectations(_Case(likelihood, jnp.asarray(y, jnp.float64)))) == []
