"""Row-wise functions from closed forms on NumPy arrays against the same functions in compiled programs."""

import numpy as np
import pytest

from sitewise import EP, VI, Data, Laplace, Sites, evidence, likelihoods
from sitewise.inference.loop import _assess, update_at
from sitewise.inference.start import first_sites, initial_sites
from sitewise.learning.objective import _closed_slopes, evidence_slopes
from sitewise.numerics.quadrature import GaussHermite
from sitewise.priors import Marginals
from sitewise.rows import on_rows
from sitewise.types import ArrayField, module, positive

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


pytestmark = pytest.mark.usefixtures("double")


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
def test_sites_at_predictions_need_no_program(method, monkeypatch):
    data, q, sites = rows()
    likelihood = likelihoods.BernoulliLogit()
    none = Sites(0 * sites.nat1, 0 * sites.prec)
    compiled = on_rows(_assess, (method.update(), False), likelihood, data, q, none)[0]
    monkeypatch.setattr("sitewise.rows.rowwise.apply", None)
    for found, wanted in zip(update_at(method, likelihood, data, q), compiled, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-9)


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


def with_response(likelihood, count: int = 60) -> tuple[Data, Marginals, Sites]:
    data, q, sites = rows(count)
    rng = np.random.default_rng(1)
    y = rng.poisson(3.0, count).astype(float)
    if len(likelihood.columns) > 1:
        binomial = likelihood.columns[1] == "trials"
        y = np.stack([y, y + rng.integers(0, 9, count) + (y == 0) if binomial else rng.uniform(0.2, 5, count)], axis=1)
    return Data.of(np.zeros((count, 1)), y, data.weight), q, sites


CLOSED = (
    likelihoods.Binomial(),
    likelihoods.NegativeBinomial(shape=0.7),
    likelihoods.NegativeBinomial(shape=20.0, exposure=True),
    likelihoods.Gaussian(scale=0.6),
)


@pytest.mark.parametrize("read", (evidence.ep, evidence.loo), ids=lambda e: e.name)
@pytest.mark.parametrize("likelihood", CLOSED, ids=str)
def test_ep_and_its_evidence_with_parameters_of_the_likelihood(likelihood, read):
    data, q, sites = with_response(likelihood)
    found, value = _closed_slopes(read, EP(), likelihood, data, q, sites)
    wanted, expected = on_rows(evidence_slopes, (read, EP().update()), likelihood, data, q, sites)
    np.testing.assert_allclose(value, np.ravel(expected), rtol=1e-9)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", METHODS[:2], ids=lambda m: m.name)
def test_derivatives_of_the_binomial_likelihood(method):
    data, q, sites = with_response(CLOSED[0])
    closed, sums = method.assess(CLOSED[0], data, q, sites, True)
    compiled, wanted = on_rows(_assess, (method.update(), True), CLOSED[0], data, q, sites)
    for a, b in zip((*closed, *sums), (*compiled, *wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


@module
class ScaledGaussian(likelihoods.Gaussian):
    """Another likelihood that inherits derivatives in fewer parameters than it has."""

    factor: ArrayField = positive(default=1.0)


def test_an_evidence_without_all_derivatives_in_the_parameters_is_left_to_the_programs():
    data, q, sites = with_response(CLOSED[3])
    assert evidence.ep.read_with_slopes(CLOSED[3], data, q, sites) is not None
    assert evidence.ep.read_with_slopes(ScaledGaussian(), data, q, sites) is None
    softplus, probit = likelihoods.NegativeBinomial(link="softplus"), likelihoods.Binomial(link="probit")
    assert evidence.ep.read_with_slopes(softplus, data, q, sites) is None
    assert evidence.ep.read_with_slopes(probit, with_response(probit)[0], q, sites) is None
