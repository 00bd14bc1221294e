"""Reference distribution of MCMC: the Gaussian q = prior × sites, and its log ratio r to the posterior.

    p(f) Π p_i(f_i)^{w_i} = Z_q · q(f) · exp r(f),    r(f) = Σ w_i [log p_i(f_i) − log t_i(f_i)]

With zero sites, q is the prior and r is the log-likelihood.  Chains are the columns of an (n, chains) matrix: one
matrix product serves all chains.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sitewise.arrays.engine import Array, namespace
from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.numerics.dense import cholesky, triangular, whitened_sites
from sitewise.numerics.dense.triangular import plus_diagonal
from sitewise.sites import Sites, log_site

_MIN_LOG_DENSITY = -1e30  # lower limit of a term of r, which keeps tempered terms finite (Poisson, far from y)


class Reference(NamedTuple):
    """q(f) = N(mean, root rootᵀ), log Z_q, sites of single copies, the prior N(prior_mean, A Aᵀ), and `split`.

    `split` is the independent part of q, for `independence_move`.
    """

    mean: jax.Array
    root: jax.Array
    log_z: jax.Array
    sites: Sites
    prior_mean: jax.Array
    prior_root: jax.Array
    split: whitened_sites.Split
    jitter: jax.Array


def prior_root(model: Model, data: Data) -> tuple[Array, Array, Array]:
    """Return the prior mean, A with A Aᵀ = K + jitter, and the jitter; for either kind of arrays.

    Rows of weight 0 are made independent of all other rows and have no influence.
    """
    prior = model.prior.as_full(data.rows)
    if not prior.one_matrix:
        raise TypeError("mcmc needs a full GP, because it samples the latent value of every row; use Model.full.")
    gram: Any = prior.gram(data.X)
    xp = namespace(gram.K, data.weight)
    both = data.mask[:, None] & data.mask[None, :]
    variance = xp.sum(xp.where(data.mask, xp.diagonal(gram.K), 0.0)) / xp.sum(data.mask)
    K = plus_diagonal(xp.where(both, gram.K, 0.0), xp.where(data.mask, 0.0, variance))
    # Always with jitter: A is inverted, and the chains move along its columns.
    A, share = cholesky.jittered_cholesky(K, 1)
    return gram.mean, A, share * variance


def usable(data: Data, sites: Sites) -> Sites:
    """Return the sites, with zero for rows of weight 0, and for sites that are not finite or of negative precision.

    Laplace's method has negative precisions at outliers; their powers times the prior may not be Gaussian densities.
    """
    xp = namespace(data.weight, *sites)
    good = data.mask & xp.isfinite(sites.nat1) & xp.isfinite(sites.prec) & (sites.prec >= 0)
    return Sites(xp.where(good, sites.nat1, 0.0), xp.where(good, sites.prec, 0.0))


def whitened(data: Data, sites: Sites, mu: Array, A: Array) -> tuple[whitened_sites.Whitened, Array]:
    """Return q in the coordinates z of f = μ + A z, and log Z_q."""
    all_copies = sites.scaled(data.weight)
    white = whitened_sites.whitened_sites(A, all_copies.nat1 - all_copies.prec * mu, all_copies.prec)
    shift = namespace(mu, *sites).sum(mu * (all_copies.nat1 - 0.5 * all_copies.prec * mu))
    return white, shift + white.log_z


def reference(model: Model, data: Data, sites: Sites) -> Reference:
    """Return q = prior × sites, with the sites that are `usable`."""
    sites = usable(data, sites)
    mu, A, jitter = prior_root(model, data)
    white, log_z = whitened(data, sites, mu, A)
    root = triangular.lower_solve(white.L, A.T).T
    split = whitened_sites.independent_part(A, sites.scaled(data.weight).prec)
    return Reference(mu + A @ white.z_mean, root, log_z, sites, mu, A, split, jitter)


def terms(log_prob: Array, weight: Array, sites: Sites, f: Array) -> Array:
    """Return w_i [log p_i(f) − log t_i(f)], one per row and column of f, for either kind of arrays."""
    xp = namespace(log_prob, weight)
    columns, weight = Sites(sites.nat1[:, None], sites.prec[:, None]), weight[:, None]
    found = xp.where(weight > 0, weight * (log_prob - log_site(columns, f)), 0.0)
    return xp.where(found > _MIN_LOG_DENSITY, found, _MIN_LOG_DENSITY)


class Target(NamedTuple):
    """Target of a chain: q, and the factors of the ratio of posterior and q."""

    ref: Reference
    likelihood: Likelihood
    data: Data

    def rows(self, f: jax.Array) -> jax.Array:
        """Return the terms of r, one per row and column of f."""
        return terms(self.likelihood.log_prob(self.data.y[:, None], f), self.data.weight, self.ref.sites, f)

    def residual(self, f: jax.Array) -> jax.Array:
        """Return r(f) per column of f."""
        return jnp.sum(self.rows(f), axis=0)


def draw(key: jax.Array, ref: Reference, chains: int) -> jax.Array:
    """Draw columns f ~ q; the random numbers of row i do not depend on the number of padding rows."""
    noise = jax.random.normal(key, (ref.mean.shape[0], chains), ref.mean.dtype)
    return ref.mean[:, None] + ref.root @ noise
