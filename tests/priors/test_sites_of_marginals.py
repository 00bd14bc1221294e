"""Derivatives of marginals in the sites, and the divergence of a row's marginal from its cavity, written out."""

import numpy as np
import pytest

from sitewise import kernels, priors
from sitewise.arrays.engine import to_host
from sitewise.sites import Sites

RNG = np.random.default_rng(4)
X = RNG.normal(size=(5, 2))
SITES = Sites(RNG.normal(size=5), RNG.uniform(0.2, 2.0, size=5))
PRIORS = {
    "full": priors.FullPrior(kernels.Matern52(0.8, 1.3)),
    "sparse": priors.SparsePrior(kernels.Matern52(0.8, 1.3), X[:3] + 0.1),
}

pytestmark = pytest.mark.usefixtures("double")


@pytest.mark.parametrize("name", PRIORS)
def test_the_derivative_in_the_sites_is_a_difference_quotient(name):
    gram = to_host(PRIORS[name]).gram(X)
    q, factor = gram.condition_with_factor(SITES, None)
    by_mean, by_var, by_log_z = RNG.normal(size=5), RNG.normal(size=5), 0.7

    def value(nat1: np.ndarray, prec: np.ndarray) -> float:
        at = gram.condition(Sites(nat1, prec))
        return float(by_mean @ at.mean + by_var @ at.var + by_log_z * at.log_z)

    by_q = q._replace(mean=by_mean, var=by_var, log_z=np.float64(by_log_z), resid=0 * q.resid, prior_mean=0 * by_mean)
    found = gram.covariance(SITES, factor).pull_to_sites(q, by_q)
    steps = 1e-6 * np.eye(5)
    by_nat1 = [(value(SITES.nat1 + s, SITES.prec) - value(SITES.nat1 - s, SITES.prec)) / 2e-6 for s in steps]
    by_prec = [(value(SITES.nat1, SITES.prec + s) - value(SITES.nat1, SITES.prec - s)) / 2e-6 for s in steps]
    np.testing.assert_allclose(found.nat1, by_nat1, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.prec, by_prec, rtol=1e-6, atol=1e-8)


def test_influence_is_the_divergence_from_the_cavity():
    """∫ q log(q / q₋) on a grid; a share of nothing changes nothing."""
    q = to_host(PRIORS["full"]).gram(X).condition(SITES)
    left = q.cavity(SITES, 1.0)
    f = np.linspace(-12, 12, 20_001)[:, None]

    def log_density(mean, var):
        return -0.5 * ((f - mean) ** 2 / var + np.log(2 * np.pi * var))

    own, without = log_density(q.mean, q.var), log_density(left.mean, left.var)
    want = np.trapezoid(np.exp(own) * (own - without), f[:, 0], axis=0)
    np.testing.assert_allclose(q.influence(SITES, 1.0), want, rtol=1e-6)
    np.testing.assert_allclose(q.influence(SITES, 0.0), 0.0, atol=1e-12)
