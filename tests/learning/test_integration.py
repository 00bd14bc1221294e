"""The integral over the hyperparameters against a fine grid, and what it says where it is not to be trusted."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammaln, logsumexp, polygamma

from sitewise import Data, Model, hyperpriors, kernels, likelihoods, resolve
from sitewise.fitted.integrated import IntegratedLatent
from sitewise.fitted.latent import Latent
from sitewise.inference.solve import solve
from sitewise.learning import integration
from sitewise.learning.integration import Integrated, Node, integrate

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
    found = integrate(fit, "coarse")
    log_z, mean, sd = _brute_force(fit, 15)
    assert found.design == "grid" and len(found.nodes) == 12 and not found.problems
    assert found.log_evidence == pytest.approx(log_z, abs=0.03)
    got = _moments(found)
    np.testing.assert_allclose(got[0], mean, atol=0.1 * np.max(sd))
    np.testing.assert_allclose(got[1], sd, rtol=0.1)
    assert sum(node.weight for node in found.nodes) == pytest.approx(1)


@pytest.mark.parametrize(("width", "span"), [(1.0, 4.0), (4.0, 8.0)])
def test_two_parameters_on_a_lattice(width, span):
    """A wide prior bends the posterior: the rule misses a tenth of log ∫ π and a third of the standard deviations."""
    fit = resolve("vi", priors={"*": hyperpriors.LogNormal(0.0, width)}).fit(
        Model.full(kernels.Matern52(), likelihoods.BernoulliProbit()), Data.of(X, LABELS)
    )
    found = integrate(fit, "lattice" if width == 1 else "coarse")
    log_z, mean, sd = _brute_force(fit, 21, span)
    assert found.design == "lattice" and len(found.nodes) <= 120 and not found.problems
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
    found = integrate(fit, "ccd")
    log_z, mean, sd = _brute_force(fit, 11, 3.5)
    assert found.design == "ccd" and len(found.nodes) == 15
    assert found.log_evidence == pytest.approx(log_z, abs=0.15)
    got = _moments(found)
    np.testing.assert_allclose(got[0], mean, atol=0.2 * np.max(sd))
    np.testing.assert_allclose(got[1], sd, rtol=0.2)
    plain = integrate(fit, "laplace")
    assert plain.design == "laplace" and len({round(n.weight, 9) for n in plain.nodes}) == 2


def _by_law(kind, dimensions, log_density, centre, scale):
    """The integral of a product of equal densities, with the mode `centre` and the standard deviation `scale` there."""

    def at(z):
        v = centre + scale * z
        return integration._Point(v, None, None, float(np.sum(log_density(v))), False)

    volume = dimensions * np.log(scale)
    if kind == "lattice":
        return integration._on_lattice(at, dimensions, volume, lambda point: np.full(2, point.log_density), 600)
    return integration._by_rule(kind, at, dimensions, dimensions, volume)


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["ccd", "star", "lattice"])
def test_a_gaussian_density_is_integrated_exactly(kind, dimensions):
    found = _by_law(kind, dimensions, lambda v: -0.5 * ((v - 2) / 3) ** 2, 2.0, 3.0)
    exact = kind != "lattice"
    assert found.log_evidence == pytest.approx(dimensions * np.log(3 * np.sqrt(2 * np.pi)), abs=1e-9 if exact else 0.01)
    mean, sd = _moments(found)
    np.testing.assert_allclose(mean, 2, atol=1e-9)
    np.testing.assert_allclose(sd, 3, rtol=1e-9 if exact else 0.01)
    assert not found.problems


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_a_lattice_integrates_the_density_of_log_gamma_variables(dimensions):
    """log π = Σ (a v − eᵛ) is skewed: log ∫ π = p log Γ(a), mean ψ(a), variance ψ′(a).  Rules of few nodes miss it."""
    shape = 3.0
    settings = dimensions, lambda v: shape * v - np.exp(v), np.log(shape), shape**-0.5
    found = _by_law("lattice", *settings)
    assert found.log_evidence == pytest.approx(dimensions * gammaln(shape), abs=0.01)
    mean, sd = _moments(found)
    np.testing.assert_allclose(mean, digamma(shape), atol=0.01 * sd[0])
    np.testing.assert_allclose(sd, np.sqrt(polygamma(1, shape)), rtol=0.03)
    coarse = _moments(_by_law("ccd", *settings))[1]
    assert np.all(coarse < 0.95 * sd)


def _sd_of_f(found, fit, new):
    """Standard deviations of the mixture of the nodes."""
    mixture = IntegratedLatent.at_nodes(Latent.of_fit(fit), fit.data, found)
    return np.sqrt(np.diag(mixture.joint(new)[1]))


def _matern(A, B, lengths, variance):
    """One matrix per row of `lengths`."""
    square = np.einsum("abj,kj->kab", (A[:, None] - B[None]) ** 2, lengths**-2.0)
    r = np.sqrt(5 * square)
    return variance[:, None, None] * (1 + r + r**2 / 3) * np.exp(-r)


def _gaussian_reference(inputs, y, new, prior, fit, points, span):
    """log ∫ π and standard deviations of f with Gaussian noise, by closed forms on a fine grid of log θ."""
    columns, size = inputs.shape[1], len(fit.curvature.vector)
    axis, root = np.linspace(-span, span, points), np.linalg.cholesky(fit.curvature.covariance)
    at = fit.curvature.vector + np.array(list(itertools.product(axis, repeat=size))) @ root.T
    logs, means, variances = [], [], []
    for v in np.array_split(at, len(at) // 500):
        lengths, variance, noise = np.exp(v[:, :columns]), np.exp(v[:, columns]), np.exp(v[:, columns + 1])
        K = _matern(inputs, inputs, lengths, variance) + noise[:, None, None] ** 2 * np.eye(len(y))
        cross = _matern(inputs, new, lengths, variance)
        solved = np.linalg.solve(K, np.concatenate([np.broadcast_to(y[None, :, None], (len(v), len(y), 1)), cross], 2))
        logs.append(
            -0.5 * solved[:, :, 0] @ y - 0.5 * np.linalg.slogdet(2 * np.pi * K)[1] + prior.logpdf(v).sum(axis=1)
        )
        means.append(np.einsum("kis,i->ks", solved[:, :, 1:], y))
        variances.append(variance[:, None] - np.sum(cross * solved[:, :, 1:], axis=1))
    logs, means, variances = np.concatenate(logs), np.concatenate(means), np.concatenate(variances)
    w = np.exp(logs - logsumexp(logs))
    sd = np.sqrt(w @ (variances + means**2) - (w @ means) ** 2)
    return logsumexp(logs) + size * np.log(axis[1] - axis[0]) + np.sum(np.log(np.diag(root))), sd


@pytest.mark.parametrize(("columns", "points", "span"), [(1, 15, 5.0), (2, 11, 4.5)])
def test_standard_deviations_of_f_with_three_and_four_parameters(columns, points, span):
    """Against closed forms on a grid of 15³ and 11⁴ θ."""
    rng = np.random.default_rng(3)
    inputs, new = rng.normal(size=(30, columns)), rng.normal(size=(15, columns))
    y = np.sin(2 * inputs[:, 0]) + np.sin(2 * inputs[:, -1]) + 0.2 * rng.normal(size=30)
    locations, scales = np.array([0.0] * columns + [0.0, -1.0]), np.array([1.0] * columns + [1.5, 1.0])
    priors = {
        "kernel.lengthscale": hyperpriors.LogNormal(0.0, 1.0),
        "kernel.variance": hyperpriors.LogNormal(0.0, 1.5),
        "likelihood.scale": hyperpriors.LogNormal(-1.0, 1.0),
    }
    kernel = kernels.Matern52(np.ones(columns) if columns > 1 else 1.0)
    learner = resolve("vi", priors=priors)
    fit = learner.fit(Model.full(kernel, likelihoods.Gaussian(0.5)), Data.of(inputs, y))
    log_z, sd = _gaussian_reference(inputs, y, new, stats.norm(locations, scales), fit, points, span)
    found = integrate(fit)
    assert found.design == "lattice" and not found.problems
    assert found.log_evidence == pytest.approx(log_z, abs=0.05)
    np.testing.assert_allclose(_sd_of_f(found, fit, new), sd, rtol=0.03)


@pytest.mark.parametrize("dimensions", [1, 3])
def test_a_lattice_reaches_points_of_little_mass_and_large_variance(dimensions):
    """With π = N(0, I) and the prior variance s = e^{2z₁} of f, E[s] = e²: most of it lies where π is e⁻² and less."""

    def at(z):
        return integration._Point(z, None, None, float(-0.5 * z @ z), False)

    found = integration._on_lattice(
        at, dimensions, 0.0, lambda p: p.log_density + np.array([0.0, 2 * p.vector[0]]), 600
    )
    mean = sum(node.weight * np.exp(2 * node.vector[0]) for node in found.nodes)
    assert mean == pytest.approx(np.exp(2), rel=0.01) and not found.problems
    assert found.log_evidence == pytest.approx(dimensions * 0.5 * np.log(2 * np.pi), abs=0.01)


def test_a_lattice_that_breaks_off_says_so():
    found = integrate(_fit(likelihoods.BernoulliProbit(), LABELS), "lattice", max_points=9)
    assert len(found.nodes) == 9 and found.outside > integration.MAX_UNVISITED
    assert "at the edge of the design" in found.problems[0]


def test_a_lattice_around_a_point_that_is_no_maximum_stops_soon_and_says_so():
    """π = N((20, 0), I) around (0, 0): a walk to its maximum would visit thousands of points."""

    def at(z):
        return integration._Point(z, None, None, float(-0.5 * np.sum((z - [20.0, 0.0]) ** 2)), False)

    found = integration._on_lattice(at, 2, 0.0, lambda p: p.log_density + np.zeros(2), 600)
    assert found.rise > integration.MAX_RISE and len(found.nodes) < 10
    assert "more probable than the optimum" in found.problems[-1]


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
    fit = learner.fit(Model.full(kernels.RBF(2.0), likelihoods.BernoulliProbit()), Data.of(X, y))
    found = integrate(fit, "ccd")
    assert found.problems and found.problems[0] in str(found)


def test_wrong_names_and_learners_without_an_optimum():
    fit = _fit(likelihoods.BernoulliProbit(), LABELS)
    with pytest.raises(ValueError, match="design must be 'fine', 'coarse'"):
        integrate(fit, "quadrature")
    vem = resolve("hybrid-vem", max_rounds=3).fit(fit.model, fit.data)
    with pytest.raises(ValueError, match="train with Nested"):
        integrate(vem)


def test_a_trimmed_integral_keeps_the_heaviest_nodes():
    nodes = [Node(np.zeros(1), None, None, 0.0, weight) for weight in (0.3, 0.004, 0.6, 0.096)]
    found = Integrated(nodes, "lattice", 0.0, 1.0, 0.0, 0.0, (2, 2), 0.0).trimmed(0.01)
    np.testing.assert_allclose([node.weight for node in found.nodes], np.array([0.6, 0.3, 0.096]) / 0.996)


def test_a_star_has_no_nodes_along_directions_that_only_the_prior_determines():
    """A prior with a standard deviation of 0.05 holds log σ², which stays at its mode."""
    priors = {
        "kernel.lengthscale": hyperpriors.LogNormal(0.0, 1.0),
        "kernel.variance": hyperpriors.LogNormal(0.0, 0.05),
    }
    fit = resolve("vi", priors=priors).fit(
        Model.full(kernels.Matern52(), likelihoods.BernoulliProbit()), Data.of(X, LABELS)
    )
    star, plain = integrate(fit, "star"), integrate(fit, "ccd")
    assert star.directions == (1, 2) and plain.directions == (2, 2) and len(star.nodes) == 3
    at = fit.problem.trainable.labels.index("kernel.variance")
    assert np.ptp([node.vector[at] for node in star.nodes]) < 0.02 < np.ptp([node.vector[at] for node in plain.nodes])
    assert star.log_evidence == pytest.approx(plain.log_evidence, abs=0.02)
