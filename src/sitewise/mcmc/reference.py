"""Reference distribution of MCMC: the Gaussian q = prior × sites, and its log ratio r to the posterior.

    p(f) Π p_i(f_i)^{w_i} = Z_q · q(f) · exp r(f),    r(f) = Σ w_i [log p_i(f_i) − log t_i(f_i)]

With zero sites, q is the prior and r is the log-likelihood.  Chains are the columns of an (n, chains) matrix: one
matrix product serves all chains.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sitewise.data import Data
from sitewise.likelihoods import Likelihood
from sitewise.model import Model
from sitewise.numerics.dense import cholesky, triangular, whitened_sites
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


def prior_root(model: Model, data: Data) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the prior mean, A with A Aᵀ = K + jitter, and the jitter.

    Rows of weight 0 are made independent of all other rows and have no influence.
    """
    prior = model.prior.as_full(data.rows)
    if not prior.one_matrix:
        raise TypeError("mcmc needs a full GP, because it samples the latent value of every row; use Model.full.")
    gram: Any = prior.gram(data.X)
    both = data.mask[:, None] & data.mask[None, :]
    variance = jnp.sum(jnp.where(data.mask, jnp.diagonal(gram.K), 0.0)) / jnp.sum(data.mask)
    K = jnp.where(both, gram.K, 0.0) + jnp.diag(jnp.where(data.mask, 0.0, variance))
    # Always with jitter: A is inverted, and the chains move along its columns.
    A, share = cholesky.jittered_cholesky(K, 1)
    return gram.mean, A, share * variance


def reference(model: Model, data: Data, sites: Sites) -> Reference:
    """Return q = prior × sites; sites that are not finite are replaced by zero.

    So are sites of negative precision (Laplace's method at an outlier), as their powers times the prior may not be
    Gaussian densities.
    """
    good = data.mask & jnp.isfinite(sites.nat1) & jnp.isfinite(sites.prec) & (sites.prec >= 0)
    sites = Sites(jnp.where(good, sites.nat1, 0.0), jnp.where(good, sites.prec, 0.0))
    mu, A, jitter = prior_root(model, data)
    all_copies = sites.scaled(data.weight)
    white = whitened_sites.whitened_sites(A, all_copies.nat1 - all_copies.prec * mu, all_copies.prec)
    shift = jnp.sum(mu * (all_copies.nat1 - 0.5 * all_copies.prec * mu))
    root = triangular.lower_solve(white.L, A.T).T
    split = whitened_sites.independent_part(A, all_copies.prec)
    return Reference(mu + A @ white.z_mean, root, shift + white.log_z, sites, mu, A, split, jitter)


class Target(NamedTuple):
    """Target of a chain: q, and the factors of the ratio of posterior and q."""

    ref: Reference
    likelihood: Likelihood
    data: Data

    def rows(self, f: jax.Array) -> jax.Array:
        """Return the terms of r, one per row and column of f."""
        data, sites = self.data, self.ref.sites
        columns = Sites(sites.nat1[:, None], sites.prec[:, None])
        terms = self.likelihood.log_prob(data.y[:, None], f) - log_site(columns, f)
        terms = jnp.where(data.mask[:, None], data.weight[:, None] * terms, 0.0)
        return jnp.where(terms > _MIN_LOG_DENSITY, terms, _MIN_LOG_DENSITY)

    def residual(self, f: jax.Array) -> jax.Array:
        """Return r(f) per column of f."""
        return jnp.sum(self.rows(f), axis=0)


def draw(key: jax.Array, ref: Reference, chains: int) -> jax.Array:
    """Draw columns f ~ q; the random numbers of row i do not depend on the number of padding rows."""
    noise = jax.random.normal(key, (ref.mean.shape[0], chains), ref.mean.dtype)
    return ref.mean[:, None] + ref.root @ noise
