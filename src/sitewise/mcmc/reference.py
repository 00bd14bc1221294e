"""The Gaussian q = prior × sites as a distribution to draw from, and what separates it from the posterior.

    p(f) Π p_i(f_i)^{w_i} = Z_q · q(f) · exp r(f),    r(f) = Σ w_i [log p_i(f_i) − log t_i(f_i)]

With zero sites q is the prior and r the log-likelihood.  Chains are the columns of an (n, chains) matrix, so that
one matrix product draws for all of them.
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

_LOWEST = -1e30  # a lower log density (Poisson, far from y) means zero density; this stays finite when tempered


class Reference(NamedTuple):
    """q(f) = N(mean, root rootᵀ), log Z_q, the sites of single copies, the prior N(prior_mean, A Aᵀ),
    and q's independent part (for `rowwise`)."""

    mean: jax.Array
    root: jax.Array
    log_z: jax.Array
    sites: Sites
    prior_mean: jax.Array
    prior_root: jax.Array
    split: whitened_sites.Split
    jitter: jax.Array


def prior_root(model: Model, data: Data) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Prior mean, A with A Aᵀ = K + jitter, and the jitter.

    Rows of weight 0 are made independent of the others, so that they change nothing.
    """
    prior = model.prior.as_full()
    if not prior.one_matrix:
        raise TypeError("mcmc needs a full GP: its samples are of the latent value of every row.")
    gram: Any = prior.gram(data.X)
    both = data.mask[:, None] & data.mask[None, :]
    variance = jnp.sum(jnp.where(data.mask, jnp.diagonal(gram.K), 0.0)) / jnp.sum(data.mask)
    K = jnp.where(both, gram.K, 0.0) + jnp.diag(jnp.where(data.mask, 0.0, variance))
    # Never without jitter: A is inverted, and the chains move along its columns.
    A, share = cholesky.jittered_cholesky(K, 1)
    return gram.mean, A, share * variance


def reference(model: Model, data: Data, sites: Sites) -> Reference:
    """prior × sites; a site that is not finite counts as zero, which leaves the prior itself.

    So does one of negative precision (Laplace's at an outlier), whose powers need not have a Gaussian as product.
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
    """What a chain needs: q, and the factors that separate it from the posterior."""

    ref: Reference
    likelihood: Likelihood
    data: Data

    def rows(self, f: jax.Array) -> jax.Array:
        """The term of r of every row (and column) of f."""
        data, sites = self.data, self.ref.sites
        columns = Sites(sites.nat1[:, None], sites.prec[:, None])
        terms = self.likelihood.log_prob(data.y[:, None], f) - log_site(columns, f)
        terms = jnp.where(data.mask[:, None], data.weight[:, None] * terms, 0.0)
        return jnp.where(terms > _LOWEST, terms, _LOWEST)

    def residual(self, f: jax.Array) -> jax.Array:
        """r(f) of every column of f."""
        return jnp.sum(self.rows(f), axis=0)


def draw(key: jax.Array, ref: Reference, chains: int) -> jax.Array:
    """Columns f ~ q.  Row i gets the same random numbers, however many rows of padding follow it."""
    noise = jax.random.normal(key, (ref.mean.shape[0], chains), ref.mean.dtype)
    return ref.mean[:, None] + ref.root @ noise
