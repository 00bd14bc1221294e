"""Gaussian sites, the parameters λ of every approximation in this library.

    t_i(f) = exp(nat1_i f − ½ prec_i f²)

A row of weight w has w copies of its site.  Removing the share `a` of one copy from the marginal
N(m, v) leaves the *cavity*, with natural parameters m/v − a·nat1 and 1/v − a·prec.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.typing import ArrayLike, DTypeLike

from sitewise.arrays.engine import Array, namespace


class Sites(NamedTuple):
    """The natural parameters of the sites."""

    nat1: Any  # JAX arrays in traced code, NumPy arrays outside; one number per row
    prec: Any

    @staticmethod
    def zeros(rows: int, dtype: DTypeLike = float) -> Sites:
        """Return sites that are constant 1."""
        return Sites(jnp.zeros(rows, dtype), jnp.zeros(rows, dtype))

    def scaled(self, weight: ArrayLike) -> Sites:
        """Return the product of `weight` copies of each site."""
        return Sites(weight * self.nat1, weight * self.prec)

    def masked(self, mask: Array) -> Sites:
        """Return the sites of the rows in the mask, and zeros for the other rows (padding)."""
        xp = namespace(mask, *self)
        return Sites(xp.where(mask, self.nat1, 0.0), xp.where(mask, self.prec, 0.0))


class Cavity(NamedTuple):
    """The marginal of each row with a share of its site divided out.

    The site acts on a variable of mean `mean` and variance `var`.  f has the same mean and the variance `f_var`, which
    includes the residual of a sparse prior.  `log_site` is log E_cavity[t_i^share].  Where a row has several
    latent values, means are vectors and variances are matrices, on the last axes.
    """

    mean: Array
    var: Array
    f_var: Array
    log_site: Array


# The least share of the marginal's precision that a cavity keeps.  With a smaller share the site has (nearly) all of
# the precision, and dividing it out is not meaningful.
_MIN_SHARE = 1e-10


def cavity(mean: Array, var: Array, resid: ArrayLike, sites: Sites, share: ArrayLike) -> Cavity:
    """Return N(mean, var) with `share` of one copy of each site divided out.

    The formulas are relative to the marginal, c = 1 − a·prec·v: no digits are lost when v is tiny.
    """
    kept = 1 - share * sites.prec * var
    # Where other rows have negative precisions (Laplace), q without a site need not be a Gaussian; the cavity is NaN.
    rounding = 64 * jnp.sqrt(jnp.finfo(kept.dtype).eps)
    kept = jnp.where(kept < -rounding, jnp.nan, jnp.maximum(kept, _MIN_SHARE))
    without = (mean - share * sites.nat1 * var) / kept, var / kept
    return Cavity(*without, without[1] + resid, log_expected_site(sites, *without, share))


def log_site(sites: Sites, f: Array) -> Array:
    """Return log t_i(f_i)."""
    return sites.nat1 * f - 0.5 * sites.prec * f**2


def expected_log_site(sites: Sites, mean: Array, var: Array) -> Array:
    """Return E_{N(mean, var)}[log t_i]."""
    return sites.nat1 * mean - 0.5 * sites.prec * (mean**2 + var)


def log_expected_site(sites: Sites, mean: Array, var: Array, share: ArrayLike) -> Array:
    """Return log E_{N(mean, var)}[t_i^share], the cavity integral with the site in place of the likelihood."""
    b, w = share * sites.nat1, share * sites.prec
    spread = jnp.maximum(1 + w * var, _MIN_SHARE)
    # log ∫ N(f; m, v) exp(bf − ½wf²) df = −½ log(1+wv) + (bm + ½ b²v − ½ w m²)/(1+wv)
    return -0.5 * jnp.log(spread) + (b * mean + 0.5 * b**2 * var - 0.5 * w * mean**2) / spread
