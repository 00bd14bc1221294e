"""Fig. 1a of the paper (ionosphere, fold 3 of seed 42, log σ = 2.3), 21 points, per training row."""

import numpy as np
import pytest

from sitewise import EP, VI, Data, evidence, likelihoods
from sitewise.numerics.quadrature.gaussian_rules import GaussHermite
from sitewise.surface import evidence_surface

LOG_LENGTHSCALE = np.linspace(-1, 5, 21)
MCMC = [
    -0.657527, -0.619833, -0.566336, -0.502380, -0.443281, -0.397944, -0.361751, -0.330412, -0.299997, -0.279569,
    -0.268254,
    -0.263005, -0.260724, -0.265662, -0.276974, -0.294006, -0.317532, -0.345084, -0.374488, -0.407762, -0.445418,
]  # fmt: skip
ELBO = [
    -0.852449, -0.809336, -0.743428, -0.662282, -0.582304, -0.517205, -0.466291, -0.418675, -0.371916, -0.333515,
    -0.306121,
    -0.287309, -0.275993, -0.273372, -0.280310, -0.296007, -0.318328, -0.344850, -0.374446, -0.407505, -0.444407,
]  # fmt: skip
OURS = [
    -0.672032, -0.638823, -0.582351, -0.512230, -0.452395, -0.407228, -0.376132, -0.344637, -0.305339, -0.284345,
    -0.271749,
    -0.266052, -0.263565, -0.266772, -0.276988, -0.294377, -0.317536, -0.344462, -0.374261, -0.407425, -0.444377,
]  # fmt: skip


def _slice(read, ionosphere, likelihood, method=None):
    X, y, _, _ = ionosphere
    surface = evidence_surface(method or VI(), read, Data.of(X, y), LOG_LENGTHSCALE, [2.3], likelihood=likelihood)
    assert np.all(surface.code == 0)
    return surface.evidence[0] / len(y)


def test_variational_bound(ionosphere):
    np.testing.assert_allclose(_slice(evidence.elbo, ionosphere, likelihoods.BernoulliProbit()), ELBO, atol=1e-3)


def test_ep_like_evidence_with_the_published_rule(ionosphere):
    published = likelihoods.BernoulliProbit(quadrature=GaussHermite(20))
    np.testing.assert_allclose(_slice(evidence.ep, ionosphere, published), OURS, atol=5e-4)


def test_exact_rule_meets_mcmc_with_ep_sites_and_nearly_with_vi_sites(ionosphere):
    """On EP's own sites within 5e-3 everywhere; on VI's sites the evidence itself is up to 7e-3 below (log ℓ = 0.8)."""
    probit = likelihoods.BernoulliProbit()
    gap = np.abs(_slice(evidence.ep, ionosphere, probit, EP()) - MCMC)
    assert gap.max() < 5e-3
    hybrid = np.abs(_slice(evidence.ep, ionosphere, probit) - MCMC)
    assert hybrid.max() < 7.5e-3
    assert np.sum(hybrid < 5e-3) >= 15
    assert hybrid[0] < 1e-3 < abs(OURS[0] - MCMC[0])  # where the published rule is off by 0.0145


@pytest.mark.parametrize("name", ["elbo", "ep"])
def test_the_published_numbers_are_the_published_numbers(name):
    """Guard against a slip of the pen above: the curves meet at long lengthscales."""
    assert abs({"elbo": ELBO, "ep": OURS}[name][-1] - MCMC[-1]) < 2e-3
