"""Where the iteration starts."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.sites import Sites


def initial_sites(likelihood: Likelihood, data: Data) -> Sites:
    """Sites as precise as the likelihood's landmark: precision 1/width², slope that of log p there.

    VI under a wide prior needs a precise start: q starts narrow, where E_q[log p] is well behaved, and widens.  Started
    from the prior, the means overshoot and every step must be damped.
    """
    centre, width = likelihood.landmark(data.y)
    slope = jax.jvp(lambda f: likelihood.log_prob(data.y, f), (centre,), (jnp.ones_like(centre),))[1]
    prec = 1 / width**2
    return Sites(slope + prec * centre, prec).masked(data.mask)


first_sites = jax.jit(initial_sites)  # for callers outside a compiled program


def padded_sites(likelihood: Likelihood, data: Data, sites: Sites | None) -> Sites:
    """`sites` with zeros for the rows of `data` beyond theirs; without sites, the likelihood's own start."""
    if sites is None:
        return first_sites(likelihood, data)
    rows = sites.nat1.shape[-1]
    if rows > data.rows:
        raise ValueError(f"Got sites for {rows} rows but data for {data.rows}.")
    return Sites(*(pad_rows(a, data.rows) for a in sites))


def pad_rows(array: jax.Array, rows: int) -> jax.Array:
    """Zeros appended on the axis of the rows, which is the last one of sites."""
    array = jnp.asarray(array)
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, rows - array.shape[-1])])


def to_bucket(data: Data, sites: Sites) -> tuple[Data, Sites]:
    """Both padded to the bucket of the data."""
    filled = data.to_bucket()
    return filled, Sites(*(pad_rows(a, filled.rows) for a in sites))
