"""The sites from which the iteration starts."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.sites import Sites


def initial_sites(likelihood: Likelihood, data: Data) -> Sites:
    """Sites from the likelihood's landmark: the precision is 1/width², and the slope is that of log p there.

    VI under a wide prior needs precise sites to start from: q is narrow at first, where E_q[log p] is well behaved, and
    widens.  If it started from the prior, the means would overshoot and every step would have to be damped.
    """
    centre, width = likelihood.landmark(data.y)
    slope = jax.jvp(lambda f: likelihood.log_prob(data.y, f), (centre,), (jnp.ones_like(centre),))[1]
    prec = 1 / width**2
    return Sites(slope + prec * centre, prec).masked(data.mask)


first_sites = jax.jit(initial_sites)  # for callers outside a compiled program


def padded_sites(likelihood: Likelihood, data: Data, sites: Sites | None) -> Sites:
    """`sites` with zeros for the further rows of `data`; without sites, the likelihood's own start."""
    if sites is None:
        return first_sites(likelihood, data)
    rows = sites.nat1.shape[-1]
    if rows > data.rows:
        raise ValueError(f"Got sites for {rows} rows but data for {data.rows}; give the sites of these data.")
    return Sites(*(pad_rows(a, data.rows) for a in sites))


def pad_rows(array: jax.Array, rows: int) -> jax.Array:
    """`array` with zeros appended on its last axis, which is that of the rows."""
    array = jnp.asarray(array)
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, rows - array.shape[-1])])


def to_bucket(data: Data, sites: Sites) -> tuple[Data, Sites]:
    """Both padded to the bucket of the data."""
    filled = data.to_bucket()
    return filled, Sites(*(pad_rows(a, filled.rows) for a in sites))
