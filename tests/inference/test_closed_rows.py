"""Row-wise functions from closed forms on NumPy arrays against the same functions in compiled programs."""

import numpy as np
import pytest

from sitewise import EP, VI, Data, Laplace, Sites, evidence, likelihoods
from sitewise.inference.loop import _assess
from sitewise.inference.start import first_sites, initial_sites
from sitewise.learning.objective import _closed_slopes, evidence_slopes
from sitewise.numerics.quadrature import GaussHermite
from sitewise.priors import Marginals
from sitewise.process.precision import working_precision
from sitewise.rows import on_rows

METHODS = (Laplace(), VI(), EP())
EVIDENCES = (evidence.laplace, evidence.elbo, evidence.ep)


def rows(count: int = 60, *, sd: float = 1.0) -> tuple[Data, Marginals, Sites]:
    """Marginals of many means and variances, with sites that leave a cavity, and rows of weight 0, 1 and 2."""
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 3, count).astype(float)
    data = Data.of(np.zeros((count, 1)), rng.choice([-1.0, 1.0], count), weight)
    var = (sd * np.exp(0.5 * rng.normal(size=count))) ** 2
    q = Marginals(3 * rng.normal(size=count), var, 0.1 * var, 1.3, 0.2 * rng.normal(size=count), 0.0)
    return data, q, Sites(rng.normal(size=count), 0.8 * rng.uniform(size=count) / var)


@pytest.fixture(autouse=True)
def double():
    with working_precision():
        yield


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("sd", [0.1, 1.0, 2.0, 30.0])
def test_updates_and_their_slopes(method, sd):
    data, q, sites = rows(sd=sd)
    likelihood = likelihoods.BernoulliProbit()
    closed, closed_sums = method.assess(likelihood, data, q, sites, True)
    compiled, sums = on_rows(_assess, (method.update(), True), likelihood, data, q, sites)
    assert len(closed) == len(compiled) > 2
    for found, wanted in zip((*closed, *closed_sums), (*compiled, *sums), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-9 * max(1.0, sd**-4))


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
@pytest.mark.parametrize("read", EVIDENCES, ids=lambda e: e.name)
def test_evidences_and_their_slopes(method, read):
    data, q, sites = rows()
    likelihood = likelihoods.BernoulliProbit()
    found, value = _closed_slopes(read, method, likelihood, data, q, sites)
    wanted, expected = on_rows(evidence_slopes, (read, method.update()), likelihood, data, q, sites)
    assert value[0] == pytest.approx(float(expected[0]), abs=1e-10)
    assert float(read.on_marginals(likelihood, data, q, sites)) == pytest.approx(float(expected[0]), abs=1e-10)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_first_sites():
    data, *_ = rows()
    likelihood = likelihoods.BernoulliProbit()
    for found, wanted in zip(first_sites(likelihood, data), initial_sites(likelihood, data), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_exhausted_cavities_and_other_powers_are_left_to_the_programs():
    data, q, sites = rows()
    likelihood = likelihoods.BernoulliProbit()
    assert EP().assess(likelihood, data, q, sites._replace(prec=1 / q.var), True) is None
    assert EP(power=0.5).assess(likelihood, data, q, sites, True) is None
    assert VI(tight=True).assess(likelihood, data, q, sites, True) is None


class FlatProbit(likelihoods.BernoulliProbit):
    """Another likelihood that inherits from one with derivatives on NumPy arrays."""

    def log_prob(self, y, f):
        return 0.5 * super().log_prob(y, f)


class HalfVI(VI):
    """Another update that inherits from one with a closed form."""

    def propose(self, likelihood, data, q, sites):
        return super().propose(likelihood, data, q, sites).scaled(0.5)


def test_overridden_functions_do_not_inherit_closed_forms():
    data, q, sites = rows()
    assert HalfVI().assess(likelihoods.BernoulliProbit(), data, q, sites, True) is None
    for method in METHODS:
        assert method.assess(FlatProbit(), data, q, sites, True) is None
        rule = likelihoods.BernoulliProbit(quadrature=GaussHermite(20))
        assert method.mean_only or method.assess(rule, data, q, sites, True) is None
