"""What a fit says about itself: the objective that it maximised, doubts, advice, and one line for the console."""

import numpy as np
import pytest

from cases import problem
from sitewise import EP, VEM, VI, Data, Model, evidence, hyperpriors, kernels, likelihoods, posterior, resolve
from sitewise.evidence import Evidence
from sitewise.methods import METHODS
from sitewise.types import Outcome


@pytest.fixture(scope="module")
def rows():
    return Data.of(*problem("student-t", 30, seed=2))


def test_the_report_names_what_was_climbed(rows):
    model = Model.full(kernels.Matern52(), likelihoods.StudentT())
    prior = {"kernel.variance": hyperpriors.LogNormal()}
    fit = resolve("hybrid", power=0.5, priors=prior, max_rounds=2).fit(model, rows)
    assert fit.climbed == (
        "ep(0.5) evidence of vi sites by its implicit gradient; held fixed: likelihood.df; "
        "MAP with priors on kernel.variance"
    )
    assert f"Maximised: {fit.climbed}. It ended at {fit.objective:.4f} nats." in fit.report()
    # The objective is that evidence on the returned sites, with the log prior.
    log_prior = float(prior["kernel.variance"].log_prob(fit.parameters["kernel.variance"]))
    here = float(evidence.power_ep(0.5)(fit.model, rows, fit.sites))
    assert fit.objective == pytest.approx(here + log_prior, abs=1e-8)
    held = resolve("vi", fixed=("*",)).fit(model, rows)
    assert held.climbed == "nothing, as every parameter was held fixed"


def test_advice_names_the_settings_of_its_reader(rows):
    model = Model.full(kernels.Matern52(), likelihoods.StudentT())
    fit = resolve("vi", max_rounds=1).fit(model, rows)
    assert not fit.converged
    assert "max_rounds" in fit.report() and "max_iter" not in fit.report()
    assert "max_iter" in fit.report("estimator") and "max_rounds" not in fit.report("estimator")


@pytest.mark.parametrize("outcome", Outcome)
def test_advice_for_an_estimator_has_no_settings_of_the_library(outcome):
    for word in ("float64", "float32", "max_steps", "damping", "VI()"):
        assert word not in outcome.advice_for("estimator")
    assert outcome.advice == outcome.advice_for("library")


def test_powers_have_names_of_their_own():
    assert evidence.power_ep(0.5).name == EP(power=0.5).name == "ep(0.5)"
    assert evidence.power_ep(1.0) == evidence.ep and EP().name == EP(power=1.0).name == "ep"
    assert EP(power=0.5).fallbacks()[-1].name == "ep(0.25)"
    assert resolve("hybrid", evidence="ep", power=0.5).evidence == evidence.power_ep(0.5)
    assert resolve("hybrid", evidence=evidence.power_ep(0.5), power=0.25).evidence == evidence.power_ep(0.25)
    own = Evidence("ep", lambda likelihood, data, q, sites, power: q.mean)
    with pytest.raises(ValueError, match="power belongs to the ep evidence"):
        resolve("hybrid", evidence=own, power=0.5)


def test_sparse_priors_have_pairs_of_their_own():
    """EP's evidence on VI's sites has no bound there (docs/explanation/sparse.md); it must be asked for."""
    sparse = Model.sparse(kernels.Matern52(), likelihoods.BernoulliProbit(), [[0.0], [1.0]])
    full = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
    pair = resolve("hybrid").pair(sparse)
    assert (pair.inference.name, pair.evidence) == ("ep", evidence.ep)
    assert resolve("hybrid").pair(full).inference.name == "vi"
    assert resolve("hybrid", evidence="ep").pair(sparse).inference.name == "vi"
    learner = resolve("hybrid-vem")
    assert isinstance(learner, VEM)
    assert learner.climbs(sparse).evidence is evidence.collapsed
    assert learner.climbs(full).evidence is evidence.ep
    assert resolve("hybrid-vem", evidence="ep").climbs(sparse).evidence is evidence.ep
    assert METHODS["hybrid-vem"].objective_on("sparse") == "collapsed"


def test_one_line_for_the_console(rows):
    model = Model.full(kernels.Matern52(), likelihoods.StudentT())
    fit = resolve("vi", max_rounds=1).fit(model, rows)
    for shown in (fit, fit.solution, posterior(fit.model, rows, fit.sites), VI().solve(model, rows)):
        assert len(repr(shown)) < 300 and "array" not in repr(shown) and "\n" not in repr(shown)
    assert "kernel.lengthscale=" in repr(fit) and "vi on 30 rows" in repr(fit)
    assert repr(VI().solve(model, rows)).startswith("Solution(converged, residual ")


def test_the_elbo_of_classes_is_reported_on_sites_of_vi_only():
    """On EP's sites of separable classes it is about −1e13: exp(m + v/2) of variances as wide as the prior's."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 2))
    y = (X[:, 0] > -0.5).astype(int) + (X[:, 0] > 0.5)
    model = Model.full(kernels.RBF(1.0, 400.0), likelihoods.Softmax(3))
    ep, vi = (resolve(name, fixed=("*",)).fit(model, Data.of(X, y.astype(float))) for name in ("hybrid", "vi"))
    assert "elbo" not in ep.evidences and "ELBO" not in ep.report()
    assert "elbo" in vi.evidences and "EP evidence minus ELBO" in vi.report()


@pytest.mark.parametrize(("count", "few"), [(12, True), (60, True), (140, False)])
def test_the_report_says_that_inducing_inputs_are_too_few(count, few):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(150, 2))
    data = Data.of(X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=150))
    model = Model.sparse(kernels.Matern52(), likelihoods.Gaussian(0.3), X[:count])
    report = resolve("hybrid").fit(model, data).report()
    assert (f"{count} inducing inputs are too few" in report and f"Sparse({2 * count})" in report) == few
