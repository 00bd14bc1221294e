"""Awkward data: a right answer, or an outcome with advice; never NaN, never a hang."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import EVIDENCES, METHODS, problem
from sitewise import EP, Data, Model, Outcome, kernels, likelihoods, posterior, priors, resolve
from sitewise.inference.loop import _improves
from sitewise.priors.full import FullGram
from sitewise.sites import Sites


def _solve(method, model, data):
    solution = method.solve(model, data)
    q = posterior(model, data, solution.sites)
    return solution, {k: e(model, data, solution.sites) for k, e in EVIDENCES.items()}, q.probability(data.X)


ENGINES = {"host": _solve, "traced": functools.partial(jax.jit, static_argnums=0)(_solve)}


def _awkward():
    X, y = problem("probit", 12)
    yield "duplicated rows", np.concatenate([X, X]), np.concatenate([y, -y])
    yield "constant columns", np.ones_like(X), y
    yield "one row", X[:1], y[:1]
    yield "two rows", X[:2], np.array([1.0, -1.0])
    yield "one class", X, np.ones(12)
    yield "tiny inputs", X * 1e-8, y
    yield "huge inputs", X * 1e8, y


AWKWARD = {name: (X, y) for name, X, y in _awkward()}
CASES = [(name, method, "host") for name in AWKWARD for method in METHODS]
CASES += [("constant columns", "vi", "traced")]


@pytest.mark.parametrize(("name", "method", "engine"), CASES)
def test_awkward_data_gives_finite_converged_results(name, method, engine):
    X, y = AWKWARD[name]
    for variance in (1.0, 400.0):
        model = Model.full(kernels.RBF(1.0, variance), likelihoods.BernoulliProbit())
        solution, values, p = ENGINES[engine](METHODS[method], model, Data.of(X, y))
        assert solution.code == Outcome.CONVERGED
        assert np.all(np.isfinite(list(values.values())))
        assert np.all((np.asarray(p) > 0) & (np.asarray(p) < 1))


@pytest.mark.parametrize("method", METHODS)
def test_float32_is_close_to_float64(method):
    X, y = problem("probit", 20)
    model = Model.full(kernels.Matern52(0.8, 2.0), likelihoods.BernoulliProbit())
    _, sharp, _ = _solve(METHODS[method], model, Data.of(X, y))
    with jax.enable_x64(False):
        single = Data.of(X.astype(np.float32), y.astype(np.float32))
        model32 = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), model)
        solution, values, _ = ENGINES["traced"](METHODS[method], model32, single)
        assert values["elbo"].dtype == jnp.float32
    assert solution.code == Outcome.CONVERGED
    for name in sharp:
        assert float(values[name]) == pytest.approx(float(sharp[name]), abs=1e-2)


def test_outcomes_carry_advice():
    for outcome in Outcome:
        assert len(outcome.advice) > 20
    assert Outcome.CONVERGED.ok and not Outcome.STEP_CAP.ok


def test_the_step_cap_is_reported():
    import dataclasses

    X, y = problem("probit", 20)
    model = Model.full(kernels.Matern52(0.8, 200.0), likelihoods.BernoulliProbit())
    capped = dataclasses.replace(METHODS["vi"], max_steps=2)
    assert capped.solve(model, Data.of(X, y)).outcome is Outcome.STEP_CAP


@pytest.mark.parametrize(
    ("X", "y", "weight", "words"),
    [
        (np.ones((3, 2)), np.ones(2), None, "one y per row"),
        (np.full((3, 2), np.nan), np.ones(3), None, "X contains NaN"),
        (np.ones((3, 2)), np.array([1.0, np.inf, 0.0]), None, "y contains NaN"),
        (np.ones((0, 2)), np.ones(0), None, "at least one row"),
        (np.ones((3, 2)), np.ones(3), [-1, 1, 1], "non-negative"),
        (np.ones((3, 2)), np.ones(3), [0, 0, 0], "no row to learn from"),
    ],
)
def test_bad_data_is_refused_in_words(X, y, weight, words):
    with pytest.raises(ValueError, match=words):
        Data.of(X, y, weight)


def test_counts_must_be_counts():
    model = Model.full(kernels.RBF(), likelihoods.Poisson())
    with pytest.raises(ValueError, match="counts 0, 1, 2"):
        resolve("laplace").fit(model, Data.of(np.arange(4.0), [0.5, 1, 2, 3]))


def test_sites_that_rounding_has_taken_are_said_to_be():
    """B = I + W½KW½ with W·K = 1e18: of the identity, and of the evidence, nothing is left."""
    data = Data.of(np.array([[0.0], [0.0], [1.0]]), np.array([0.3, 0.2, -0.1]))
    for noise, expected in ((1e-3, Outcome.CONVERGED), (1e-9, Outcome.IMPRECISE)):
        model = Model.full(kernels.RBF(1.0, 1.0), likelihoods.Gaussian(noise))
        solution = METHODS["vi"].solve(model, data)
        assert solution.outcome is expected
        assert solution.outcome.settled
    assert "float64" in solution.outcome.advice


@pytest.mark.parametrize(
    "smooth, noise, expected",
    [(True, 0.1, Outcome.CONVERGED), (True, 1e-6, Outcome.IMPRECISE), (False, 1e-3, Outcome.CONVERGED)],
)
def test_evidence_that_rounding_has_taken_is_said_to_be(smooth, noise, expected):
    """W·K is far from 1/eps, but log Z is a small difference of large numbers.

    White noise under a smooth prior has an evidence of −2·10⁷, of which rounding takes the tenth digit: no loss.
    """
    X = np.linspace(0, 1, 40)[:, None]
    y = np.sin(3 * X[:, 0]) if smooth else np.random.default_rng(0).normal(size=40)
    model = Model.full(kernels.RBF(1.0, 1.0), likelihoods.Gaussian(noise))
    solution = METHODS["vi"].solve(model, Data.of(X, y))
    assert np.finfo(float).eps * np.max(solution.sites.prec) < 1e-3
    assert solution.outcome is expected


def _loss(gram, sites):
    q, factors = gram.condition_with_factor(sites, np.ones(40, bool))
    return gram.rounding_error(sites, q, factors)


def test_an_outlier_hides_no_loss():
    """A site without precision, an outlier's, is no reason to think that the evidence is large."""
    gram = FullGram(kernels.RBF(1.0, 1.0).matrix(np.linspace(0, 1, 40)[:, None]), np.zeros(40))
    prec = np.full(40, 1e12)
    nat1 = prec * np.sin(3 * np.linspace(0, 1, 40))
    lost = []
    for last in (1e12, 1e-13):
        prec[-1], nat1[-1] = last, 0.5 if last < 1 else nat1[-1]
        lost.append([float(loss(gram, Sites(nat1, prec))) for loss in (_loss, jax.jit(_loss))])
    assert np.min(lost) > 1e-3
    assert np.all(np.array(lost[1]) > 0.1 * np.array(lost[0]))


def test_ep_of_two_classes_at_one_place_is_symmetric():
    model = Model(priors.ClassPrior(kernels.RBF()), likelihoods.Softmax(2))
    found = METHODS["ep"].solve(model, Data.of(np.zeros((2, 1)), np.array([0.0, 1.0])))
    assert found.outcome.ok
    np.testing.assert_allclose(found.sites.nat1[0], found.sites.nat1[1][::-1], atol=1e-7)


@pytest.mark.parametrize("damping", [0.0, -0.5, 1.5])
def test_a_damping_that_takes_no_step_is_refused(damping):
    with pytest.raises(ValueError, match="damping must lie in"):
        EP(damping=damping)


@pytest.mark.parametrize(
    ("merit", "residual", "accepted"),
    [(-6.0, 0.1, False), (-5.0, 1.0, True), (-4.0, 1.0, True), (-5.0 - 1e-9, 0.4, True), (-5.0 - 1e-9, 0.6, False)],
)
def test_a_step_that_lowers_the_merit_is_not_accepted(merit, residual, accepted):
    """Unless it lowers the merit by rounding only and halves the residual."""
    old, new = (
        SimpleNamespace(merit=np.float64(m), residual=np.float64(r)) for m, r in ((-5.0, 1.0), (merit, residual))
    )
    assert bool(_improves(new, old, np.float64(-5.0))) is accepted
