"""The sparse GP prior: m inducing variables u = f(Z) summarise the function (Titsias 2009).

f_i = s_i + e_i, with s the projection of f on u and e_i ~ N(0, resid_i) independent given u; the site of row i acts
on s_i.  Time is O(nm²).  With Z = X this is the full GP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from sitewise import means
from sitewise.arrays.engine import Array, is_host, namespace, stop_gradient
from sitewise.checks import known
from sitewise.kernels import Kernel
from sitewise.kernels.terms import level_columns
from sitewise.numerics.dense import cholesky
from sitewise.numerics.dense.tall_products import row_forms, row_products, row_squares, times_upper, weighted_gram
from sitewise.priors.base import Covariance, Gram, Marginals, Prior, one_latent
from sitewise.priors.kernel_sums import cross_sums, mean_sums, not_negative, prior_sums
from sitewise.priors.posterior import Expansion, LatentPosterior
from sitewise.priors.sparse.conditioning import Factor, Inner, Projected, condition, project, pull_features
from sitewise.priors.sparse.features import Features, Whitened, added
from sitewise.process.device import on_accelerator
from sitewise.sites import Sites
from sitewise.types import ArrayField, Module, fixed, module, real, replace, static

# Numbers per block of features: 2 MB, which fit in a CPU's cache, or enough for an accelerator.
CPU_BLOCK_SIZE, ACCELERATOR_BLOCK_SIZE = 2**18, 2**22


@module
class SparsePrior(Module, Prior):
    """Sparse GP prior; `inducing` is Z, one row per inducing input, held fixed unless trained by name.

    jitter   added to the diagonal of K_uu, as a share of its mean
    keep     features of at most this size (n·m) are stored; larger ones are recomputed block by block
    block    size of the features per block; None: as much as fits in a CPU's cache, or more on an accelerator
    """

    kernel: Kernel = fixed()
    inducing: ArrayField = real(train=False)
    mean: means.Mean = fixed(means.Zero())
    jitter: float = static(1e-9)
    keep: int = static(2**24)
    block: int | None = static(None)

    structure: ClassVar[str] = "sparse"
    exact: ClassVar[bool] = False
    host: ClassVar[bool] = True

    def check(self, columns: int, latents: int) -> None:
        super().check(columns, latents)
        self._check_latents(latents)
        shape = np.shape(self.inducing)
        if len(shape) != 2 or shape[0] == 0 or shape[1] != columns:
            raise ValueError(f"Inducing inputs must be a table with {columns} columns, got shape {shape}.")

    def _check_latents(self, latents: int) -> None:
        one_latent(self, latents)

    @property
    def inputs(self) -> np.ndarray:
        return np.asarray(self.inducing)

    def with_inputs(self, Z: np.ndarray) -> Self:
        return replace(self, inducing=Z)

    def check_rows(self, X: np.ndarray) -> None:
        super().check_rows(X)
        if not known(self.inducing):
            return
        Z = np.asarray(self.inducing)
        self.kernel.check_rows(Z)
        for column in level_columns(self.kernel, range(X.shape[1])):
            if np.all(X[:, column] % 1 == 0) and np.any(Z[:, column] % 1 != 0):
                raise ValueError(
                    f"Column {column} holds levels, but an inducing input has the value "
                    f"{Z[Z[:, column] % 1 != 0, column][0]:g} there, which is not a level; choose rows of the "
                    "table, as priors.inducing.select(X, 'greedy', count, kernel=kernel) does."
                )

    def _on_host(self, X: jax.Array) -> bool:
        return is_host(X, *jax.tree.leaves(self))

    def _with_jitter(self, K: jax.Array) -> jax.Array:
        """Return K_uu, given κ(Z, Z)."""
        xp = namespace(K)
        return K + self.jitter * xp.mean(xp.diagonal(K)) * xp.eye(K.shape[0], dtype=K.dtype)

    def whitened(self, dtype: DTypeLike) -> Whitened:
        """Return the map from inputs to features, as JAX arrays, differentiable in this prior."""
        Z = jnp.asarray(self.inducing, dtype)
        return Whitened(self.kernel, Z, *cholesky.whitener(self._with_jitter(self.kernel.matrix(Z))))

    def gram(self, X: jax.Array) -> Any:
        Z = (np if self._on_host(X) else jnp).asarray(self.inducing, X.dtype)
        return self._gram(X, self._features(X, Z, self.kernel.matrix(Z)))

    def _gram(self, X: Array, features: Features) -> Gram:
        return SparseGram(features, self.mean.at(X), features.whitened.jitter)

    def _pull_mean(self, X: Array, bar: Any) -> means.Mean:
        """Return the cotangent of the mean, given the cotangent of the Gram."""
        return self.mean.pull(X, bar.mean)

    def _features(self, X: Array, Z: Array, K: Array, inputs: bool = False) -> Features:
        """Compute the features, given Z and K = κ(Z, Z)."""
        K_uu = self._with_jitter(K)
        whitened = Whitened(self.kernel, Z, *cholesky.whitener(stop_gradient(K_uu)))
        numbers = self.block or (ACCELERATOR_BLOCK_SIZE if on_accelerator() else CPU_BLOCK_SIZE)
        keep = X.shape[0] * len(Z) <= self.keep
        return Features.of(whitened, K_uu, X, max(1, numbers // len(Z)), keep, inputs)

    def gram_with_pull(self, X: Array, inputs: bool = False) -> tuple[Gram, Callable[[Gram], SparsePrior]]:
        """Return the Gram and its pullback; with `inputs` also to Z, by K_xu per block and twice by the symmetric K_uu,

            Z̄ = Σ_i K̄_xu[i, :] ∂κ(x_i, Z)/∂Z + (K̄_uu + K̄_uuᵀ) ∂κ(Z', Z)/∂Z at Z' = Z

        For a stationary kernel these are two products of n×m with the columns, O(nmd).  Without `inputs` Z̄ is zero on
        NumPy arrays; JAX's own pullback always computes it.
        """
        if not self._on_host(X):
            return super().gram_with_pull(X)
        Z = np.asarray(self.inducing, X.dtype)
        K, pull_uu = self.kernel.matrix_with_pull(Z)

        def pull(bar: Any) -> SparsePrior:
            K_uu_bar = bar.features.K_uu
            K_uu_bar = K_uu_bar + self.jitter * np.trace(K_uu_bar) / len(Z) * np.eye(len(Z))
            by_rows = self.kernel.pull_rows(Z, Z, K_uu_bar + K_uu_bar.T) if inputs else 0.0
            return replace(
                self,
                kernel=added(bar.features.whitened.kernel, pull_uu(K_uu_bar)),
                inducing=bar.features.whitened.Z + by_rows,
                mean=self._pull_mean(X, bar),
            )

        return self._gram(X, self._features(X, Z, K, inputs)), pull

    def posterior(self, X: jax.Array, sites: Sites) -> LatentPosterior:
        gram = self.gram(X)
        factor = gram.condition_with_factor(sites, None)[1]
        return self._given(gram.features.whitened if self._on_host(X) else self.whitened(X.dtype), factor)

    def posterior_from(self, gram: Any, factor: Any, X: jax.Array, sites: Sites) -> LatentPosterior:
        return self._given(gram.features.whitened, factor)

    def _given(self, whitened: Whitened, factor: Any) -> LatentPosterior:
        return SparsePosterior(whitened, self.mean, factor.inner)


@module
class SparseGram(Gram[Marginals]):
    features: Features = fixed()
    mean: jax.Array = fixed()
    jitter: jax.Array = fixed()

    newton_is_cheap: ClassVar[bool] = False  # a product with Σ∘Σ costs as much as a conditioning

    def _marginals(self, sites: Sites, out: Projected) -> Marginals:
        xp, mu = namespace(self.mean, out.mean), self.mean
        shift = xp.sum(mu * (sites.nat1 - 0.5 * sites.prec * mu))
        jitter = xp.maximum(self.jitter, out.jitter)
        return Marginals(mu + out.mean, out.var, out.resid, shift + out.log_z, mu, jitter)

    def condition(self, sites: Sites) -> Marginals:
        """Condition s, which has the prior mean μ of f, on the sites."""
        if is_host(self.mean, *sites):
            return self.condition_with_factor(sites, None)[0]
        return self._marginals(sites, project(self.features, sites.nat1 - sites.prec * self.mean, sites.prec))

    def condition_with_factor(self, sites: Sites, mask: jax.Array | None) -> tuple[Marginals, Factor]:
        out, factor = condition(self.features, sites.nat1 - sites.prec * self.mean, sites.prec)
        return self._marginals(sites, out), factor

    def pull(self, sites: Sites, factor: Factor, q: Marginals, by_q: Marginals) -> SparseGram:
        b = sites.nat1 - sites.prec * self.mean
        out, out_bar = (Projected(a.mean, a.var, a.resid, a.log_z, a.jitter) for a in (q, by_q))
        found = pull_features(self.features, b, sites.prec, factor, out, out_bar)
        mean_bar = by_q.mean + by_q.prior_mean + by_q.log_z * b - sites.prec * found.b
        return SparseGram(found.features, mean_bar, namespace(self.jitter).zeros_like(self.jitter))

    def rounding_error(self, sites: Sites, q: Marginals, factor: Factor) -> jax.Array:
        """Estimate the rounding error of the identity in A, relative to 1/max diag S if precisions are negative."""
        gram, H = factor.gram, factor.inner.H
        xp = namespace(gram)
        lost = xp.maximum(1.0, xp.max(xp.sum(H * H, axis=0)))
        return xp.finfo(gram.dtype).eps * xp.max(xp.abs(xp.diagonal(gram))) * lost

    def covariance(self, sites: Sites, factor: Factor) -> SparseCovariance:
        S = factor.inner.H.T @ factor.inner.H
        return SparseCovariance(self.features.like(S), S)


@module
class SparseCovariance(Covariance[Marginals]):
    """Products with Σ = Φ S Φᵀ, for derivatives of q."""

    features: Features = fixed()
    S: jax.Array = fixed()

    def times(self, x: jax.Array) -> jax.Array:
        """Return Σ x, in O(nm)."""
        features = self.features.like(x)
        inner = self.S @ features.total(lambda phi, x: phi.T @ x, x)
        return features.each(lambda phi: phi @ inner)

    def squared_times(self, x: jax.Array) -> jax.Array:
        """Return (Σ ∘ Σ) x = diag Φ S (Φᵀ diag(x) Φ) S Φᵀ, in O(nm²)."""
        features = self.features.like(x)
        P = features.total(lambda phi, x: weighted_gram(phi, x), x)
        Q = self.S @ P @ self.S
        return features.each(lambda phi: row_forms(phi, Q))


def in_blocks(
    function: Callable[[Array], tuple[Array, ...]], X_new: Array, inducing: int, posterior: LatentPosterior
) -> Any:
    """Return function(X_new), arrays of rows; on the host, one block of rows after the other."""
    rows = max(1, CPU_BLOCK_SIZE // inducing)
    if len(X_new) <= rows or not is_host(X_new, *jax.tree.leaves(posterior)):
        return function(X_new)
    out: tuple[np.ndarray, ...] = ()
    for at in range(0, len(X_new), rows):
        found = function(X_new[at : at + rows])
        out = out or tuple(np.empty((len(X_new), *one.shape[1:])) for one in found)
        for whole, one in zip(out, found, strict=True):
            whole[at : at + rows] = one
    return out


@module
class SparsePosterior(LatentPosterior):
    whitened: Whitened = fixed()
    mean: means.Mean = fixed()
    inner: Inner = fixed()

    @property
    def kernel(self) -> Kernel:
        return self.whitened.kernel

    def through(self, kernel: Kernel, mean: means.Mean) -> SparsePosterior:
        """Replace the features κ(x, Z) T of f by the features κ_p(x, Z) T of the other process."""
        return replace(self, whitened=replace(self.whitened, kernel=kernel), mean=mean)

    def explained(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        phi, _ = self.whitened(X_new)
        C = times_upper(phi, self.inner.H.T)
        xp, mean = namespace(C), self.mean.at(X_new) + phi @ self.inner.coef
        return mean, xp.concatenate([phi, C], axis=1).T, xp.concatenate([phi, -C], axis=1).T

    def expansion(self) -> Expansion:
        """Return φ = Tᵀk in the mean φᵀc and the variance κ − |φ|² + |Hφ|²."""
        T, Z = np.asarray(self.whitened.T), np.asarray(self.whitened.Z)
        alpha, Q = T @ np.asarray(self.inner.coef), np.asarray(self.inner.H) @ T.T
        return Expansion((self.kernel,), self.mean, Z, alpha[None], T.T[None], np.ones(T.shape[1]), Q[None])

    def marginals(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return mean φᵀc and variance κ − |φ|² + φᵀSφ per row."""
        return in_blocks(self._marginals, X_new, len(self.whitened.Z), self)

    def _marginals(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        phi, diag = self.whitened(X_new)
        xp = namespace(phi)
        var = xp.maximum(diag - row_products(phi, phi), 0.0) + row_squares(phi, self.inner.H.T)
        return self.mean.at(X_new) + phi @ self.inner.coef, xp.maximum(var, xp.finfo(var.dtype).eps * diag)

    def joint(self, X_new: jax.Array) -> tuple[jax.Array, jax.Array]:
        phi, _ = self.whitened(X_new)
        C = times_upper(phi, self.inner.H.T)
        cov = self.whitened.kernel.matrix(X_new) - phi @ phi.T + C @ C.T
        return self.mean.at(X_new) + phi @ self.inner.coef, cov

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean φ_gᵀc and variance κ_g − |φ_g|² + |H φ_g|², φ_g = Tᵀ k_g (`kernel_sums`)."""
        weight, kernel = weight[:, 0], self.whitened.kernel
        phi = cross_sums(kernel, X, weight, np.asarray(self.whitened.Z)) @ self.whitened.T
        rest = not_negative(prior_sums(kernel, X, weight) - np.sum(phi**2, axis=-1))
        mean = mean_sums(self.mean, X, weight) + phi @ self.inner.coef
        return mean, rest + np.sum((phi @ self.inner.H.T) ** 2, axis=-1)
