"""Inducing inputs chosen in the lengthscales that were learned, and not in those from which the search starts."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise.data import Data
from sitewise.learning.nested import Nested
from sitewise.learning.rehearsal import TOL, drawn_rows
from sitewise.model import Model
from sitewise.priors import SparsePrior
from sitewise.priors.inducing import has_lengthscales, select
from sitewise.types import replace


def refreshed(learner: Nested, model: Model, data: Data, seed: int, choice: str = "kmeans", times: int = 1) -> Model:
    """The model with the hyperparameters of greatest evidence for some of the rows, and with inducing inputs that are
    chosen anew from all rows by that kernel; `times` such rounds.

    `choice` and `seed` are those of `inducing.select`.  Where k-means does not depend on the kernel, the model is
    returned as it is.
    """
    prior = model.prior
    if not isinstance(prior, SparsePrior):
        raise ValueError(f"{type(prior).__name__} has no inducing inputs to choose; use Model.sparse.")
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
