"""A start for a search on many rows: the optimum for some of them.

A sparse GP costs O(nm²) a step, and most steps of a search go to where the optimum is not.  With a third of the rows
they cost a third, and end near the optimum for all; the Hessian per row, which the ascent has estimated on the way,
hardly changes.  The search on all rows then needs few evaluations, and has the same optimum.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise.data import Data
from sitewise.kernels.distances import same_rows
from sitewise.learning.objective import pulls_on_host
from sitewise.learning.search import Search
from sitewise.runtime.engine import on_host
from sitewise.runtime.spread import agreed, is_spread, whole

_ROWS, _PER_INPUT = 2_000, 5  # rows of a rehearsal, at least, and for each inducing input
_SAVES = 3  # it is worth its time where all rows are at least this many times as many
TOL = 1e-4  # gradient per row; the optimum for all rows is farther away than this resolves


def drawn_rows(data: Data, inducing: int, seed: int, times: int = 1) -> np.ndarray:
    """Places of the rows that are enough to learn from at first, or `times` as many; all that count if there are no
    more.  The same seed gives sets that contain each other."""
    counted = np.flatnonzero(whole(data.weight) > 0)
    rows = times * max(_ROWS, _PER_INPUT * inducing)
    return np.sort(np.random.default_rng(seed).permutation(counted)[:rows])


def rehearsed(search: Search, start: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Where the search should start, and its guess of the inverse Hessian; `start` itself where there is none.

    That is for a prior that is not sparse, for too few rows, on an accelerator (every number of rows has its own
    program there), and where the search with some of the rows does not converge, or only at a bound.  A search with
    some rows starts from the optimum for a third of them, as long as there are enough.  Where rows are spread over
    devices, every process searches with some of them by itself.
    """
    prior, data = search.model.prior, search.data
    apart = is_spread(data) and pulls_on_host(search.model, search.trainable.names) and on_host(search.model)
    if prior.exact or not (search.on_host or apart) or not len(start):
        return start, None
    inducing = getattr(prior, "inducing", ())
    counted = np.count_nonzero(whole(data.weight) > 0)
    settings = dataclasses.replace(search.settings, tol=max(TOL, search.settings.tol))
    found: tuple[np.ndarray, np.ndarray | None] = start, None
    times = 1
    while counted >= _SAVES * len(drawn := drawn_rows(data, len(inducing), seed, times)):
        some = whole(jax.tree.map(lambda a, drawn=drawn: a[drawn], data))
        first = Search(settings, search.model, some, len(drawn), None, None)
        with same_rows(first.data.X):
            end = first.drive(*found)
        if not end.success or search.trainable.at_bound(end.vector, search.limits):
            break
        found, times = (end.vector, end.inverse), _SAVES * times
    if not apart:
        return found
    # A last digit that differs would lead processes different ways.
    vector, inverse = found
    empty = np.zeros((len(start), len(start)))
    some, vector, inverse = agreed((np.array(inverse is not None), vector, empty if inverse is None else inverse))
    return vector, inverse if some else None
