"""Inducing inputs chosen by the kernel that was learned, and not by the one from which the search starts."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise.data import Data
from sitewise.kernels import Kernel
from sitewise.learning.nested import Nested
from sitewise.learning.rehearsal import TOL, drawn_rows
from sitewise.model import Model
from sitewise.priors import SparsePrior
from sitewise.priors.inducing import select
from sitewise.types import replace


def refreshed(learner: Nested, model: Model, data: Data, choice: str, seed: int, times: int = 1) -> Model:
    """The model with the hyperparameters of greatest evidence for some of the rows, and with inducing inputs that are
    chosen anew from all rows by that kernel; `times` such rounds.

    `choice` and `seed` are those of `inducing.select`.
    """
    prior = model.prior
    if not isinstance(prior, SparsePrior):
        raise ValueError(f"{type(prior).__name__} has no inducing inputs to choose; use Model.sparse.")
    count, X = len(np.asarray(prior.inducing)), np.asarray(data.X)
    some = jax.tree.map(lambda a: np.asarray(a)[drawn_rows(data, count, seed)], data)
    loose = dataclasses.replace(learner, tol=max(TOL, learner.tol), restarts=0)
    for _ in range(times):
        model = loose.fit(model, some, seed=seed).model
        assert isinstance(model.prior, SparsePrior) and isinstance(model.prior.kernel, Kernel)
        Z = select(X, choice, count, kernel=model.prior.kernel, seed=seed)
        model = replace(model, prior=replace(model.prior, inducing=Z))
    return model
