"""Starting sites of the iteration."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays import programs, rowwise
from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.data import Data
from sitewise.inference.update import SiteUpdate
from sitewise.likelihoods import Likelihood, TwoFunctions
from sitewise.model import Model
from sitewise.numerics.dense.directions import count_directions
from sitewise.sites import Sites


def initial_sites(likelihood: Likelihood, data: Data) -> Sites:
    """Return sites from the likelihood's landmark: the precision is 1/width², and the slope is the slope of log p.

    VI under a wide prior needs precise sites to start from: q is narrow at first, where E_q[log p] is well behaved, and
    widens.  If it started from the prior, the means would overshoot and every step would have to be damped.
    """
    centre, width = likelihood.landmark(data.y)
    if isinstance(likelihood, TwoFunctions):
        slope, prec = likelihood.derivatives(data.y, centre)[0], 1 / width**2
        none = jnp.zeros((count_directions(len(prec)) - len(prec), *prec.shape[1:]), prec.dtype)
        natural = jnp.concatenate([slope + prec * centre, none])
        return Sites(natural, jnp.concatenate([prec, none])).masked(data.mask)
    slope = jax.jvp(lambda f: likelihood.log_prob(data.y, f), (centre,), (jnp.ones_like(centre),))[1]
    prec = 1 / width**2
    return Sites(slope + prec * centre, prec).masked(data.mask)


_traced_first_sites = programs.jit(initial_sites)


def first_sites(likelihood: Likelihood, data: Data) -> Sites:
    """`initial_sites` for callers outside a compiled program."""
    if not is_host(*jax.tree.leaves((likelihood, data))):
        return _traced_first_sites(likelihood, data)
    if type(likelihood).log_prob_slopes is not Likelihood.log_prob_slopes:
        centre, width = map(np.asarray, likelihood.landmark(data.y))
        found = likelihood.log_prob_slopes(data.y, centre)
        if found is not None:
            return Sites(found[1] + centre / width**2, 1 / width**2).masked(data.mask)
    rows = data.weight, np.moveaxis(data.y, 0, -1)
    return Sites(*rowwise.apply(_initial_rows, None, likelihood, rows)[0])


def _initial_rows(_: None, likelihood: Likelihood, rows: tuple[Array, Array]) -> tuple[tuple[Any, ...], tuple[()]]:
    weight, y = rows
    return tuple(initial_sites(likelihood, Data(jnp.zeros((weight.shape[0], 0)), jnp.moveaxis(y, -1, 0), weight))), ()


def start_of(method: SiteUpdate, model: Model, data: Data, sites: Sites | None = None) -> Sites:
    """Return the given sites, padded with zeros; without sites, the likelihood's own start, adapted to the prior."""
    if sites is not None:
        return padded_sites(model.likelihood, data, sites)
    first = first_sites(model.likelihood, data)
    return first if method.mean_only else model.prior.start(data.X, first)


def padded_sites(likelihood: Likelihood, data: Data, sites: Sites | None) -> Sites:
    """Pad `sites` with zeros for the further rows of `data`; without sites, return the likelihood's own start."""
    if sites is None:
        return first_sites(likelihood, data)
    rows = sites.nat1.shape[-1]
    if rows > data.rows:
        raise ValueError(f"Got sites for {rows} rows but data for {data.rows}; give the sites of these data.")
    return Sites(*(pad_rows(a, data.rows) for a in sites))


def pad_rows(array: Array, rows: int) -> Array:
    """Append zeros on the last axis of an array, the axis of the rows."""
    xp = namespace(array)
    return xp.pad(xp.asarray(array), [(0, 0)] * (array.ndim - 1) + [(0, rows - array.shape[-1])])


def to_bucket(data: Data, sites: Sites) -> tuple[Data, Sites]:
    """Pad data and sites to the bucket of the data."""
    filled = data.to_bucket()
    return filled, Sites(*(pad_rows(a, filled.rows) for a in sites))
