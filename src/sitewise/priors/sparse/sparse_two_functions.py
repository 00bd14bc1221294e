"""The sparse prior of likelihoods with two latent functions per row: inducing inputs shared by both functions.

f_l = s_l + e_l, with s_l the projection of f_l on u_l = f_l(Z) and the residuals e_l ~ N(0, resid_l) independent.  The
full 2 × 2 site of a row acts on (s_1, s_2), as in `priors.two_function_prior`; with Z = X the two priors are equal.
Conditioning costs O(n(2m)²) (`numerics.dense.block_features`), and the features of all rows are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import jax
import numpy as np

from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.kernels import Kernel
from sitewise.numerics.dense import block_features
from sitewise.numerics.dense.directions import (
    along,
    blocks_of_precisions,
    combined,
    directions,
    variances_of_blocks,
)
from sitewise.numerics.dense.tall_products import row_products, times_transposed_upper
from sitewise.priors.base import Covariance, Gram, Prior
from sitewise.priors.kernel_sums import cross_sums, mean_sums, not_negative, prior_sums
from sitewise.priors.posterior import LatentPosterior
from sitewise.priors.sparse.features import Features, Whitened
from sitewise.priors.sparse.sparse_classes import traced_condition
from sitewise.priors.sparse.sparse_prior import SparseGram, SparsePrior, in_blocks
from sitewise.priors.two_function_prior import BlockMarginals, FunctionPrior, TwoFunctionPrior
from sitewise.sites import Sites
from sitewise.types import ArrayField, fixed, module, real, replace, static

_UNLIMITED_NUMBERS = 2**62  # features of any size are stored


@module
class SparseTwoFunctionPrior(TwoFunctionPrior):
    """Sparse prior over two latent functions per row; `inducing` is Z, shared by both functions and held fixed.

    `jitter` is added to the diagonals of the covariances of u, as a share of their means.
    """

    jitter: float = static(default=1e-9)
    inducing: ArrayField = real(default=0.0, train=False)

    structure: ClassVar[str] = "sparse two functions"
    exact: ClassVar[bool] = False
    dense: ClassVar[bool] = False
    informs: ClassVar[bool] = False

    @property
    def each(self) -> list[SparsePrior]:
        """The sparse prior of each function alone."""
        return [
            SparsePrior(one.kernel, self.inducing, one.mean, self.jitter, keep=_UNLIMITED_NUMBERS, block=None)
            for one in self.functions
        ]

    def one_function(self) -> SparsePrior:  # type: ignore[override]
        return self.each[0]

    def check(self, columns: int, latents: int) -> None:
        super().check(columns, latents)
        for one in self.each:
            one.check(columns, 1)

    def check_rows(self, X: np.ndarray) -> None:
        for one in self.each:
            one.check_rows(X)

    @property
    def inputs(self) -> np.ndarray:
        return np.asarray(self.inducing)

    def with_inputs(self, Z: np.ndarray) -> Self:
        return replace(self, inducing=Z)

    def gram(self, X: Array) -> SparseBlockGram:  # type: ignore[override]
        return SparseBlockGram(tuple(one.gram(X) for one in self.each))

    def gram_with_pull(self, X: Any, inputs: bool = False) -> tuple[Any, Callable[[Any], TwoFunctionPrior]]:
        if not is_host(X, *jax.tree.leaves(self)):
            return Prior.gram_with_pull(self, X)
        each = [one.gram_with_pull(X, inputs) for one in self.each]

        def pull(bar: SparseBlockGram) -> SparseTwoFunctionPrior:
            first, second = (of_gram(one) for (_, of_gram), one in zip(each, bar.each, strict=True))
            inducing = first.inducing + second.inducing
            by_second = FunctionPrior(second.kernel, second.mean)
            return replace(self, kernel=first.kernel, mean=first.mean, second=by_second, inducing=inducing)

        return SparseBlockGram(tuple(gram for gram, _ in each)), pull

    def posterior_from(self, gram: Any, factor: Any, X: Array, sites: Sites) -> SparseTwoFunctionPosterior:  # type: ignore[override]
        return SparseTwoFunctionPosterior(self, tuple(one.features.whitened for one in gram.each), *factor)

    def posterior(self, X: Array, sites: Sites) -> SparseTwoFunctionPosterior:  # type: ignore[override]
        gram = self.gram(X)
        return self.posterior_from(gram, gram.condition_with_factor(sites, None)[1], X, sites)


@module
class SparseBlockGram(Gram[BlockMarginals]):
    """The features of both functions."""

    each: tuple[Any, ...] = fixed()  # a SparseGram per function

    newton_is_cheap: ClassVar[bool] = False

    @property
    def phi(self) -> Array:
        """Φ of all rows, (L, n, m)."""
        found = [one.features.each(lambda phi: phi) for one in self.each]
        return namespace(*found).stack(found)

    @property
    def mean(self) -> Array:
        """Prior means, (L, n)."""
        return namespace(*(one.mean for one in self.each)).stack([one.mean for one in self.each])

    def _natural(self, sites: Sites) -> tuple[Array, Array, Array]:
        """Return b = nat1 − W μ, the blocks W, and the log_z of the mean function."""
        mean = self.mean
        xp = namespace(mean, sites.prec)
        b, W = combined(sites.nat1), blocks_of_precisions(sites.prec)
        pulled = xp.einsum("nab,bn->an", W, mean)
        return b - pulled, W, xp.sum(mean * (b - 0.5 * pulled))

    def condition(self, sites: Sites) -> BlockMarginals:
        if is_host(self.each[0].mean, *sites):
            return self.condition_with_factor(sites, None)[0]
        return traced_condition(self, sites)

    def condition_with_factor(self, sites: Sites, mask: Array | None) -> tuple[BlockMarginals, block_features.Inner]:
        b, W, shift = self._natural(sites)
        out, inner = block_features.condition(self.phi, b, W)
        xp, A = namespace(out.mean), directions(len(self.each)) ** 2
        resid = A @ xp.stack([one.features.resid for one in self.each])
        prior, var = along(self.mean), variances_of_blocks(out.cov)
        jitter = xp.maximum(xp.max(xp.stack([one.jitter for one in self.each])), out.jitter)
        # Rounding can make a variance negative if it is tiny compared with the prior variance.
        var = xp.maximum(var, xp.finfo(out.mean.dtype).eps * (A @ self._prior_variances()))
        return BlockMarginals(prior + along(out.mean), var, resid, shift + out.log_z, prior, jitter), inner

    def _prior_variances(self) -> Array:
        found = [one.features.whitened.variances(one.features.X) for one in self.each]
        return namespace(*found).stack(found)

    def pull(
        self, sites: Sites, factor: block_features.Inner, q: BlockMarginals, by_q: BlockMarginals
    ) -> SparseBlockGram:
        xp = namespace(q.mean, by_q.mean)
        A, phi = directions(len(self.each)), self.phi
        b, W, _ = self._natural(sites)
        by_cov = xp.einsum("kn,ka,kb->nab", by_q.var, A, A)
        bar = block_features.Projected(combined(by_q.mean), by_cov, by_q.log_z, by_q.jitter)
        phi_bar, b_bar = block_features.pull(phi, b, W, factor, bar)
        by_mean = combined(by_q.mean + by_q.prior_mean) + by_q.log_z * b - xp.einsum("nab,bn->an", W, b_bar)
        by_resid = (A**2).T @ by_q.resid
        return SparseBlockGram(
            tuple(
                SparseGram(_pull_features(one.features, *rows), mean, xp.zeros_like(one.jitter))
                for one, mean, *rows in zip(self.each, by_mean, phi, phi_bar, by_resid, strict=True)
            )
        )

    def rounding_error(self, sites: Sites, q: BlockMarginals, factor: block_features.Inner | None) -> Array:
        """Estimate the relative rounding error of the identity in A."""
        prior = self._prior_variances()
        xp, W = namespace(prior, sites.prec), blocks_of_precisions(sites.prec)
        sd = xp.sqrt(prior.T)
        return xp.finfo(prior.dtype).eps * xp.max(xp.abs(W) * sd[:, :, None] * sd[:, None, :])

    def covariance(self, sites: Sites, factor: block_features.Inner) -> SparseBlockCovariance:
        return SparseBlockCovariance(self.phi, factor.S)


def _pull_features(features: Features, phi: Array, phi_bar: Array, resid_bar: Array) -> Features:
    """Return the cotangent of the features, given those of Φ and of the residual variances κ_ii − |φ_i|².

    ΦᵀΦ̄ is symmetric, because a rotation of v changes nothing: K̄_uu = −½ T (ΦᵀΦ̄) Tᵀ.
    """
    xp, T = namespace(phi, phi_bar), features.whitened.T
    resid_bar = xp.where(features.resid > 0, resid_bar, 0.0)
    phi_bar = phi_bar - 2 * resid_bar[:, None] * phi
    inner = phi.T @ phi_bar
    K_uu_bar = -0.25 * T @ (inner + inner.T) @ T.T

    def by_rows(_: Array, bar: Array) -> tuple[Array, tuple[()]]:
        return times_transposed_upper(xp.array(bar), T), ()

    return features.pull(by_rows, K_uu_bar, resid_bar, phi_bar)[0]


@module
class SparseBlockCovariance(Covariance[BlockMarginals]):
    """Products with the covariance of h = A s, (P, n) by (P, n)."""

    phi: Array = fixed()
    S: Array = fixed()

    def times(self, x: Array) -> Array:
        """Return Cov(h) x, in O(nm)."""
        inner = block_features.times(self.S, block_features.apply_transposed(self.phi, combined(x)))
        return along(block_features.apply(self.phi, inner))

    def squared_times(self, x: Array) -> Array:
        """Return (Cov(h) ∘ Cov(h)) x by the weighted sum of a_k a_kᵀ ⊗ φ φᵀ, in O(n(2m)²)."""
        wide = self.S.shape[0] * self.S.shape[1]
        S, P = self.S.reshape(wide, wide), block_features.gram(self.phi, blocks_of_precisions(x)).reshape(wide, wide)
        return variances_of_blocks(block_features.forms(self.phi, (S @ P @ S).reshape(self.S.shape)))


@module
class SparseTwoFunctionPosterior(LatentPosterior):
    """q of both functions: v ~ N(coef, HᵀH), with coef (L, m) and H (Lm, L, m)."""

    prior: SparseTwoFunctionPrior = fixed()
    whitened: tuple[Whitened, ...] = fixed()
    coef: Array = fixed()
    H: Array = fixed()

    @property
    def kernel(self) -> Kernel:
        raise ValueError("Terms of a kernel are for models with one latent function; this model has two.")

    def _parts(self, X_new: Array) -> tuple[Array, Array, Array, Array]:
        """Return means (L, n), features (L, n, m), V = H φ, (L, rank, n), and prior variances (L, n)."""
        xp = namespace(self.H, X_new)
        phi, prior = (xp.stack(each) for each in zip(*(one(X_new) for one in self.whitened), strict=True))
        mean = xp.stack([one.mean.at(X_new) for one in self.prior.functions]) + block_features.apply(phi, self.coef)
        return mean, phi, xp.stack([self.H[:, k] @ one.T for k, one in enumerate(phi)]), prior

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        """Return means (rows, 2) and covariances (rows, 2, 2) of the functions per new row."""
        return in_blocks(self._marginals, X_new, len(self.H), self)

    def _marginals(self, X_new: Array) -> tuple[Array, Array]:
        mean, phi, V, prior = self._parts(X_new)
        xp = namespace(V)
        left = xp.stack([diag - row_products(one, one) for one, diag in zip(phi, prior, strict=True)], -1)
        left = xp.maximum(left, xp.finfo(V.dtype).eps * prior.T)
        return mean.T, xp.einsum("arn,brn->nab", V, V) + xp.eye(len(mean), dtype=V.dtype) * left[:, :, None]

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        """Return mean and covariance matrix of both functions at the new rows, the first function first."""
        mean, phi, V, _ = self._parts(X_new)
        xp, (size, count) = namespace(V), mean.shape
        cov = xp.einsum("arm,brn->ambn", V, V)
        own = [one.kernel.matrix(X_new) - p @ p.T for one, p in zip(self.whitened, phi, strict=True)]
        zero = xp.zeros((count, count), V.dtype)
        whole = xp.stack([xp.stack([own[a] if a == b else zero for b in range(size)], 1) for a in range(size)], 0)
        return mean.reshape(-1), (cov + whole).reshape(size * count, size * count)

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean Σ_l (Σμ_l + φ_lgᵀc_l) and variance Σ_l (κ_lg − |φ_lg|²) + |Σ_l H_l φ_lg|² (`kernel_sums`)."""
        shape = weight.shape[0], len(X)
        mean, left, rooted = np.zeros(shape), np.zeros(shape), np.zeros((len(self.H), *shape))
        for k, (one, found) in enumerate(zip(self.prior.functions, self.whitened, strict=True)):
            w = weight[:, k]
            phi = cross_sums(one.kernel, X, w, np.asarray(found.Z)) @ np.asarray(found.T)
            mean += mean_sums(one.mean, X, w) + phi @ np.asarray(self.coef[k])
            left += not_negative(prior_sums(one.kernel, X, w) - np.sum(phi**2, axis=-1))
            rooted += np.einsum("rm,sgm->rsg", np.asarray(self.H)[:, k], phi)
        return mean, left + np.sum(rooted**2, axis=0)
