"""The sparse GP prior: m inducing variables u = f(Z) summarise the function (Titsias 2009).

f_i = s_i + e_i, with s the projection of f on u and e_i ~ N(0, resid_i) independent given u; the site of row i acts
on s_i.  The cost is O(nm²).  With Z = X this is the full GP.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from sitewise import means
from sitewise.kernels import Kernel
from sitewise.numerics import cholesky, triangular
from sitewise.priors.base import Covariance, Gram, LatentPosterior, Marginals, Prior
from sitewise.priors.features import Factor, Features, Inner, Projected, Whitened, condition, project, pull_features
from sitewise.runtime.device import on_accelerator
from sitewise.sites import Sites
from sitewise.types import ArrayField, Module, fixed, module, real, static

# How many numbers the features of a block have: 2 MB, which fit in a processor's cache, or enough for an accelerator.
_CPU_BLOCK, _ACCELERATOR_BLOCK = 2**18, 2**22


@module
class SparsePrior(Module, Prior):
    """`inducing` is Z, one row per inducing input; it is held constant unless it is trained by name.

    jitter   added to the diagonal of K_uu, as a share of its mean
    keep     features of at most this size (n·m) are stored; larger ones are recomputed block by block
    block    the size of the features of one block; None: what fits in a processor's cache, or more on an accelerator
    """

    kernel: Kernel = fixed()
    inducing: ArrayField = real(train=False)
    mean: means.Mean = fixed(means.Zero())
    jitter: float = static(1e-9)
    keep: int = static(2**24)
    block: int | None = static(None)

    structure: ClassVar[str] = "sparse"
    exact: ClassVar[bool] = False

    def _inducing(self, dtype: DTypeLike) -> tuple[jax.Array, jax.Array]:
        """Z, and K_uu with the jitter."""
        Z = jnp.asarray(self.inducing, dtype)
        K = self.kernel.matrix(Z)
        return Z, K + self.jitter * jnp.mean(jnp.diagonal(K)) * jnp.eye(len(Z), dtype=dtype)

    def whitened(self, dtype: DTypeLike) -> Whitened:
        Z, K_uu = self._inducing(dtype)
        return Whitened(self.kernel, Z, *cholesky.whitener(K_uu))

    def gram(self, X: jax.Array) -> SparseGram:
        Z, K_uu = self._inducing(X.dtype)
        whitened = Whitened(self.kernel, Z, *cholesky.whitener(lax.stop_gradient(K_uu)))
        numbers = self.block or (_ACCELERATOR_BLOCK if on_accelerator() else _CPU_BLOCK)
        keep = X.shape[0] * len(Z) <= self.keep
        features = Features.of(whitened, K_uu, X, max(1, numbers // len(Z)), keep)
        return SparseGram(features, self.mean(X), whitened.jitter)

    def posterior(self, X: jax.Array, sites: Sites) -> SparsePosterior:
        factor = self.gram(X).condition_with_factor(sites, None)[1]
        return SparsePosterior(self.whitened(X.dtype), self.mean, factor.inner)


@module
class SparseGram(Gram[Marginals]):
    features: Features = fixed()
    mean: jax.Array = fixed()
    jitter: jax.Array = fixed()

    # A product with Σ∘Σ costs as much as a conditioning here.
    newton_is_cheap: ClassVar[bool] = False

    def _marginals(self, sites: Sites, out: Projected) -> Marginals:
        mu = self.mean
        shift = jnp.sum(mu * (sites.nat1 - 0.5 * sites.prec * mu))
        jitter = jnp.maximum(self.jitter, out.jitter)
        return Marginals(mu + out.mean, out.var, out.resid, shift + out.log_z, mu, jitter)

    def condition(self, sites: Sites) -> Marginals:
        """The sites act on s, which has the prior mean μ of f."""
        return self._marginals(sites, project(self.features, sites.nat1 - sites.prec * self.mean, sites.prec))

    def condition_with_factor(self, sites: Sites, mask: jax.Array | None) -> tuple[Marginals, Factor]:
        out, factor = condition(self.features, sites.nat1 - sites.prec * self.mean, sites.prec)
        return self._marginals(sites, out), factor

    def pull(self, sites: Sites, factor: Factor, q: Marginals, by_q: Marginals) -> SparseGram:
        b = sites.nat1 - sites.prec * self.mean
        out, out_bar = (Projected(a.mean, a.var, a.resid, a.log_z, a.jitter) for a in (q, by_q))
        features_bar, b_bar, _ = pull_features(self.features, b, sites.prec, factor, out, out_bar)
        mean_bar = by_q.mean + by_q.prior_mean + by_q.log_z * b - sites.prec * b_bar
        return SparseGram(features_bar, mean_bar, jnp.zeros_like(self.jitter))

    def rounding_error(self, sites: Sites, q: Marginals, factor: Factor) -> jax.Array:
        """The rounding error of the identity in A, as a share."""
        return jnp.finfo(factor.gram.dtype).eps * jnp.max(jnp.diagonal(factor.gram))

    def covariance(self, sites: Sites, factor: Factor) -> SparseCovariance:
        return SparseCovariance(self.features, factor.inner.H.T @ factor.inner.H)


@module
class SparseCovariance(Covariance[Marginals]):
    """Σ = Φ S Φᵀ, as the two products that derivatives of q need."""

    features: Features = fixed()
    S: jax.Array = fixed()

    def times(self, x: jax.Array) -> jax.Array:
        """Σ x, in O(nm)."""
        inner = self.S @ self.features.total(lambda phi, diag, x: phi.T @ x, x)
        return self.features.each(lambda phi, diag: phi @ inner)

    def squared_times(self, x: jax.Array) -> jax.Array:
        """(Σ ∘ Σ) x = diag Φ S (Φᵀ diag(x) Φ) S Φᵀ, in O(nm²)."""
        P = self.features.total(lambda phi, diag, x: triangular.weighted_gram(phi, x), x)
        Q = self.S @ P @ self.S
        return self.features.each(lambda phi, diag: jnp.sum((phi @ Q) * phi, axis=1))


@module
class SparsePosterior(LatentPosterior):
    whitened: Whitened = fixed()
    mean: means.Mean = fixed()
    inner: Inner = fixed()

    def marginals(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The variance is κ − |φ|² + φᵀSφ."""
        phi, diag = self.whitened(X_new)
        C = phi @ self.inner.H.T
        var = jnp.maximum(diag - jnp.sum(phi * phi, axis=1), 0.0) + jnp.sum(C * C, axis=1)
        return self.mean(X_new) + phi @ self.inner.coef, jnp.maximum(var, jnp.finfo(var.dtype).eps * diag)

    def joint(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        phi, _ = self.whitened(X_new)
        C = phi @ self.inner.H.T
        cov = self.whitened.kernel.matrix(X_new) - phi @ phi.T + C @ C.T
        return self.mean(X_new) + phi @ self.inner.coef, cov
