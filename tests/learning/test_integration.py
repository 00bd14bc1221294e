"""The integral over the hyperparameters against a fine grid, and what it says where it is not to be trusted."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from sitewise import Data, Model, hyperpriors, kernels, likelihoods, resolve
from sitewise.inference.solve import solve
from sitewise.learning.integration import integrate

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 6, (20, 1)), axis=0)
F = 2 * np.sin(X[:, 0])
LABELS = np.where(RNG.uniform(size=20) < 1 / (1 + np.exp(-F)), 1.0, -1.0)
WEAK = {"*": hyperpriors.LogNormal(0.0, 1.0)}


def _fit(likelihood, y, **settings):
    return resolve("vi", priors=WEAK, **settings).fit(Model.full(kernels.Matern52(), likelihood), Data.of(X, y))


def _brute_force(fit, points, span=4.0):
    """log ∫ π, and mean and deviation of v under π, by a sum over a grid."""
    problem, vector = fit.problem, fit.curvature.vector
    sd = np.sqrt(np.diag(fit.curvature.covariance))
    axes = [v + s * np.linspace(-span, span, points) for v, s in zip(vector, sd, strict=True)]
    at = np.array(list(itertools.product(*axes)))
    logs = []
    for v in at:
        model = problem.trainable.from_vector(fit.model, v)
        sites = solve(problem.inference, model, fit.data, fit.sites).sites
        logs.append(
            float(problem.evidence(model, fit.data, sites)) + float(problem.trainable.log_prior(v, problem.priors))
        )
    w = np.exp(np.array(logs) - logsumexp(logs))
    mean = w @ at
    cell = np.prod([a[1] - a[0] for a in axes])
    return logsumexp(logs) + np.log(cell), mean, np.sqrt(w @ (at - mean) ** 2)


def _moments(found):
    w, v = np.array([n.weight for n in found.nodes]), np.array([n.vector for n in found.nodes])
    return w @ v, np.sqrt(w @ (v - w @ v) ** 2)


def test_two_parameters_on_a_grid():
    fit = _fit(likelihoods.BernoulliProbit(), LABELS)
    found = integrate(fit)
    log_z, mean, sd = _brute_force(fit, 15)
    assert found.design == "grid" and len(found.nodes) == 12 and not found.problems
    assert found.log_evidence == pytest.approx(log_z, abs=0.03)
    got = _moments(found)
    np.testing.assert_allclose(got[0], mean, atol=0.1 * np.max(sd))
    np.testing.assert_allclose(got[1], sd, rtol=0.1)
    assert sum(node.weight for node in found.nodes) == pytest.approx(1)


@pytest.mark.parametrize(("width", "span"), [(1.0, 4.0), (4.0, 8.0)])
def test_two_parameters_on_a_lattice(width, span):
    """A wide prior bends the posterior: the rule misses a tenth of its logarithm and a third of its deviations."""
    fit = resolve("vi", priors={"*": hyperpriors.LogNormal(0.0, width)}).fit(
        Model.full(kernels.Matern52(), likelihoods.BernoulliProbit()), Data.of(X, LABELS)
    )
    found = integrate(fit, "lattice" if width == 1 else "auto")
    log_z, mean, sd = _brute_force(fit, 21, span)
    assert found.design == "lattice" and len(found.nodes) <= 60 and not found.problems
    assert found.log_evidence == pytest.approx(log_z, abs=0.05)
    got = _moments(found)
    np.testing.assert_allclose(got[0], mean, atol=0.1 * np.max(sd))
    np.testing.assert_allclose(got[1], sd, rtol=0.15)


@pytest.mark.parametrize("design", ["grid", "lattice"])
def test_no_node_beyond_the_bounds_counts(design):
    bounds = {"kernel.lengthscale": (0.5, 3.0), "kernel.variance": (0.3, 5.0)}
    fit = _fit(likelihoods.BernoulliProbit(), LABELS, bounds=bounds)
    found = integrate(fit, design)
    inside = [np.all((n.vector >= fit.limits[:, 0]) & (n.vector <= fit.limits[:, 1])) for n in found.nodes]
    assert found.failed == 0 and any(inside) and not all(inside)
    assert sum(n.weight for n, here in zip(found.nodes, inside, strict=True) if here) == pytest.approx(1)


def test_three_parameters_by_a_central_composite_design():
    fit = _fit(likelihoods.Gaussian(), F + 0.3 * RNG.normal(size=20))
    found = integrate(fit)
    log_z, mean, sd = _brute_force(fit, 11, 3.5)
    assert found.design == "ccd" and len(found.nodes) == 15
    assert found.log_evidence == pytest.approx(log_z, abs=0.15)
    got = _moments(found)
    np.testing.assert_allclose(got[0], mean, atol=0.2 * np.max(sd))
    np.testing.assert_allclose(got[1], sd, rtol=0.2)
    plain = integrate(fit, "laplace")
    assert plain.design == "laplace" and len({round(n.weight, 9) for n in plain.nodes}) == 2


def test_nothing_trained_is_one_node():
    model = Model.full(kernels.Matern52(), likelihoods.BernoulliProbit())
    fit = resolve("vi", fixed=("*",)).fit(model, Data.of(X, LABELS))
    (node,) = integrate(fit).nodes
    assert node.weight == 1 and np.allclose(node.sites.nat1, fit.sites.nat1, atol=1e-6)


def test_a_design_that_is_not_to_be_trusted_says_so():
    """Separable labels and a flat prior: the evidence stays level as the magnitude grows, and mass is at the edge."""
    y = np.where(X[:, 0] > 3, 1.0, -1.0)
    wide = {"kernel.variance": hyperpriors.LogNormal(9.0, 6.0)}
    learner = resolve("ep", bounds={"kernel.variance": (1e-3, 1e8)}, priors=wide)
    found = integrate(learner.fit(Model.full(kernels.RBF(2.0), likelihoods.BernoulliProbit()), Data.of(X, y)))
    assert found.problems and found.problems[0] in str(found)


def test_wrong_names_and_learners_without_an_optimum():
    fit = _fit(likelihoods.BernoulliProbit(), LABELS)
    with pytest.raises(ValueError, match="design must be 'auto', 'grid'"):
        integrate(fit, "quadrature")
    vem = resolve("hybrid-vem", max_rounds=3).fit(fit.model, fit.data)
    with pytest.raises(ValueError, match="train with Nested"):
        integrate(vem)
