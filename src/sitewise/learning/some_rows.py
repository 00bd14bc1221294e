"""Hyperparameters learned with some of the rows, sites inferred with all: what a limited time allows for many rows.

Some tens of hyperparameters are known well after some ten thousand rows: what the others add to the mean log density of
a new row is of the order (hyperparameters / rows that taught them).  What they add to q(u) is more, and one inference
costs a part of a search only.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise.arrays.engine import on_host, to_host
from sitewise.data import Data
from sitewise.learning.base import SiteFit
from sitewise.learning.carry_over import sites_of_all
from sitewise.learning.nested import Nested
from sitewise.process.precision import WORKING_DTYPE, working_precision

_TOL = 1e-6  # of the sites of all rows
_FEW, _SHARE = 20, 200  # where there are so few different targets, each has one in so many of the rows, if there are


def some_of(data: Data, rows: int) -> Data:
    """At most so many of the rows, always the same ones; a few more where a class, or a count, would be rare."""
    counted = np.flatnonzero(np.asarray(data.weight) > 0)
    if len(counted) <= rows:
        return data
    order = np.random.default_rng(0).permutation(counted)
    chosen, y = [order[:rows]], np.asarray(data.y)
    if y.ndim == 1:
        y = y[order]
        kinds = np.unique(y)
        # Without a row of one class the other would be certain, whatever the inputs are.
        chosen += [order[np.flatnonzero(y == kind)[: rows // _SHARE]] for kind in kinds if len(kinds) <= _FEW]
    drawn = np.unique(np.concatenate(chosen))
    return jax.tree.map(lambda a: np.asarray(a)[drawn], data)


def with_all_rows(learner: Nested, fit: SiteFit, data: Data) -> SiteFit:
    """The fit of all rows with the hyperparameters that `fit` has learned from some of them."""
    with working_precision():
        inference = learner.final_inference(fit.model)
        # More accurate sites would change no digit of a prediction, and every step passes over all rows.
        inference = dataclasses.replace(inference, tol=max(_TOL, inference.tolerance(WORKING_DTYPE)))
        start = None
        if on_host(fit.model, data, fit.sites):
            start = sites_of_all(inference, *to_host((fit.model, fit.data, fit.sites, data)))
        solution = inference.solve(fit.model, data, start)
        value = float(learner.pair(fit.model).evidence(fit.model, data, solution.sites))
        if fit.problem is not None and fit.problem.priors:
            vector = np.asarray(fit.problem.trainable.to_vector(fit.model))
            value += float(fit.problem.log_prior_with_slope(vector)[0])
    return dataclasses.replace(
        fit,
        data=data,
        solution=solution,
        objective=value,
        converged=fit.converged and solution.outcome.ok,
        reason=f"{fit.reason}; hyperparameters of {fit.data.rows} of the {data.rows} rows, sites of all",
        learned_from=fit.data,
    )
