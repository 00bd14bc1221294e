"""L1. The full GP prior: one latent value per row, covariance κ(X, X)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from sitewise import linalg, means
from sitewise.kernels import Kernel
from sitewise.sites import Sites
from sitewise.types import fixed, module, static

_NATS = 1e6  # of evidence, up to which a loss counts in nats, and beyond which as a share of them


class Marginals(NamedTuple):
    """q at the training rows.  f_i has mean `mean` and variance `var` + `resid`; its site sees `var`.

    With several latent functions per row (priors.classes), `cross` is the covariance of those of each row.
    """

    mean: jax.Array
    var: jax.Array
    resid: jax.Array
    log_z: jax.Array
    prior_mean: jax.Array
    jitter: jax.Array  # a share of the diagonal, 0 unless rounding asked for it (linalg.jittered_cholesky)
    cross: jax.Array | None = None


@module
class FullPrior:
    kernel: Kernel = fixed()
    mean: means.Mean = fixed(default=means.Zero())
    jitter: float = static(default=0.0)

    exact: ClassVar[bool] = True  # no residual variance

    def gram(self, X: jax.Array) -> FullGram:
        """Everything that depends on θ and X but not on the sites."""
        K = self.kernel.matrix(X)
        return FullGram(K + self.jitter * jnp.eye(X.shape[0], dtype=K.dtype), self.mean(X))

    def posterior(self, X: jax.Array, sites: Sites) -> FullPosterior:
        """q(f) as an object that can be asked for predictions; `sites` are the weighted ones."""
        gram = self.gram(X)
        b = sites.nat1 - sites.prec * gram.mean
        return FullPosterior(self, X, *linalg.site_weights(gram.K, b, sites.prec))


@module
class FullGram:
    K: jax.Array = fixed()
    mean: jax.Array = fixed()

    newton_pays: ClassVar[bool] = True  # a Newton direction always costs less than what it saves

    def _centred(self, sites: Sites) -> jax.Array:
        """With g = f − μ, the site of f is a site of g with b = nat1 − prec·μ."""
        return sites.nat1 - sites.prec * self.mean

    def _marginals(self, sites: Sites, out: linalg.Conditioned) -> Marginals:
        mu = self.mean
        shift = jnp.sum(mu * (sites.nat1 - 0.5 * sites.prec * mu))
        return Marginals(mu + out.mean, out.var, jnp.zeros_like(out.var), shift + out.log_z, mu, out.jitter)

    def condition(self, sites: Sites) -> Marginals:
        """prior × sites."""
        return self._marginals(sites, linalg.gaussian_sites(self.K, self._centred(sites), sites.prec))

    def condition_mean(self, sites: Sites) -> Marginals:
        """The same for a method that looks at the mean only: `var` is an upper limit; a third of the cost or less."""
        return self._marginals(sites, linalg.mean_on_sites(self.K, self._centred(sites), sites.prec))

    def condition_with_factor(self, sites: Sites, mask: jax.Array | None) -> tuple[Marginals, linalg.Factors]:
        """The same as `condition`, with the factors that `covariance` and `pull` need; not for differentiation.

        Only the rows of the mask have the right variances.
        """
        # Under vmap a `cond` computes both branches, and an accelerator runs models side by side: V always, there.
        mask = mask if jax.default_backend() == "cpu" else None
        out, factors = linalg.condition_on_sites(self.K, self._centred(sites), sites.prec, mask)
        return self._marginals(sites, out), factors

    def lost(self, sites: Sites, q: Marginals, factors: linalg.Factors) -> jax.Array:
        """What rounding has taken: of the identity in B, as a share, and of log_z, in nats; the larger.

        Nats count for less where the evidence has millions.  In its place stands log_z of sites with a maximum of one:
        −(½ log|B| + ½ αᵀ mean + ½ Σ α²/w), in which a site without precision has that of the prior.
        """
        w, b, mean, alpha = sites.prec, self._centred(sites), q.mean - self.mean, factors.alpha
        share = jnp.finfo(w.dtype).eps * jnp.max(w * jnp.diagonal(self.K))
        left = alpha + w * mean - b  # (K⁻¹ + W) mean − b, which is zero
        shift = jnp.sum(self.mean * (sites.nat1 - 0.5 * w * self.mean))
        half_log_det = 0.5 * b @ mean - (q.log_z - shift)
        misfit = jnp.sum(alpha**2 / (w + 1 / jnp.diagonal(self.K)))
        size = jnp.abs(half_log_det + 0.5 * alpha @ mean + 0.5 * misfit)
        nats = 0.5 * jnp.abs(mean @ left) / (1 + jnp.where(jnp.isfinite(size), size, 0.0) / _NATS)
        return jnp.maximum(share, nats)

    def covariance(self, sites: Sites, factors: linalg.Factors, with_pull: bool = False) -> Covariance:
        """Σ; `with_pull` says that `pull` is going to be called too, with which it has a matrix in common."""
        R = linalg.lower_gram(factors.H) if with_pull else None
        matrix = linalg.covariance(self.K, sites.prec, factors, R)
        return Covariance(self.K, factors.H, matrix, matrix * matrix)

    def pull(self, sites: Sites, factors: linalg.Factors, q: Marginals, bar: Marginals) -> FullGram:
        """The cotangent of this gram, given that `bar` of q, with the sites held."""
        mu, b = self.mean, self._centred(sites)
        out = linalg.Conditioned(q.mean - mu, q.var, q.log_z, q.jitter)
        K_bar, b_bar = linalg.pull_prior(
            self.K, sites.prec, out, factors, linalg.Conditioned(bar.mean, bar.var, bar.log_z, bar.jitter)
        )
        return FullGram(K_bar, bar.mean + bar.prior_mean + bar.log_z * b - sites.prec * b_bar)


@module
class Covariance:
    """The posterior covariance Σ of the rows, as the two products that derivatives of q need.

    A program that uses neither `times` nor `squared_times` does not compute the matrices.
    """

    K: jax.Array = fixed()
    H: jax.Array = fixed()
    matrix: jax.Array = fixed()
    squares: jax.Array = fixed()

    def times(self, x: jax.Array) -> jax.Array:
        """Σ x."""
        return self.matrix @ x

    def squared_times(self, x: jax.Array) -> jax.Array:
        """(Σ ∘ Σ) x."""
        return self.squares @ x

    def times_once(self, x: jax.Array) -> jax.Array:
        """Σ x for a few vectors, without making the matrix."""
        return self.K @ (x - self.H.T @ (self.H @ (self.K @ x)))


@module
class FullPosterior:
    prior: FullPrior = fixed()
    X: jax.Array = fixed()
    L: jax.Array = fixed()
    root: jax.Array = fixed()
    alpha: jax.Array = fixed()

    def _cross(self, X_new):
        # New rows first: distances are centred on the second table, and a prediction must not depend on its neighbours.
        cross = self.prior.kernel.matrix(X_new, self.X).T
        V = solve_triangular(self.L, self.root[:, None] * cross, lower=True)
        return self.prior.mean(X_new) + cross.T @ self.alpha, V

    def marginals(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and variance of f at each new row (R&W eqs. 3.21 and 3.24)."""
        mean, V = self._cross(X_new)
        prior_var = self.prior.kernel.variances(X_new)
        floor = jnp.finfo(prior_var.dtype).eps * prior_var
        return mean, jnp.maximum(prior_var - jnp.sum(V * V, axis=0), floor)

    def joint(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and covariance matrix of f at the new rows."""
        mean, V = self._cross(X_new)
        return mean, self.prior.kernel.matrix(X_new) - V.T @ V
