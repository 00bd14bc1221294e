"""Row-wise evaluation of inference, evidence and gradient: functions of (likelihood, data, q, sites) per row.

`on_rows` evaluates a row-wise function: inline in a traced program, or by compiled programs for a fixed number of rows
(`rowwise`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import rowwise
from sitewise.arrays.engine import Array, is_host
from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.priors import Marginals
from sitewise.sites import Sites

Values = tuple[Array, ...]
# (settings, likelihood, data, q, sites, further arrays of rows) → arrays of rows, and sums over rows
Function = Callable[..., tuple[Values, Values]]


def on_rows(
    function: Function,
    settings: Hashable,
    likelihood: Likelihood,
    data: Data,
    q: Marginals,
    sites: Sites,
    *more: Any,
    piece: int = 0,
    closed: Callable[..., tuple[Values, Values] | None] | None = None,
) -> tuple[Values, Values]:
    """Return function(settings, likelihood, data, q, sites, *more) for a row-wise function.

    All arrays have the rows on the last axis.  Each sum is the sum of the contributions of the rows and of q.log_z.
    `piece` is the number of rows per program, as in `rowwise.apply`.  `closed` computes the same from (likelihood,
    data, q, sites) with whole weights, on NumPy arrays without a compiled program, if the likelihood has derivatives on
    NumPy arrays; else it returns None.
    """
    if not is_host(q.mean, sites.nat1, data.weight, *jax.tree.leaves(likelihood)):
        return function(settings, likelihood, data, q, sites, *more)
    if closed is not None and not data.fractional:
        found = closed(likelihood, data, q, sites)
        if found is not None:
            return found
    # A sum over rows may contain log_z once: log_z is assigned to the first row, and the other rows have 0.
    first = np.zeros((2, data.rows))
    first[0], first[1, 0] = data.weight, q.log_z
    rows = (first, np.moveaxis(data.y, 0, -1), q.rows(), tuple(sites), more)
    return rowwise.apply(_apply_to_rows, (function, settings, type(q), data.fractional), likelihood, rows, piece)


def of_each_row(
    function: Callable[..., Values], settings: Hashable, shared: Any, *tables: Any, piece: int = 0
) -> Values:
    """Return function(settings, shared, *tables); tables and results have the rows on their first axis."""
    if not is_host(*tables, *jax.tree.leaves(shared)):
        return function(settings, shared, *tables)
    rows = tuple(np.moveaxis(table, 0, -1) for table in tables)
    values, _ = rowwise.apply(_apply_rows_first, (function, settings), shared, rows, piece)
    return tuple(np.moveaxis(value, -1, 0) for value in values)


def _apply_rows_first(settings: Any, shared: Any, rows: Any) -> tuple[Values, Values]:
    function, own = settings
    values = function(own, shared, *(jnp.moveaxis(row, -1, 0) for row in rows))
    return tuple(jnp.moveaxis(value, 0, -1) for value in values), ()


def _apply_to_rows(settings: Any, likelihood: Likelihood, rows: Any) -> tuple[Values, Values]:
    function, own, kind, fractional = settings
    (weight, log_z), y, q_rows, sites, more = rows
    data = Data(jnp.zeros((weight.shape[0], 0)), jnp.moveaxis(y, -1, 0), weight, fractional=fractional)
    if fractional:
        # `rowwise` pads with copies of a row.  Their site is set to 0, as q may not contain a whole site to divide out.
        sites = tuple(jnp.where(weight > 0, site, 0.0) for site in sites)
    return function(own, likelihood, data, kind.of_rows(q_rows, jnp.sum(log_z)), Sites(*sites), *more)
