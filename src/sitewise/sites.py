"""L1. Gaussian sites, the parameters λ of every approximation in this library.

    t_i(f) = exp(nat1_i f − ½ prec_i f²)

A row of weight w has w copies of its site.  Removing the share `a` of one copy from the marginal
N(m, v) leaves the *cavity*, with natural parameters m/v − a·nat1 and 1/v − a·prec.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Sites(NamedTuple):
    nat1: Any  # JAX or NumPy arrays, one number per row
    prec: Any

    @staticmethod
    def zeros(rows: int, dtype=float) -> Sites:
        return Sites(jnp.zeros(rows, dtype), jnp.zeros(rows, dtype))

    def scaled(self, weight) -> Sites:
        return Sites(weight * self.nat1, weight * self.prec)


class Cavity(NamedTuple):
    mean: jax.Array
    var: jax.Array


# A cavity may not be wider than this many times the marginal; below it the site has taken
# (nearly) all of the marginal's precision, and dividing it out is no longer meaningful.
_MIN_SHARE = 1e-10


def cavity(mean: jax.Array, var: jax.Array, sites: Sites, share) -> Cavity:
    """N(mean, var) with `share` of one copy of each site divided out.

    Written relative to the marginal, c = 1 − a·prec·v, so that no digits are lost when v is tiny.
    """
    kept = jnp.maximum(1 - share * sites.prec * var, _MIN_SHARE)
    v = var / kept
    return Cavity((mean - share * sites.nat1 * var) / kept, v)


def log_site(sites: Sites, f: jax.Array) -> jax.Array:
    """log t_i(f_i)."""
    return sites.nat1 * f - 0.5 * sites.prec * f**2


def expected_log_site(sites: Sites, mean: jax.Array, var: jax.Array) -> jax.Array:
    """E_{N(mean, var)}[log t_i]."""
    return sites.nat1 * mean - 0.5 * sites.prec * (mean**2 + var)


def log_expected_site(sites: Sites, cav: Cavity, share) -> jax.Array:
    """log E_cavity[t_i^share], the cavity integral with the site in place of the likelihood."""
    b, w = share * sites.nat1, share * sites.prec
    spread = jnp.maximum(1 + w * cav.var, _MIN_SHARE)
    # log ∫ N(f; m, v) exp(bf − ½wf²) df = −½ log(1+wv) + (bm + ½ b²v − ½ w m²)/(1+wv)
    return -0.5 * jnp.log(spread) + (b * cav.mean + 0.5 * b**2 * cav.var - 0.5 * w * cav.mean**2) / spread
