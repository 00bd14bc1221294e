"""An evidence on approximate sites, with its error of first order removed, is off by the square of their residual."""

import dataclasses

import numpy as np
import pytest

from sitewise import VI, Data, Laplace, Model, Nested, evidence, kernels, likelihoods
from sitewise.learning.problem import Problem
from sitewise.process.precision import working_precision

RNG = np.random.default_rng(5)
X = RNG.normal(size=(40, 2))
F = 2 * np.sin(X[:, 0]) + X[:, 1]
TARGETS = {
    "probit": (likelihoods.BernoulliProbit(), np.where(F + RNG.normal(size=40) > 0, 1.0, -1.0)),
    "logit": (likelihoods.BernoulliLogit(), np.where(F + RNG.normal(size=40) > 0, 1.0, -1.0)),
    "poisson": (likelihoods.Poisson(), RNG.poisson(np.exp(F)).astype(float)),
    "student": (likelihoods.StudentT(0.3, 4.0), F + 0.3 * RNG.standard_t(4, size=40)),
}


def evaluated(learner, name, vector=None, sites=None):
    likelihood, y = TARGETS[name]
    problem = Problem.of(learner, Model.full(kernels.Matern52(1.0), likelihood), Data.of(X, y))
    vector = problem.start if vector is None else vector
    return problem.evaluate(vector, problem.first_sites if sites is None else sites), problem


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("inference", "value"), [(VI(), evidence.ep), (Laplace(), evidence.laplace)])
def test_the_error_of_an_evidence_is_of_second_order_in_the_residual(name, inference, value):
    """Sites of other hyperparameters, at a distance s: the residual is of order s, the error of order s²."""
    exact = Nested(inference, value, "implicit")
    rough = dataclasses.replace(exact, inference=dataclasses.replace(inference, tol=10.0))  # not a single step
    with working_precision():
        best, problem = evaluated(exact, name)
        errors = []
        for s in (0.1, 0.05, 0.025):
            near, _ = evaluated(exact, name, problem.start + s)
            found, _ = evaluated(rough, name, sites=near.solution.sites)
            assert float(found.solution.stats.residual) > 1e-4 and int(found.solution.stats.steps) == 1
            errors.append(abs(float(found.value - best.value)))
    np.testing.assert_array_less(errors[1:], 0.4 * np.array(errors[:-1]) + 1e-9)  # a quarter, if s is halved
