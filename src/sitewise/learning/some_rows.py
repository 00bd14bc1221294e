"""Hyperparameters learned with some of the rows, sites inferred with all: what a limited time allows for many rows.

Some tens of hyperparameters are known well after some ten thousand rows: what the others add to the mean log density of
a new row is of the order (hyperparameters / rows that taught them).  What they add to q(u) is more, and one inference
costs a tenth of a search.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise.data import Data
from sitewise.learning.base import SiteFit
from sitewise.learning.nested import Nested
from sitewise.runtime.precision import working_precision


def some_of(data: Data, rows: int) -> Data:
    """At most so many of the rows, always the same ones."""
    counted = np.flatnonzero(np.asarray(data.weight) > 0)
    if len(counted) <= rows:
        return data
    drawn = np.sort(np.random.default_rng(0).permutation(counted)[:rows])
    return jax.tree.map(lambda a: np.asarray(a)[drawn], data)


def with_all_rows(learner: Nested, fit: SiteFit, data: Data) -> SiteFit:
    """The fit of all rows with the hyperparameters that `fit` has learned from some of them."""
    with working_precision():
        solution = learner.final_inference(fit.model).solve(fit.model, data)
        value = learner.pair(fit.model).evidence(fit.model, data, solution.sites)
    return dataclasses.replace(
        fit,
        data=data,
        solution=solution,
        objective=float(value),
        converged=fit.converged and solution.outcome.ok,
        reason=f"{fit.reason}; hyperparameters of {fit.data.rows} of the {data.rows} rows, sites of all",
        learned_from=fit.data,
    )
