"""Draw rows for learning, and predict the sites of all rows from a subset.

Some tens of hyperparameters are known well after some ten thousand rows: further rows improve the mean log density of
a new row by about (hyperparameters / rows used for learning).  They improve q(u) by more, and one inference with all
rows costs a small part of a search.
"""

from __future__ import annotations

import jax
import numpy as np

from sitewise.arrays.spread import whole
from sitewise.data import Data
from sitewise.inference import Inference
from sitewise.inference.loop import update_at
from sitewise.model import Model
from sitewise.sites import Sites

MAX_KINDS, RARE_SHARE = 20, 200  # of at most 20 distinct targets, each keeps rows // 200 rows if it has them


def counted_rows(data: Data) -> int:
    """Return the number of rows of positive weight."""
    return int(np.count_nonzero(whole(data.weight) > 0))


def sampled(data: Data, rows: int, seed: int) -> Data:
    """Draw at most `rows` rows of positive weight, and a few more where a class, or a count, would be rare.

    The same seed gives samples that contain each other.  Without a row of one class the other class would be certain,
    whatever the inputs are.
    """
    counted = np.flatnonzero(whole(data.weight) > 0)
    if len(counted) <= rows:
        return whole(jax.tree.map(lambda a: a[counted], data)) if len(counted) < data.rows else data
    order = np.random.default_rng(seed).permutation(counted)
    chosen, y = [order[:rows]], whole(data.y)
    if y.ndim == 1:
        y = y[order]
        kinds = np.unique(y)
        chosen += [order[np.flatnonzero(y == kind)[: rows // RARE_SHARE]] for kind in kinds if len(kinds) <= MAX_KINDS]
    drawn = np.unique(np.concatenate(chosen))
    return whole(jax.tree.map(lambda a: a[drawn], data))


def predicted_sites(inference: Inference, model: Model, some: Data, sites: Sites, data: Data) -> Sites | None:
    """Return sites of all rows of `data`, as a start, from `some` rows and their sites; NumPy arrays.

    For a row outside the subset, the predictive distribution serves as its cavity: the site is the one that the update
    sets there.  None for several classes.
    """
    rows = model.prior.rows_of(*model.prior.posterior(some.X, sites.scaled(some.weight)).marginals(data.X))
    return None if rows is None else update_at(inference, model.likelihood, data, rows)
