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

    def condition(self, sites: Sites) -> Marginals:
        """prior × sites.  With g = f − μ, the site of f is a site of g with b = nat1 − prec·μ."""
        mu = self.mean
        b = sites.nat1 - sites.prec * mu
        out = linalg.gaussian_sites(self.K, b, sites.prec)
        shift = jnp.sum(mu * (sites.nat1 - 0.5 * sites.prec * mu))
        return Marginals(mu + out.mean, out.var, jnp.zeros_like(out.var), shift + out.log_z, mu, out.jitter)

    def condition_with_factor(self, sites: Sites) -> tuple[Marginals, jax.Array]:
        """The same, with the factor V that `covariance` needs; not for differentiation."""
        mu = self.mean
        b = sites.nat1 - sites.prec * mu
        out, (_, _, V, _) = linalg.condition_on_sites(self.K, b, sites.prec)
        shift = jnp.sum(mu * (sites.nat1 - 0.5 * sites.prec * mu))
        return Marginals(mu + out.mean, out.var, jnp.zeros_like(out.var), shift + out.log_z, mu, out.jitter), V

    def covariance(self, V: jax.Array) -> Covariance:
        return Covariance(self.K - V.T @ V)


@module
class Covariance:
    """The posterior covariance Σ of the rows, as the two products that derivatives of q need."""

    matrix: jax.Array = fixed()

    def times(self, x: jax.Array) -> jax.Array:
        """Σ x."""
        return self.matrix @ x

    def squared_times(self, x: jax.Array) -> jax.Array:
        """(Σ ∘ Σ) x."""
        return (self.matrix * self.matrix) @ x


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
