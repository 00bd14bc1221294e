"""The prior of likelihoods with two latent functions per row, such as a mean and a log scale.

The functions f_1 and f_2 are independent a priori, each with its own kernel and mean.  The site of a row couples its
two values by a full precision block, as scalar sites along the directions f_1, f_2 and f_1 + f_2
(`numerics.dense.directions`).  Sites, means and variances therefore have the shape (3, n), and in these coordinates
every formula of scalar sites holds.  Conditioning costs one Cholesky factorisation of 2n rows (`block_sites`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from sitewise import means
from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.checks import must_be
from sitewise.kernels import Kernel
from sitewise.kernels.base import check_matrix
from sitewise.kernels.units import Units, input_units
from sitewise.numerics.dense import block_sites
from sitewise.numerics.dense.directions import (
    along,
    blocks_of_precisions,
    blocks_of_variances,
    combined,
    count_directions,
    directions,
    size_of,
    variances_of_blocks,
)
from sitewise.numerics.dense.triangular import plus_diagonal
from sitewise.priors.base import Covariance, Factor, Gram, Marginals, Prior
from sitewise.priors.full import FullPrior
from sitewise.priors.kernel_sums import cross_sums, mean_sums, not_negative, prior_sums
from sitewise.priors.posterior import LatentPosterior
from sitewise.sites import Cavity, Sites
from sitewise.types import fixed, module, replace, static


class BlockMarginals(Marginals):
    """Marginals along the directions of `numerics.dense.directions`, (P, n).

    `var` determines the covariances on which the sites act, and `resid` those of the residuals of a sparse prior.
    """

    def vectors(self) -> tuple[Array, Array]:
        """Return means (n, L) and covariances (n, L, L) of f."""
        size = size_of(self.mean.shape[0])
        return self.mean[:size].T, blocks_of_variances(self.var + self.resid)

    def cavity(self, sites: Sites, share: ArrayLike) -> Cavity:
        """Return the Gaussian vector per row without the share `share` of its site; NaN if that is no Gaussian."""
        weighted = sites.scaled(share)
        mean, cov = self.vectors()[0], blocks_of_variances(self.var)
        left = block_sites.without_block(mean, cov, combined(weighted.nat1).T, blocks_of_precisions(weighted.prec))
        return Cavity(left.mean, left.cov, left.cov + blocks_of_variances(self.resid), left.log_z)

    def influence(self, sites: Sites, share: ArrayLike) -> Array:
        """Return KL(q ‖ cavity) = E_q[log t^share] − log E_cavity[t^share] per row."""
        weighted = sites.scaled(share)
        expected = weighted.nat1 * self.mean - 0.5 * weighted.prec * (self.mean**2 + self.var)
        return jnp.sum(expected, axis=0) - self.cavity(sites, share).log_site


@module
class FunctionPrior:
    """Kernel and mean of one latent function."""

    kernel: Kernel = fixed()
    mean: means.Mean = fixed(default=means.Zero())


@module
class TwoFunctionPrior(Prior):
    """Prior over two latent functions per row.

    `kernel` and `mean` belong to the first function, and `second` has those of the second: parameters are named as in
    "kernel.variance" and "second.kernel.variance".
    """

    kernel: Kernel = fixed()
    second: FunctionPrior = fixed()
    mean: means.Mean = fixed(default=means.Zero())
    jitter: float = static(default=0.0)

    structure: ClassVar[str] = "two functions"
    dense: ClassVar[bool] = True
    informs: ClassVar[bool] = True
    host: ClassVar[bool] = True

    @staticmethod
    def of(
        kernel: Kernel | Sequence[Kernel],
        mean: means.Mean | Sequence[means.Mean | None] | None,
        level: ArrayLike,
        jitter: float = 0.0,
    ) -> TwoFunctionPrior:
        """Make the prior from one kernel for both functions, or two; a second mean of None is the constant `level`."""
        pair = list(kernel) if isinstance(kernel, list | tuple) else [kernel, kernel]
        both: list[Any] = list(mean) if isinstance(mean, list | tuple) else [mean, None]
        if len(pair) != 2 or len(both) != 2:
            raise ValueError("The likelihood has two latent functions; give one kernel or two, and one mean or two.")
        each = [must_be(k, Kernel, "The kernel", "RBF(), a kernel of sitewise.kernels") for k in pair]
        first = means.Zero() if both[0] is None else both[0]
        second = means.Constant(np.asarray(level)) if both[1] is None else both[1]
        for one in (first, second):
            must_be(one, means.Mean, "The mean", "Constant(), a mean of sitewise.means")
        return TwoFunctionPrior(each[0], FunctionPrior(each[1], second), first, jitter)

    @property
    def functions(self) -> tuple[FunctionPrior, FunctionPrior]:
        """Kernel and mean per function."""
        return FunctionPrior(self.kernel, self.mean), self.second

    def one_function(self) -> FullPrior:
        return FullPrior(self.kernel, self.mean, self.jitter)

    @property
    def kernels(self) -> list[Kernel]:
        return [one.kernel for one in self.functions]

    def check(self, columns: int, latents: int) -> None:
        super().check(columns, latents)
        if latents != 2:
            raise ValueError(f"The prior has two latent functions and the likelihood {latents}; use Model.full.")
        check_matrix(self.second.kernel, columns)
        must_be(self.second.mean, means.Mean, "The mean", "Constant(), a mean of sitewise.means")
        self.second.mean.check(columns)

    def site_shape(self, rows: int, latents: int) -> tuple[int, ...]:
        return count_directions(latents), rows

    def input_units(self, ranges: np.ndarray) -> Units:
        return input_units(self.kernel, ranges) | input_units(self.second.kernel, ranges, "second.kernel")

    def rows_of(self, mean: Array, var: Array) -> BlockMarginals:
        h, along_h = along(mean.T), variances_of_blocks(var)
        none = namespace(along_h).zeros_like(along_h)
        return BlockMarginals(h, along_h, none, none[0, 0], none, none[0, 0])

    def gram(self, X: Array) -> BlockGram:
        return self._gram([one.kernel.matrix(X) for one in self.functions], X)

    def _gram(self, each: Sequence[Array], X: Array) -> BlockGram:
        K = [plus_diagonal(one.copy(), self.jitter) if self.jitter else one for one in each]
        xp = namespace(X, *K)
        return BlockGram(xp.stack(K), xp.stack([one.mean.at(X) for one in self.functions]))

    def gram_with_pull(self, X: Any) -> tuple[Gram, Callable[[Any], TwoFunctionPrior]]:
        if not is_host(X, *jax.tree.leaves(self)):
            return super().gram_with_pull(X)
        each = [one.kernel.matrix_with_pull(X) for one in self.functions]

        def pull(bar: BlockGram) -> TwoFunctionPrior:
            first, second = (
                FunctionPrior(of_kernel(by_K), one.mean.pull(X, by_mean))
                for (_, of_kernel), one, by_K, by_mean in zip(each, self.functions, bar.K, bar.mean, strict=True)
            )
            return replace(self, kernel=first.kernel, mean=first.mean, second=second)

        return self._gram([K for K, _ in each], X), pull

    def posterior(self, X: Array, sites: Sites) -> TwoFunctionPosterior:
        gram = self.gram(X)
        return self.posterior_from(gram, gram.condition_with_factor(sites, None)[1], X, sites)

    def posterior_from(self, gram: Gram, factor: Factor, X: Array, sites: Sites) -> TwoFunctionPosterior:
        return TwoFunctionPosterior(self, X, namespace(factor.T).stack(factor.H, 1), factor.alpha, factor.sign)


@module
class BlockGram(Gram[BlockMarginals]):
    """Covariances (L, n, n) and prior means (L, n) of the functions at the rows."""

    K: Array = fixed()
    mean: Array = fixed()

    newton_is_cheap: ClassVar[bool] = False  # slopes of the update cost several times the update

    def _natural(self, sites: Sites) -> tuple[Array, Array, Array]:
        """Return b = nat1 − W μ, the blocks W, and the log_z of the mean function."""
        xp = namespace(self.mean, sites.prec)
        b, W = combined(sites.nat1), blocks_of_precisions(sites.prec)
        pulled = xp.einsum("nab,bn->an", W, self.mean)
        return b - pulled, W, xp.sum(self.mean * (b - 0.5 * pulled))

    def _marginals(self, out: block_sites.Conditioned, shift: Array) -> BlockMarginals:
        xp = namespace(out.mean)
        A = directions(len(self.K)) ** 2
        floor = xp.finfo(self.K.dtype).eps * (A @ xp.diagonal(self.K, axis1=1, axis2=2))
        # Rounding can make a variance negative if it is tiny compared with the prior variance.
        var = xp.maximum(variances_of_blocks(out.cov), floor)
        prior = along(self.mean)
        return BlockMarginals(prior + along(out.mean), var, xp.zeros_like(var), shift + out.log_z, prior, out.jitter)

    def condition(self, sites: Sites) -> BlockMarginals:
        b, W, shift = self._natural(sites)
        return self._marginals(block_sites.block_sites(self.K, b, W), shift)

    def condition_with_factor(self, sites: Sites, mask: Array | None) -> tuple[BlockMarginals, block_sites.Factors]:
        b, W, shift = self._natural(sites)
        out, factors = block_sites.condition_on_blocks(self.K, b, W)
        return self._marginals(out, shift), factors

    def condition_mean(self, sites: Sites) -> tuple[BlockMarginals, block_sites.Factors | None]:
        """Condition at a third of the cost of `condition`, if no block has a negative eigenvalue."""
        b, W, shift = self._natural(sites)
        return self._marginals(block_sites.mean_on_blocks(self.K, b, W), shift), None

    def signed(self) -> SignedBlockGram:
        return SignedBlockGram(self.K, self.mean)

    def rounding_error(self, sites: Sites, q: BlockMarginals, factors: block_sites.Factors | None) -> Array:
        """Estimate the relative rounding error of the identity in the factored matrix."""
        xp = namespace(self.K, sites.prec)
        prior, W = xp.diagonal(self.K, axis1=1, axis2=2).T, blocks_of_precisions(sites.prec)
        size = xp.abs(W) * xp.sqrt(prior[:, :, None] * prior[:, None, :])
        return xp.finfo(prior.dtype).eps * xp.max(size)

    def covariance(self, sites: Sites, factors: block_sites.Factors) -> BlockCovariance:
        found = BlockCovariance(factors)
        if not is_host(self.K, sites.prec):
            found.squares  # noqa: B018 — cached here; a value cached inside a traced loop does not exist outside
        return found

    def pull(self, sites: Sites, factors: block_sites.Factors, q: BlockMarginals, by_q: BlockMarginals) -> BlockGram:
        xp = namespace(self.K, by_q.mean)
        A = directions(len(self.K))
        by_cov = xp.einsum("kn,ka,kb->nab", by_q.var, A, A)
        bar = block_sites.Conditioned(combined(by_q.mean), by_cov, by_q.log_z, by_q.jitter)
        mean, cov = q.vectors()
        out = block_sites.Conditioned(mean.T - self.mean, cov, q.log_z, q.jitter)
        K_bar, b_bar = block_sites.pull_prior(factors, out, bar)
        b, W, _ = self._natural(sites)
        by_mean = combined(by_q.mean + by_q.prior_mean) + by_q.log_z * b - xp.einsum("nab,bn->an", W, b_bar)
        return BlockGram(K_bar, by_mean)


@module
class SignedBlockGram(BlockGram):
    """The Gram for methods that use the mean only, at sites with negative eigenvalues."""

    def condition_mean(self, sites: Sites) -> tuple[BlockMarginals, block_sites.Factors | None]:
        return self.condition_with_factor(sites, None)


@module
class BlockCovariance(Covariance[BlockMarginals]):
    """Products with the covariance of h = A f, (P, n) by (P, n)."""

    factors: block_sites.Factors = fixed()

    @functools.cached_property
    def matrix(self) -> Array:
        Sigma = block_sites.covariance(self.factors)
        A = directions(Sigma.shape[0])
        h = namespace(Sigma).einsum("ka,aibj,mb->kimj", A, Sigma, A, optimize=True)
        return h.reshape(h.shape[0] * h.shape[1], -1)

    @functools.cached_property
    def squares(self) -> Array:
        return self.matrix * self.matrix

    def times(self, x: Array) -> Array:
        return (self.matrix @ x.ravel()).reshape(x.shape)

    def squared_times(self, x: Array) -> Array:
        return (self.squares @ x.ravel()).reshape(x.shape)

    def times_once(self, x: Array) -> Array:
        return along(block_sites.covariance_times(self.factors, combined(x)))


@module
class TwoFunctionPosterior(LatentPosterior):
    """q of both functions: R = Σ_r sign_r H_rᵀH_r with H (rank, L, n), and α = K⁻¹ (mean − μ), (L, n)."""

    prior: TwoFunctionPrior = fixed()
    X: Array = fixed()
    H: Array = fixed()
    alpha: Array = fixed()
    sign: Array | None = fixed(default=None)

    @property
    def kernel(self) -> Kernel:
        raise ValueError("Terms of a kernel are for models with one latent function; this model has two.")

    def _parts(self, X_new: Array) -> tuple[Array, Array]:
        """Return the means (L, m), and V = H K(X, x) per function, (L, rank, m)."""
        xp = namespace(self.H, X_new)
        found = []
        for one, H, alpha in zip(self.prior.functions, xp.swapaxes(self.H, 0, 1), self.alpha, strict=True):
            # New rows first: distances are centred on the second table, and a prediction must not depend on other rows.
            cross = one.kernel.cross(X_new, self.X).T
            found.append((one.mean.at(X_new) + alpha @ cross, H @ cross))
        return xp.stack([mean for mean, _ in found]), xp.stack([V for _, V in found])

    def _signed(self, V: Array) -> Array:
        return V if self.sign is None else self.sign[:, None] * V

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        """Return means (rows, 2) and covariances (rows, 2, 2) of the functions per new row."""
        mean, V = self._parts(X_new)
        xp = namespace(V)
        prior = xp.stack([one.kernel.variances(X_new) for one in self.prior.functions])
        cov = -xp.einsum("arn,brn->nab", V, self._signed(V))
        eye = xp.eye(len(mean), dtype=V.dtype)
        own = xp.diagonal(cov, axis1=1, axis2=2) + prior.T
        # Rounding can make a variance negative if it is tiny compared with the prior variance.
        own = xp.maximum(own, xp.finfo(V.dtype).eps * prior.T)
        return mean.T, cov * (1 - eye) + eye * own[:, :, None]

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        """Return mean and covariance matrix of both functions at the new rows, the first function first."""
        mean, V = self._parts(X_new)
        xp = namespace(V)
        count = mean.shape[1]
        cov = -xp.einsum("arm,brn->ambn", V, self._signed(V))
        prior = [one.kernel.matrix(X_new) for one in self.prior.functions]
        zero = xp.zeros((count, count), V.dtype)
        whole = xp.stack([xp.stack([prior[0], zero], 1), xp.stack([zero, prior[1]], 1)], 0)
        return mean.reshape(-1), (cov + whole).reshape(2 * count, 2 * count)

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean Σ_l (Σμ_l + k_lgᵀα_l) and variance Σ_l κ_lg − |Σ_l V_lg|², V = H k (`kernel_sums`)."""
        shape = weight.shape[0], len(X)
        mean, prior, V = np.zeros(shape), np.zeros(shape), np.zeros((len(self.H), *shape))
        for number, one in enumerate(self.prior.functions):
            w = weight[:, number]
            cross = cross_sums(one.kernel, X, w, np.asarray(self.X))
            mean += mean_sums(one.mean, X, w) + cross @ np.asarray(self.alpha[number])
            prior += prior_sums(one.kernel, X, w)
            V += np.einsum("rn,sgn->rsg", np.asarray(self.H)[:, number], cross)
        sign = np.ones(len(V)) if self.sign is None else np.asarray(self.sign)
        return mean, not_negative(prior - np.einsum("r,rsg->sg", sign, V * V))
