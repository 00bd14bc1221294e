"""The full GP prior: one latent value per row, covariance κ(X, X)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ClassVar

import jax
import numpy as np

from sitewise import means
from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.kernels import Kernel
from sitewise.numerics.dense import gaussian_sites
from sitewise.numerics.dense.triangular import lower_inverse, lower_times, lower_transposed_solve, plus_diagonal
from sitewise.priors.base import Covariance, Factor, Gram, Marginals, Prior, one_latent
from sitewise.priors.kernel_sums import cross_sums, mean_sums, not_negative, prior_sums
from sitewise.priors.posterior import Expansion, LatentPosterior
from sitewise.process.device import on_accelerator
from sitewise.sites import Sites
from sitewise.types import fixed, module, replace, static

LARGE_EVIDENCE = 1e6  # nats: errors of a larger evidence are relative, of a smaller one absolute


@module
class FullPrior(Prior):
    kernel: Kernel = fixed()
    mean: means.Mean = fixed(default=means.Zero())
    jitter: float = static(default=0.0)

    structure: ClassVar[str] = "full"
    dense: ClassVar[bool] = True
    one_matrix: ClassVar[bool] = True
    informs: ClassVar[bool] = True
    host: ClassVar[bool] = True

    def check(self, columns: int, latents: int) -> None:
        super().check(columns, latents)
        one_latent(self, latents)

    def gram(self, X: Array) -> FullGram:
        K = self.kernel.matrix(X)
        return FullGram(plus_diagonal(K.copy(), self.jitter) if self.jitter else K, self.mean.at(X))

    def gram_with_pull(self, X: Array) -> tuple[FullGram, Callable[[FullGram], FullPrior]]:
        if not is_host(X, *jax.tree.leaves(self)):
            return super().gram_with_pull(X)
        K, pull = self.kernel.matrix_with_pull(X)
        gram = FullGram(plus_diagonal(K.copy(), self.jitter) if self.jitter else K, self.mean.at(X))
        return gram, lambda bar: replace(self, kernel=pull(bar.K), mean=self.mean.pull(X, bar.mean))

    def posterior(self, X: Array, sites: Sites) -> FullPosterior:
        gram = self.gram(X)
        found = gaussian_sites.site_weights(gram.K, sites.nat1 - sites.prec * gram.mean, sites.prec)
        return FullPosterior(self, X, found.H, found.alpha, found.sign)

    def posterior_from(self, gram: Gram, factor: Factor, X: Array, sites: Sites) -> FullPosterior:
        return FullPosterior(self, X, factor.H, factor.alpha, factor.sign)

    def given_values(self, X: Array, root: Array, white: Array, counted: Array) -> FullPosterior:
        # The formulas for known values: A instead of L, and `counted` instead of W½.
        alpha = counted * lower_transposed_solve(root, white)
        return FullPosterior(self, X, lower_inverse(root) * counted, alpha)


@module
class FullGram(Gram[Marginals]):
    K: Array = fixed()
    mean: Array = fixed()

    newton_is_cheap: ClassVar[bool] = True
    any_sign: ClassVar[bool] = False  # whether a traced program allows negative precisions

    def signed(self) -> SignedGram:
        return SignedGram(self.K, self.mean)

    def _centred(self, sites: Sites) -> Array:
        """Return b = nat1 − prec·μ: the site of f is a site of g = f − μ with this b."""
        return sites.nat1 - sites.prec * self.mean

    def _marginals(self, sites: Sites, out: gaussian_sites.Conditioned) -> Marginals:
        mu = self.mean
        shift = mu @ (sites.nat1 - 0.5 * sites.prec * mu)
        return Marginals(mu + out.mean, out.var, 0.0 * out.var, shift + out.log_z, mu, out.jitter)

    def condition(self, sites: Sites) -> Marginals:
        b = self._centred(sites)
        return self._marginals(sites, gaussian_sites.gaussian_sites(self.K, b, sites.prec, self.any_sign))

    def condition_mean(self, sites: Sites) -> tuple[Marginals, gaussian_sites.Factors]:
        """Condition at no more than a third of the cost of `condition`, unless a precision is negative."""
        out, alpha = gaussian_sites.mean_on_sites(self.K, self._centred(sites), sites.prec, self.any_sign)
        return self._marginals(sites, out), gaussian_sites.Factors(None, None, alpha, None)

    def condition_with_factor(self, sites: Sites, mask: Array | None) -> tuple[Marginals, gaussian_sites.Factors]:
        # An accelerator runs several models at once by vmap, under which `cond` computes both branches: there formulas
        # for all rows are cheaper.
        mask = None if on_accelerator() else mask
        b = self._centred(sites)
        out, factors = gaussian_sites.condition_on_sites(self.K, b, sites.prec, mask, self.any_sign)
        return self._marginals(sites, out), factors

    def rounding_error(self, sites: Sites, q: Marginals, factors: gaussian_sites.Factors) -> Array:
        """Estimate the larger of two rounding errors: of the identity in B, relative, and of log_z, in nats.

        With negative precisions the first includes C = I − W₋½ Σ₊ W₋½ (`signed_sites`), relative to
        diag C⁻¹ = 1 + w₋·var.
        The second is relative to an evidence of millions of nats.  The evidence is estimated by log_z of sites with a
        maximum of one, −(½ log|B| + ½ αᵀ mean + ½ Σ α²/w), with the prior precision for sites without a positive one.
        """
        xp = namespace(self.K, sites.prec)
        w, b, mean, alpha = sites.prec, self._centred(sites), q.mean - self.mean, factors.alpha
        prior = xp.diagonal(self.K)
        share = xp.finfo(w.dtype).eps * xp.max(xp.abs(w) * prior * (1 + xp.maximum(-w, 0.0) * q.var))
        left = alpha + w * mean - b  # (K⁻¹ + W) mean − b, zero in exact arithmetic
        shift = self.mean @ (sites.nat1 - 0.5 * w * self.mean)
        half_log_det = 0.5 * b @ mean - (q.log_z - shift)
        misfit = xp.sum(alpha**2 / (xp.maximum(w, 0.0) + 1 / prior))
        size = xp.abs(half_log_det + 0.5 * alpha @ mean + 0.5 * misfit)
        nats = 0.5 * xp.abs(mean @ left) / (1 + xp.where(xp.isfinite(size), size, 0.0) / LARGE_EVIDENCE)
        return xp.maximum(share, nats)

    def covariance(self, sites: Sites, factors: gaussian_sites.Factors) -> FullCovariance:
        found = FullCovariance(self.K, sites.prec, factors)
        if not is_host(self.K, sites.prec):
            found.squares  # noqa: B018 — cached here; a value cached inside a traced loop does not exist outside
        return found

    def pull(self, sites: Sites, factors: gaussian_sites.Factors, q: Marginals, by_q: Marginals) -> FullGram:
        mu, b = self.mean, self._centred(sites)
        out = gaussian_sites.Conditioned(q.mean - mu, q.var, q.log_z, q.jitter)
        K_bar, b_bar = gaussian_sites.pull_prior(
            self.K, sites.prec, out, factors, gaussian_sites.Conditioned(by_q.mean, by_q.var, by_q.log_z, by_q.jitter)
        )
        return FullGram(K_bar, by_q.mean + by_q.prior_mean + by_q.log_z * b - sites.prec * b_bar)


@module
class SignedGram(FullGram):
    """Gram of the full prior, in programs for precisions of any sign."""

    any_sign: ClassVar[bool] = True


@module
class FullCovariance(Covariance[Marginals]):
    """Products with the posterior covariance Σ of the rows, for derivatives of q."""

    K: Array = fixed()
    prec: Array = fixed()
    factors: gaussian_sites.Factors = fixed()

    @functools.cached_property
    def matrix(self) -> Array:
        return gaussian_sites.covariance(self.K, self.prec, self.factors)

    @functools.cached_property
    def squares(self) -> Array:
        if self._through_R:
            R = self.factors.R()
            return R * R
        return self.matrix * self.matrix

    @functools.cached_property
    def _through_R(self) -> bool:
        """Whether products use Σ = W⁻¹ − W⁻¹RW⁻¹ on the host, where passes over a matrix for Σ itself take time."""
        determined = self.factors.determined
        return determined is not None and is_host(determined) and bool(determined)

    @functools.cached_property
    def _inverse(self) -> Array:
        return gaussian_sites.inverse_precisions(self.prec)

    def times(self, x: Array) -> Array:
        if not self._through_R:
            return self.matrix @ x
        scaled = self._inverse * x
        return scaled - self._inverse * (self.factors.R() @ scaled)

    def squared_times(self, x: Array) -> Array:
        if not self._through_R:
            return self.squares @ x
        # Σ_ij² = R_ij²/(w_i w_j)², except for Σ_ii = (1 − R_ii/w_i)/w_i.
        squared, share = self._inverse**2, self._inverse * np.diagonal(self.factors.R())
        return squared * (self.squares @ (squared * x) + (1 - 2 * share) * x)

    def times_once(self, x: Array) -> Array:
        return self.K @ (x - self.factors.R_times(self.K @ x))


@module
class FullPosterior(LatentPosterior):
    """q with H = L⁻¹ W½, B = I + W½KW½ = LLᵀ, α = K⁻¹ mean; rows of H have a `sign` if precisions may be negative."""

    prior: FullPrior = fixed()
    X: Array = fixed()
    H: Array = fixed()
    alpha: Array = fixed()
    sign: Array | None = fixed(default=None)

    def _whitened(self, cross: Array) -> Array:
        """Return H times covariances with the training rows; `cross` has one column per new row."""
        return lower_times(self.H, cross) if self.sign is None else self.H @ cross  # signed rows are permuted

    @property
    def kernel(self) -> Kernel:
        return self.prior.kernel

    def through(self, kernel: Kernel, mean: means.Mean) -> FullPosterior:
        return replace(self, prior=replace(self.prior, kernel=kernel, mean=mean))

    def explained(self, X_new: Array) -> tuple[Array, Array, Array]:
        """Return the mean at the new rows, V and SV: the covariance is the prior covariance minus VᵀSV."""
        # New rows first: distances are centred on the second table, and a prediction must not depend on other new rows.
        cross = self.prior.kernel.cross(X_new, self.X).T
        V = self._whitened(cross)
        mean = self.prior.mean.at(X_new) + cross.T @ self.alpha
        return mean, V, V if self.sign is None else self.sign[:, None] * V

    def marginals(self, X_new: Array) -> tuple[Array, Array]:
        """Return mean and variance per row, R&W eqs. 3.21 and 3.24."""
        mean, V, SV = self.explained(X_new)
        xp = namespace(V)
        prior_var = self.prior.kernel.variances(X_new)
        floor = xp.finfo(V.dtype).eps * prior_var
        return mean, xp.maximum(prior_var - xp.sum(V * SV, axis=0), floor)

    def joint(self, X_new: Array) -> tuple[Array, Array]:
        mean, V, SV = self.explained(X_new)
        return mean, self.prior.kernel.matrix(X_new) - V.T @ SV

    def sums(self, X: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean Σμ + k_gᵀα and variance κ_g − V_gᵀSV_g, V_g = L⁻¹ W½ k_g (`kernel_sums`)."""
        weight, kernel = weight[:, 0], self.prior.kernel
        cross = cross_sums(kernel, X, weight, np.asarray(self.X))
        V = np.asarray(self._whitened(cross.reshape(-1, cross.shape[2]).T))
        squares = np.sum(V * V if self.sign is None else self.sign[:, None] * V * V, axis=0).reshape(cross.shape[:2])
        var = not_negative(prior_sums(kernel, X, weight) - squares)
        return mean_sums(self.prior.mean, X, weight) + cross @ self.alpha, var

    def expansion(self) -> Expansion:
        sign = np.ones(len(self.H)) if self.sign is None else np.asarray(self.sign)
        H, none = np.asarray(self.H), np.zeros((1, 0, len(self.X)))
        return Expansion((self.kernel,), self.prior.mean, np.asarray(self.X), self.alpha[None], H[None], sign, none)

    def uncorrelated(self) -> bool:
        """Return whether B is diagonal: H then has one entry per row."""
        H = np.abs(np.asarray(self.H))
        return bool(np.max(np.sum(H, axis=1) - np.max(H, axis=1)) < 1e-6 * np.max(H))
