"""Better inducing inputs: chosen in the lengthscales that were learned, or moved to where the evidence is greatest."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise.data import Data, bucket
from sitewise.learning.nested import Nested
from sitewise.learning.objective import INPUTS
from sitewise.learning.rehearsal import TOL, drawn_rows
from sitewise.learning.search import Search
from sitewise.model import Model
from sitewise.priors import SparsePrior
from sitewise.priors.inducing import has_lengthscales, select
from sitewise.process.precision import working_precision
from sitewise.types import replace

_TIMES = 9  # rows with which inputs are trained, in those of a first rehearsal
_ROUNDS = 100  # of the ascent in the inputs, which need not end
_MOST = 5_000  # numbers that are trained together; the ascent keeps a matrix of their square


def refreshed(learner: Nested, model: Model, data: Data, seed: int, choice: str = "kmeans", times: int = 1) -> Model:
    """The model with the hyperparameters of greatest evidence for some of the rows, and with inducing inputs that are
    chosen anew from all rows by that kernel; `times` such rounds.

    `choice` and `seed` are those of `inducing.select`.  Where k-means does not depend on the kernel, the model is
    returned as it is.
    """
    prior = _sparse(model)
    X = np.asarray(data.X)
    if choice == "kmeans" and not has_lengthscales(prior.kernel, X.shape[1]):
        return model
    count = len(np.asarray(prior.inducing))
    some = jax.tree.map(lambda a: np.asarray(a)[drawn_rows(data, count, seed)], data)
    loose = dataclasses.replace(learner, tol=max(TOL, learner.tol), restarts=0)
    for _ in range(times):
        model = loose.fit(model, some, seed=seed).model
        Z = select(X, choice, count, kernel=model.prior.kernel, seed=seed)
        model = replace(model, prior=replace(model.prior, inducing=Z))
    return model


def trained(learner: Nested, model: Model, data: Data, seed: int) -> Model:
    """The model with the hyperparameters and the inducing inputs of greatest evidence, or as far towards them as 100
    rounds of the ascent lead; at most 18 000 rows, or 45 for each input, are used.

    Inputs are no parameters of the model that a maximum of the evidence, if it is a bound, could overfit; EP's evidence
    (FITC's) is none.  The ascent starts from the optimum for the inputs as they are.
    """
    Z = np.asarray(_sparse(model).inducing)
    if Z.size > _MOST:
        raise ValueError(
            f"{len(Z)} inducing inputs of {Z.shape[1]} columns are {Z.size} numbers, more than the {_MOST} that can be "
            "trained; choose fewer, or inputs='kmeans'."
        )
    model = learner.fit(model, data, seed=seed).model
    some = jax.tree.map(lambda a: np.asarray(a)[drawn_rows(data, len(Z), seed, _TIMES)], data)
    settings = dataclasses.replace(
        learner, train=(*learner.train, INPUTS), max_rounds=min(_ROUNDS, learner.max_rounds), restarts=0
    )
    with working_precision():
        search = Search(settings, model, some, bucket(some.rows), None, None)
        best = search.drive(search.starts(0, seed)[0])
        return search.finish(best).model


def _sparse(model: Model) -> SparsePrior:
    if not isinstance(model.prior, SparsePrior):
        raise ValueError(f"{type(model.prior).__name__} has no inducing inputs to choose; use Model.sparse.")
    return model.prior
