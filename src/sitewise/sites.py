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
    """Gaussian sites, the approximate likelihood factors of an inference: t(f) = exp(nat1·f − ½ prec·f²) per row.

    Attributes
    ----------
    nat1 : array of shape (n_rows,)
        First natural parameter per row.
    prec : array of shape (n_rows,)
        Precision per row.
    """

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
    xp = namespace(mean, var)
    kept = 1 - share * sites.prec * var
    # Where other rows have negative precisions (Laplace), q without a site need not be a Gaussian; the cavity is NaN.
    rounding = 64 * xp.sqrt(xp.finfo(kept.dtype).eps)
    kept = xp.where(kept < -rounding, xp.nan, xp.maximum(kept, _MIN_SHARE))
    without = (mean - share * sites.nat1 * var) / kept, var / kept
    return Cavity(*without, without[1] + resid, log_expected_site(sites, *without, share))


class HostCavity(NamedTuple):
    """The cavity N(mean, var) of one whole site on NumPy arrays, and the share c = 1 − prec·v of the precision kept."""

    mean: Array
    var: Array
    kept: Array

    def pull(self, q: Any, sites: Sites, by_mean: Array, by_var: Array) -> tuple[Array, Array, Array, Array]:
        """Return derivatives in (m, v, nat1, prec) of the marginal and the site, given those in the cavity (m₋, v₋).

        m₋ = (m − nat1·v)/c and v₋ = v/c, so that ∂m₋ = [∂m − v ∂nat1 + (prec·m₋ − nat1) ∂v + v m₋ ∂prec]/c and
        ∂v₋ = ∂v/c² + v₋² ∂prec.
        """
        per_mean = by_mean / self.kept
        return (
            per_mean,
            per_mean * (sites.prec * self.mean - sites.nat1) + by_var / self.kept**2,
            -per_mean * q.var,
            per_mean * q.var * self.mean + by_var * self.var**2,
        )


def cavity_on_host(mean: Array, var: Array, sites: Sites) -> HostCavity | None:
    """Return the cavities on NumPy arrays; None where `cavity` would limit the share that is kept."""
    kept = 1 - sites.prec * var
    if not kept.min() > _MIN_SHARE:  # a NaN fails this comparison too
        return None
    return HostCavity((mean - sites.nat1 * var) / kept, var / kept, kept)


def log_site(sites: Sites, f: Array) -> Array:
    """Return log t_i(f_i)."""
    return sites.nat1 * f - 0.5 * sites.prec * f**2


def expected_log_site(sites: Sites, mean: Array, var: Array) -> Array:
    """Return E_{N(mean, var)}[log t_i]."""
    return sites.nat1 * mean - 0.5 * sites.prec * (mean**2 + var)


def log_expected_site(sites: Sites, mean: Array, var: Array, share: ArrayLike) -> Array:
    """Return log E_{N(mean, var)}[t_i^share], the cavity integral with the site in place of the likelihood."""
    b, w = share * sites.nat1, share * sites.prec
    xp = namespace(mean, var)
    spread = xp.maximum(1 + w * var, _MIN_SHARE)
    # log ∫ N(f; m, v) exp(bf − ½wf²) df = −½ log(1+wv) + (bm + ½ b²v − ½ w m²)/(1+wv)
    return -0.5 * xp.log(spread) + (b * mean + 0.5 * b**2 * var - 0.5 * w * mean**2) / spread
