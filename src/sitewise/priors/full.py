"""The full GP prior: one latent value per row, covariance κ(X, X)."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from sitewise import means
from sitewise.kernels import Kernel
from sitewise.numerics import gaussian_sites
from sitewise.priors.base import Covariance, Gram, LatentPosterior, Marginals, Prior
from sitewise.runtime.device import on_accelerator
from sitewise.sites import Sites
from sitewise.types import fixed, module, static

_NATS = 1e6  # an error counts in nats where the evidence is smaller than this, and as a share of it where it is larger


@module
class FullPrior(Prior):
    kernel: Kernel = fixed()
    mean: means.Mean = fixed(default=means.Zero())
    jitter: float = static(default=0.0)

    structure: ClassVar[str] = "full"
    dense: ClassVar[bool] = True

    def gram(self, X: jax.Array) -> FullGram:
        K = self.kernel.matrix(X)
        return FullGram(K + self.jitter * jnp.eye(X.shape[0], dtype=K.dtype), self.mean(X))

    def posterior(self, X: jax.Array, sites: Sites) -> FullPosterior:
        gram = self.gram(X)
        b = sites.nat1 - sites.prec * gram.mean
        return FullPosterior(self, X, *gaussian_sites.site_weights(gram.K, b, sites.prec))


@module
class FullGram(Gram[Marginals]):
    K: jax.Array = fixed()
    mean: jax.Array = fixed()

    newton_is_cheap: ClassVar[bool] = True

    def _centred(self, sites: Sites) -> jax.Array:
        """With g = f − μ, the site of f is a site of g with b = nat1 − prec·μ."""
        return sites.nat1 - sites.prec * self.mean

    def _marginals(self, sites: Sites, out: gaussian_sites.Conditioned) -> Marginals:
        mu = self.mean
        shift = jnp.sum(mu * (sites.nat1 - 0.5 * sites.prec * mu))
        return Marginals(mu + out.mean, out.var, jnp.zeros_like(out.var), shift + out.log_z, mu, out.jitter)

    def condition(self, sites: Sites) -> Marginals:
        return self._marginals(sites, gaussian_sites.gaussian_sites(self.K, self._centred(sites), sites.prec))

    def condition_mean(self, sites: Sites) -> Marginals:
        """A third of the cost of `condition`, or less."""
        return self._marginals(sites, gaussian_sites.mean_on_sites(self.K, self._centred(sites), sites.prec))

    def condition_with_factor(self, sites: Sites, mask: jax.Array | None) -> tuple[Marginals, gaussian_sites.Factors]:
        # Under vmap a `cond` computes both branches, and an accelerator runs several models at once: there the formulas
        # that hold for all numbers are cheaper.
        mask = None if on_accelerator() else mask
        out, factors = gaussian_sites.condition_on_sites(self.K, self._centred(sites), sites.prec, mask)
        return self._marginals(sites, out), factors

    def rounding_error(self, sites: Sites, q: Marginals, factors: gaussian_sites.Factors) -> jax.Array:
        """The larger of two rounding errors: that of the identity in B, as a share, and that of log_z, in nats.

        Where the evidence is millions of nats, the second is relative to it.  The evidence is estimated by log_z of
        sites with a maximum of one: −(½ log|B| + ½ αᵀ mean + ½ Σ α²/w), in which a site without precision has that
        of the prior.
        """
        w, b, mean, alpha = sites.prec, self._centred(sites), q.mean - self.mean, factors.alpha
        share = jnp.finfo(w.dtype).eps * jnp.max(w * jnp.diagonal(self.K))
        left = alpha + w * mean - b  # (K⁻¹ + W) mean − b, which is zero in exact arithmetic
        shift = jnp.sum(self.mean * (sites.nat1 - 0.5 * w * self.mean))
        half_log_det = 0.5 * b @ mean - (q.log_z - shift)
        misfit = jnp.sum(alpha**2 / (w + 1 / jnp.diagonal(self.K)))
        size = jnp.abs(half_log_det + 0.5 * alpha @ mean + 0.5 * misfit)
        nats = 0.5 * jnp.abs(mean @ left) / (1 + jnp.where(jnp.isfinite(size), size, 0.0) / _NATS)
        return jnp.maximum(share, nats)

    def covariance(self, sites: Sites, factors: gaussian_sites.Factors) -> FullCovariance:
        matrix = gaussian_sites.covariance(self.K, sites.prec, factors)
        return FullCovariance(self.K, factors.H, matrix, matrix * matrix)

    def pull(self, sites: Sites, factors: gaussian_sites.Factors, q: Marginals, by_q: Marginals) -> FullGram:
        mu, b = self.mean, self._centred(sites)
        out = gaussian_sites.Conditioned(q.mean - mu, q.var, q.log_z, q.jitter)
        K_bar, b_bar = gaussian_sites.pull_prior(
            self.K, sites.prec, out, factors, gaussian_sites.Conditioned(by_q.mean, by_q.var, by_q.log_z, by_q.jitter)
        )
        return FullGram(K_bar, by_q.mean + by_q.prior_mean + by_q.log_z * b - sites.prec * b_bar)


@module
class FullCovariance(Covariance[Marginals]):
    """The posterior covariance Σ of the rows, as the two products that derivatives of q need.

    A program that uses neither `times` nor `squared_times` does not compute the matrices.
    """

    K: jax.Array = fixed()
    H: jax.Array = fixed()
    matrix: jax.Array = fixed()
    squares: jax.Array = fixed()

    def times(self, x: jax.Array) -> jax.Array:
        return self.matrix @ x

    def squared_times(self, x: jax.Array) -> jax.Array:
        return self.squares @ x

    def times_once(self, x: jax.Array) -> jax.Array:
        return self.K @ (x - self.H.T @ (self.H @ (self.K @ x)))


@module
class FullPosterior(LatentPosterior):
    prior: FullPrior = fixed()
    X: jax.Array = fixed()
    L: jax.Array = fixed()
    root: jax.Array = fixed()
    alpha: jax.Array = fixed()

    def _cross(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        # New rows first: distances are centred on the second table, and a prediction must not depend on other new rows.
        cross = self.prior.kernel.matrix(X_new, self.X).T
        V = solve_triangular(self.L, self.root[:, None] * cross, lower=True)
        return self.prior.mean(X_new) + cross.T @ self.alpha, V

    def marginals(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        """R&W eqs. 3.21 and 3.24."""
        mean, V = self._cross(X_new)
        prior_var = self.prior.kernel.variances(X_new)
        floor = jnp.finfo(prior_var.dtype).eps * prior_var
        return mean, jnp.maximum(prior_var - jnp.sum(V * V, axis=0), floor)

    def joint(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        mean, V = self._cross(X_new)
        return mean, self.prior.kernel.matrix(X_new) - V.T @ V
