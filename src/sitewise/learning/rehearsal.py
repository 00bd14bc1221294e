"""A start for a search on many rows: the optimum for some of them.

A sparse GP costs O(nm²) a step, and most steps of a search go to where the optimum is not.  With a third of the rows
they cost a third, and end near the optimum for all; the Hessian per row, which the ascent has estimated on the way,
hardly changes.  The search on all rows then needs few evaluations, and has the same optimum.  A rehearsal has
fewer inducing inputs as well, and its objective, which costs a small part of that of all rows, guides the steps of the
search (`guided`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import numpy as np

from sitewise.data import Data
from sitewise.kernels.distances import same_rows
from sitewise.learning.guided import Cheap
from sitewise.learning.objective import INPUTS, pulls_on_host
from sitewise.learning.search import Search
from sitewise.model import Model
from sitewise.priors.inducing import select
from sitewise.runtime.engine import on_host
from sitewise.runtime.spread import agreed, is_spread, whole
from sitewise.types import replace

_ROWS, _PER_INPUT = 2_000, 5  # rows of a rehearsal, at least, and for each inducing input
_SAVES = 3  # it is worth its time where all rows are at least this many times as many
_INPUTS = 50  # of a rehearsal, at least
_CHEAP = 20  # an evaluation that costs so many times less may be made many times for one
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
    apart = is_spread(search.data) and pulls_on_host(search.model, search.trainable.names) and on_host(search.model)
    if search.model.prior.exact or not (search.on_host or apart) or not len(start):
        return start, None
    found: tuple[np.ndarray, np.ndarray | None] = start, None
    for first in _stages(search, seed):
        with same_rows(first.data.X):
            end = first.drive(*found)
        if end.success and not search.trainable.at_bound(end.vector, search.limits):
            found = end.vector, end.inverse
    if not apart:
        return found
    # A last digit that differs would lead processes different ways.
    vector, inverse = found
    empty = np.zeros((len(start), len(start)))
    some, vector, inverse = agreed((np.array(inverse is not None), vector, empty if inverse is None else inverse))
    return vector, inverse if some else None


def _stages(search: Search, seed: int) -> Iterator[Search]:
    """Searches with some of the rows, each with three times the rows of the one before, and with fewer inducing inputs.

    A third of them costs a ninth, and is enough to learn where the optimum is about.  They do not stop before their
    optimum: what is left to gain would be left to the search with all rows.
    """
    settings = dataclasses.replace(search.settings, tol=max(TOL, search.settings.tol), least_gain=0.0)
    model = _with_fewer_inputs(search, seed)
    inducing = len(getattr(model.prior, "inducing", ()))
    counted = np.count_nonzero(whole(search.data.weight) > 0)
    times = 1
    while counted >= _SAVES * len(drawn := drawn_rows(search.data, inducing, seed, times)):
        some = whole(jax.tree.map(lambda a, drawn=drawn: a[drawn], search.data))
        yield Search(settings, model, some, len(drawn), None, None)
        times *= _SAVES


def _with_fewer_inputs(search: Search, seed: int) -> Model:
    model, Z = search.model, np.asarray(getattr(search.model.prior, "inducing", ()))
    count = max(_INPUTS, len(Z) // _SAVES)
    if len(Z) <= count or INPUTS in search.trainable.names:
        return model
    # Centres of rows: a part of Z would leave gaps, and another optimum.
    drawn = drawn_rows(search.data, count, seed, _SAVES**2)
    fewer = select(whole(search.data.X[drawn]), "kmeans", count, kernel=model.prior.kernel, seed=seed)
    return replace(model, prior=replace(model.prior, inducing=fewer))


def cheap_of(search: Search, seed: int) -> Cheap | None:
    """The objective per row, and its gradient, of the last stage that is cheap beside the search with all rows."""
    whole_cost, found = search.rows * len(getattr(search.model.prior, "inducing", ())) ** 2, None
    if search.model.prior.exact or not search.on_host:
        return None
    for stage in _stages(search, seed):
        if _CHEAP * stage.rows * len(getattr(stage.model.prior, "inducing", ())) ** 2 <= whole_cost:
            found = stage
    return None if found is None else _Carried(found)


class _Carried:
    """Value and gradient of a search at any θ, inference started from the sites of the last one."""

    def __init__(self, search: Search) -> None:
        self._search, self._sites = search, search.first_sites

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        search = self._search
        with same_rows(search.data.X):
            found = search.evaluate(vector, self._sites)
            if not found.solution.outcome.settled:
                found = search.evaluate(vector, search.first_sites)
        settled = found.solution.outcome.settled
        if settled:
            self._sites = found.solution.sites
        value = float(found.value) / search.rows if settled else -np.inf
        return value, np.asarray(found.gradient) / search.rows
