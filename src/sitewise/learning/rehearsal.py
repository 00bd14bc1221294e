"""A start for a search on many rows: the optimum for some of them.

A sparse GP costs O(nm²) a step, and most steps of a search go to where the optimum is not.  With a third of the rows
they cost a third, and end near the optimum for all; the Hessian per row, which differences of the gradient show,
hardly changes.  The search on all rows then needs few evaluations, and has the same optimum.  A rehearsal has
fewer inducing inputs as well.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise.arrays.engine import on_host
from sitewise.arrays.spread import agreed, is_spread, whole
from sitewise.data import Data
from sitewise.kernels.distances import same_rows
from sitewise.learning.carry_over import sites_of_all
from sitewise.learning.checkpoint import Start
from sitewise.learning.objective import INPUTS, Evaluation, pulls_on_host
from sitewise.learning.search import Best, Search
from sitewise.model import Model
from sitewise.numerics.dense.symmetric import absolute_inverse
from sitewise.priors.inducing import select
from sitewise.sites import Sites
from sitewise.supports import Positive
from sitewise.types import replace

_ROWS, _PER_INPUT = 2_000, 5  # rows of a rehearsal, at least, and for each inducing input
_SAVES = 3  # it is worth its time where all rows are at least this many times as many
_INPUTS = 50  # of a rehearsal, at least
_GAIN = 0.02  # nats for each hyperparameter that are left to the next search
_ROUNDS = 15  # of the first search, before it takes a Hessian
_DIFFERENCE = 0.1  # in log θ, for the Hessian
_FLAT = 0.5  # nats for each unit of log θ, squared
SITES_TOL = 1e-3  # residual of the sites of a search that is not to end at its optimum to the last digit
TOL = 1e-4  # gradient per row; the optimum for all rows is farther away than this resolves


def drawn_rows(data: Data, inducing: int, seed: int, times: int = 1) -> np.ndarray:
    """Places of the rows that are enough to learn from at first, or `times` as many; all that count if there are no
    more.  The same seed gives sets that contain each other."""
    counted = np.flatnonzero(whole(data.weight) > 0)
    rows = times * max(_ROWS, _PER_INPUT * inducing)
    return np.sort(np.random.default_rng(seed).permutation(counted)[:rows])


def stages_of(search: Search, seed: int) -> list[Search]:
    """Searches with some of the rows, each with three times the rows of the one before, and with fewer inducing inputs.

    A third of them costs a ninth, and is enough to learn where the optimum is about.  There are none for a prior that
    is not sparse, for too few rows, and on an accelerator: every number of rows has its own program there.
    """
    if search.model.prior.exact or not (search.on_host or _is_apart(search)) or not search.trainable.names:
        return []
    settings = dataclasses.replace(search.settings, tol=max(TOL, search.settings.tol), least_gain=_GAIN)
    model = _with_fewer_inputs(search, seed)
    inducing = len(getattr(model.prior, "inducing", ()))
    counted = np.count_nonzero(whole(search.data.weight) > 0)
    found: list[Search] = []
    while counted >= _SAVES * len(drawn := drawn_rows(search.data, inducing, seed, _SAVES ** len(found))):
        some = whole(jax.tree.map(lambda a, drawn=drawn: a[drawn], search.data))
        found.append(Search(settings, model, some, len(drawn), None, None))
    return found


def _is_apart(search: Search) -> bool:
    """Whether rows are spread over devices, and every process searches with some of them by itself."""
    return is_spread(search.data) and pulls_on_host(search.model, search.trainable.names) and on_host(search.model)


def rehearsed(search: Search, stages: list[Search], start: Start) -> Start:
    """Where the search should start; `start` itself where no search with some rows converges, or only at a bound.

    A search with some rows starts from the optimum for a third of them.
    """
    vector, inverse, _ = start
    last: tuple[Search, Best] | None = None
    for stage in stages:
        with same_rows(stage.data.X), stage.with_loose_sites(SITES_TOL):
            end = end_of(stage, Start(vector, inverse))
        if end.success and not search.trainable.at_bound(end.vector, search.limits):
            vector, inverse, last = end.vector, end.inverse, (stage, end)
    if stages and _is_apart(search):
        # A last digit that differs would lead processes different ways; all of them have to ask.
        empty = np.zeros((len(vector), len(vector)))
        some, vector, inverse = agreed((np.array(inverse is not None), vector, empty if inverse is None else inverse))
        return Start(vector, inverse if some else None)
    return start if last is None else Start(vector, inverse, _sites_of_all(*last, search))


def _sites_of_all(stage: Search, best: Best, search: Search) -> Sites | None:
    inference, model = stage.pair.inference, stage.model_at(best.vector)
    return sites_of_all(inference, model, stage.data, best.solution.sites, search.data)


def end_of(search: Search, start: Start) -> Best:
    """Where a search ends that, without a Hessian to begin with, takes one on the way."""
    if start.inverse is not None or INPUTS in search.trainable.names or not len(start.vector):
        return search.drive(start)
    first = search.drive(start, _ROUNDS)
    left = search.settings.max_rounds - first.rounds
    if first.success or left <= 0:
        return first

    def there() -> Start:
        sites = first.solution.sites
        return Start(first.vector, _inverse_hessian(search, first.vector, sites), sites)

    end = search.drive(search.kept("with a Hessian", there), left)
    return dataclasses.replace(end, rounds=first.rounds + end.rounds)


def _inverse_hessian(search: Search, vector: np.ndarray, sites: Sites) -> np.ndarray | None:
    """The inverse of the negative Hessian per row, by differences of the gradient; None where inference fails.

    An ascent learns the Hessian along its own path only, and creeps where that is wrong: along the lengthscales of
    columns that matter little, which are as many as there are columns.  A direction of upward curvature counts as one
    of downward curvature of the same size, and none as flatter than one that the rows say nothing about: in log θ, or
    for other numbers in units of what the rows leave uncertain.
    """
    size = len(vector)
    first = search.evaluate(vector, sites)

    def gradient(found: Evaluation) -> np.ndarray:
        return np.asarray(found.gradient) / search.rows if found.solution.outcome.settled else np.full(size, np.nan)

    here, hessian = gradient(first), np.empty((size, size))
    for i in range(size):
        low, high = np.clip(vector[i] + np.array([-_DIFFERENCE, _DIFFERENCE]), *search.limits[i]) - vector[i]
        step = high if high >= -low else low
        moved = search.evaluate(vector + step * np.eye(size)[i], first.solution.sites)
        hessian[i] = (here - gradient(moved)) / step
    if not np.all(np.isfinite(hessian)):
        return None
    logs = np.concatenate([np.full(p.raw_size, isinstance(p.support, Positive)) for p in search.trainable.parameters])
    units = np.where(logs, 1.0, np.maximum(1.0, 1 / np.sqrt(search.rows * np.abs(np.diagonal(hessian)) + 1e-300)))
    return units[:, None] * absolute_inverse(units[:, None] * hessian * units, _FLAT / search.rows) * units


def _with_fewer_inputs(search: Search, seed: int) -> Model:
    model, Z = search.model, np.asarray(getattr(search.model.prior, "inducing", ()))
    count = max(_INPUTS, len(Z) // _SAVES)
    if len(Z) <= count or INPUTS in search.trainable.names:
        return model
    # Centres of rows: a part of Z would leave gaps, and another optimum.
    drawn = drawn_rows(search.data, count, seed, _SAVES**2)
    fewer = select(whole(search.data.X[drawn]), "kmeans", count, kernel=model.prior.kernel, seed=seed)
    return replace(model, prior=replace(model.prior, inducing=fewer))
