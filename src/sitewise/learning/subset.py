"""Draw rows for learning, and predict the sites of all rows from a subset.

Some tens of hyperparameters are known well after some ten thousand rows: further rows improve the mean log density of
a new row by about (hyperparameters / rows used for learning).  They improve q(u) by more, and one inference with all
rows costs a small part of a search.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from sitewise.arrays.spread import whole
from sitewise.data import Data
from sitewise.inference import Inference
from sitewise.inference.loop import update_at
from sitewise.model import Model
from sitewise.sites import Sites

MAX_KINDS, RARE_SHARE = 20, 200  # of at most 20 distinct targets, each keeps rows // 200 rows if it has them
MAX_DRAWN_ROWS = 10_000_000  # of merged rows together; beyond them a merged row is drawn as one


def counted_rows(data: Data) -> int:
    """Return the number of rows of positive weight."""
    return int(np.count_nonzero(whole(data.weight) > 0))


def sampled(data: Data, rows: int, seed: int) -> Data:
    """Draw at most `rows` rows of positive weight, and a few more where a class, or a count, would be rare.

    A row of whole weight w stands for w equal rows: these are drawn one by one, up to `rows` different rows, so that
    the classes at one place keep their shares.  The same seed gives samples that contain each other.  Without a row of
    one class the other class would be certain, whatever the inputs are.
    """
    weight = whole(data.weight)
    counted = np.flatnonzero(weight > 0)
    if len(counted) <= rows:
        return whole(jax.tree.map(lambda a: a[counted], data)) if len(counted) < data.rows else data
    single = data.fractional or np.sum(weight[counted]) > MAX_DRAWN_ROWS
    each = np.ones(len(counted), int) if single else weight[counted].astype(int)
    order = np.random.default_rng(seed).permutation(np.repeat(counted, each))
    begins = np.sort(np.unique(order, return_index=True)[1])  # of different rows
    chosen, y = [np.arange(begins[rows])], whole(data.y)
    if y.ndim == 1:
        y = y[order]
        kinds = np.unique(y)
        chosen += [np.flatnonzero(y == kind)[: rows // RARE_SHARE] for kind in kinds if len(kinds) <= MAX_KINDS]
    drawn, count = np.unique(order[np.unique(np.concatenate(chosen))], return_counts=True)
    found = whole(jax.tree.map(lambda a: a[drawn], data))
    return found if single else dataclasses.replace(found, weight=count.astype(float))


def predicted_sites(inference: Inference, model: Model, some: Data, sites: Sites, data: Data) -> Sites | None:
    """Return sites of all rows of `data`, as a start, from `some` rows and their sites; NumPy arrays.

    For a row outside the subset, the predictive distribution serves as its cavity: the site is the one that the update
    sets there.  None for several classes.
    """
    rows = model.prior.rows_of(*model.prior.posterior(some.X, sites.scaled(some.weight)).marginals(data.X))
    return None if rows is None else update_at(inference, model.likelihood, data, rows)
