"""The guessed Hessian: average information written out, searches that start from it, and curvatures completed by it."""

import dataclasses

import numpy as np
import pytest

from sitewise import VI, Data, Model, Nested, evidence, hyperpriors, kernels, likelihoods, means
from sitewise.inference.start import first_sites
from sitewise.learning import schedule, stages
from sitewise.learning.curvature import curvature
from sitewise.learning.hessian import can_guess, guessed_inverse, prior_curvature
from sitewise.learning.problem import Problem
from sitewise.process.precision import working_precision

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 3))
F = 2 * np.sin(X[:, 0]) + X[:, 1]
NUMBERS, LABELS = F + 0.3 * RNG.normal(size=60), np.sign(F + 0.5 * RNG.normal(size=60))
LEARNER = Nested(VI(), evidence.ep)


def test_the_guess_is_the_average_information_plus_the_prior():
    """With fixed Gaussian sites the derivatives of K = σ² exp(−d²/2ℓ²) in log ℓ and log σ² are K∘d²/ℓ² and K."""
    model = Model.full(kernels.RBF(1.5, 2.0), likelihoods.Gaussian(0.4), mean=means.Constant(0.3))
    learner = dataclasses.replace(LEARNER, priors={"kernel.variance": hyperpriors.LogNormal(0.0, 0.5)}, jacobian=True)
    with working_precision():
        problem = Problem.of(learner, model, Data.of(X, NUMBERS))
        sites = first_sites(model.likelihood, problem.data)
        found = np.linalg.inv(guessed_inverse(problem, problem.start, sites)) * problem.total
    d2 = np.sum((X[:, None] - X) ** 2, axis=2) / 1.5**2
    K = 2.0 * np.exp(-0.5 * d2)
    R = np.linalg.inv(K + 0.4**2 * np.eye(60))
    alpha = R @ (NUMBERS - 0.3)
    moved = {"kernel.lengthscale": (K * d2) @ alpha, "kernel.variance": K @ alpha}
    labels = problem.trainable.labels
    for i, one in enumerate(labels):
        for j, other in enumerate(labels):
            expected = 0.0
            if one in moved and other in moved:
                expected = 0.5 * moved[one] @ R @ moved[other] + 4.0 * (one == other == "kernel.variance")
            elif one == other == "mean.value":
                expected = np.sum(R)
            elif one == other:  # the scale of the noise
                expected = 0.25 * 60
            assert found[i, j] == pytest.approx(expected, rel=1e-3, abs=1e-3), (one, other)


def test_an_accelerator_and_other_priors_have_no_guess():
    problem = Problem.of(
        LEARNER, Model.markov(kernels.Matern32(), likelihoods.Gaussian(0.4)), Data.of(X[:, :1], NUMBERS)
    )
    assert not can_guess(problem)


def test_a_search_from_the_guess_has_the_same_optimum_after_fewer_evaluations(monkeypatch):
    model = Model.full(kernels.Shrunk(kernels.Matern52(), np.zeros(3)), likelihoods.BernoulliProbit())
    data = Data.of(X, LABELS)
    guided = LEARNER.fit(model, data)
    quick = dataclasses.replace(LEARNER, least_gain=0.05).fit(model, data)
    monkeypatch.setattr(stages, "guessed_inverse", lambda *_: None)
    plain = LEARNER.fit(model, data)
    assert guided.objective == pytest.approx(plain.objective, abs=1e-6)
    assert len(guided.trace) < 0.8 * len(plain.trace)
    # Five numbers, and the gain at which a search without a coarse stage stops.
    assert -5 * schedule.SINGLE_STAGE_LEAST_GAIN < quick.objective - plain.objective < 1e-6
    assert len(quick.trace) < len(guided.trace)


def test_the_curvature_of_a_search_is_near_the_differences():
    """Entries that the rows determine are differences; the prior determines the others."""
    model = Model.full(kernels.Shrunk(kernels.Matern52(), np.zeros(3)), likelihoods.BernoulliProbit())
    learner = dataclasses.replace(LEARNER, least_gain=0.05)
    fit = learner.fit(model, Data.of(X, LABELS))
    quick = fit.quick_curvature
    exact = curvature(fit.problem, fit.model, fit.data, fit.sites)
    rows = prior_curvature(fit.problem, exact.vector) == 0  # lengthscale and variance have no prior here
    np.testing.assert_allclose(quick.hessian[rows], exact.hessian[rows], rtol=0.01, atol=0.01)
    errors = [np.array(list(one.standard_errors.values())) for one in (quick, exact)]
    np.testing.assert_allclose(errors[0], errors[1], rtol=0.15)
    assert np.any(quick.hessian != exact.hessian)
