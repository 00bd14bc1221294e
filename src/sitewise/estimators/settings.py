"""The learning method from the parameters of an estimator, after checks."""

from __future__ import annotations

import dataclasses
from typing import Any

from sitewise.estimators.fitted_estimator import FittedEstimator
from sitewise.estimators.training import Approximate, Sampling
from sitewise.hyperparameters import Hyperparameters
from sitewise.kernel_choice import averages
from sitewise.learning.integration import DESIGNS
from sitewise.learning.nested import Nested
from sitewise.learning.vem import VEM
from sitewise.methods import Method
from sitewise.parts_structure import Parts
from sitewise.structures import Sparse, structure_of

LEAST_GAIN = 0.05  # nats per hyperparameter after a coarse stage; see `Nested`


def method_of(estimator: FittedEstimator) -> Approximate | Sampling:
    """Return how the estimator learns; raise ValueError if its parameters contradict each other."""
    method, structure = Method.of(estimator.method), structure_of(estimator.structure)
    hyperparameters = Hyperparameters.of(estimator.hyperparameters)
    automatic = isinstance(estimator.integrate, str) and estimator.integrate == "auto"
    design = None if automatic else _design(estimator.integrate)
    learned, limits = hyperparameters.learned(), hyperparameters.limits()
    if method.definition.samples:
        if design is not None:
            raise ValueError(f"{method.name} averages over the hyperparameters without integrate; leave it out.")
        if not structure.sampled:
            raise ValueError(f"mcmc samples the full GP; leave structure at 'auto', got {structure!r}.")
        return Sampling(**learned, **limits, counts=method.sampling)
    if method.definition.learner is VEM:
        given = [name for name, value in limits.items() if value] + ["integrate"] * (design is not None)
        if given:
            raise ValueError(f"{method.name} has no setting {', '.join(given)}; use 'hybrid', or leave it out.")
        if structure.trains_inputs:
            raise ValueError(f"{method.name} does not train inducing inputs; use method='hybrid', or inputs='kmeans'.")
        return Approximate(method.resolve(**learned))
    stop = {"least_gain": LEAST_GAIN} if method.tol is None else {}
    learner = method.resolve(**learned, **limits, **stop)
    # An integral needs the optimum of all rows.
    limited = design is None and not averages(estimator.kernel)
    if isinstance(learner, Nested):
        rows = structure.learning_rows if limited else None
        learner = dataclasses.replace(learner, learning_rows=rows, move_inputs=structure.trains_inputs)
    return Approximate(learner, design, automatic)


def refuse_with_two_functions(estimator: Any) -> None:
    """Raise ValueError if a setting does not work with two latent functions per row."""
    method = Method.of(estimator.method)
    if method.definition.samples or method.definition.learner is VEM:
        raise ValueError(
            f"method={method.name!r} has no models of two functions; use 'hybrid', 'ep', 'vi' or 'laplace'."
        )
    if estimator.integrate not in ("auto", False):
        raise ValueError("integrate is for models with one latent function; leave it at 'auto' with varying.")
    if averages(estimator.kernel):
        raise ValueError("Kernels are averaged for one latent function only; give one kernel with varying.")
    structure, second = structure_of(estimator.structure), getattr(estimator.varying, "structure", None)
    if estimator.groups is not None and second is None and getattr(estimator.varying, "kernel", None) is None:
        raise ValueError("With groups, give the kernel of the second function: varying=Varying('scale', kernel).")
    if isinstance(structure, Parts):
        if second is None:
            raise ValueError(
                "A sum of parts with two latent functions needs the parts of the second: "
                "varying=Varying('scale', structure=[Linear(0)])."
            )
        return
    if second is not None:
        raise ValueError("The parts of Varying need a sum of parts as structure, too; or give Varying a kernel.")
    if not structure.sampled and not isinstance(structure, Sparse):  # a Markov chain
        raise ValueError(
            "A likelihood of two latent functions needs a full or sparse GP, or a sum of parts; leave structure at "
            "'auto', or give Sparse(300)."
        )


def _design(integrate: Any) -> str | None:
    """Return the design of the integral over the hyperparameters; None for the optimum only."""
    if integrate is None or integrate is False:
        return None
    if integrate is True:
        return DESIGNS[0]
    if integrate not in DESIGNS:
        names = ", ".join(map(repr, ("auto", *DESIGNS)))
        raise ValueError(f"integrate must be True, False or one of {names}; got {integrate!r}.")
    return str(integrate)
