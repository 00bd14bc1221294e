"""A start for a search on many rows: the optimum for some of them.

A sparse GP costs O(nm²) a step, and most steps of a search go to where the optimum is not.  With a tenth of the rows
they cost a tenth, and end within a few hundredths of the optimum for all; the Hessian per row, which the ascent has
estimated on the way, hardly changes.  The search on all rows then needs a few evaluations, and has the same optimum.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise.data import Data
from sitewise.kernels.distances import same_rows
from sitewise.learning.search import Search

_ROWS, _PER_INPUT = 2_000, 5  # rows of a rehearsal, at least, and for each inducing input
_SAVES = 3  # it is worth its time where all rows are at least this many times as many
TOL = 1e-4  # gradient per row; the optimum for all rows is farther away than this resolves


def drawn_rows(data: Data, inducing: int, seed: int) -> np.ndarray:
    """Places of the rows that are enough to learn from at first; all that count if there are no more."""
    counted = np.flatnonzero(np.asarray(data.weight) > 0)
    rows = min(len(counted), max(_ROWS, _PER_INPUT * inducing))
    return np.sort(np.random.default_rng(seed).choice(counted, rows, replace=False))


def rehearsed(search: Search, start: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Where the search should start, and its guess of the inverse Hessian; `start` itself where there is none.

    That is for a prior that is not sparse, for too few rows, on an accelerator (every number of rows has its own
    program there), and where the search with some of the rows does not converge, or only at a bound.
    """
    prior, data = search.model.prior, search.data
    inducing = getattr(prior, "inducing", None)
    drawn = drawn_rows(data, 0 if inducing is None else len(inducing), seed)
    rows, counted = len(drawn), np.count_nonzero(np.asarray(data.weight) > 0)
    if prior.exact or not search.on_host or not len(start) or counted < _SAVES * rows:
        return start, None
    some = jax.tree.map(lambda a: np.asarray(a)[drawn], data)
    settings = dataclasses.replace(search.settings, tol=max(TOL, search.settings.tol))
    first = Search(settings, search.model, some, rows, None, None)
    with same_rows(first.data.X):
        end = first.drive(start)
    if not end.success or search.trainable.at_bound(end.vector, search.limits):
        return start, None
    return end.vector, end.inverse
