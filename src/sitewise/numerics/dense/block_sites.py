"""Conditioning of several independent Gaussian vectors on sites that couple the values of a row.

Each row i has L latent values f_i, the l-th with the prior N(0, K_l) over the rows, independent of the others.  The
sites are exp(b_iᵀf_i − ½ f_iᵀW_i f_i) with symmetric L × L blocks W_i of any sign.  With the eigenvalues and vectors
of each block, W_i = U_i diag(d_i) U_iᵀ, the values f'_i = U_iᵀf_i have the covariance K' = UᵀKU and scalar sites
(Uᵀb, d):

    mean = U mean',    Cov(f_i, f_j) = U_i Σ'_ij U_jᵀ,    log_z = log ∫ Π_l N(f_l; 0, K_l) exp(bᵀf − ½ fᵀWf) df = log_z'

so that `gaussian_sites` does the rest with one Cholesky factorisation of nL rows.  Results are NaN unless K⁻¹ + W is
positive definite.  With R = (K + W⁻¹)⁻¹, G = I − K R, α = K⁻¹ mean, and the covariances C_i of f_i:

    dlog_z = ½ αᵀ dK α − ½ tr(R dK) + meanᵀ db − ½ Σ_i tr((C_i + mean_i mean_iᵀ) dW_i)
    dmean  = G dK α + Σ (db − dW mean),    dC_i = (G dK Gᵀ)_ii − Σ_j Σ_ij dW_j Σ_ji

which are the formulas of `gaussian_sites` with blocks.  A row with b = 0 and W = 0 has exactly no effect.

K is (L, n, n), b and means are (L, n), W and C are (n, L, L).  Arrays are NumPy or JAX arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sitewise.arrays.engine import Array, cond, is_host, namespace
from sitewise.numerics.dense import gaussian_sites, small_matrices
from sitewise.numerics.dense.triangular import plus_diagonal, symmetric_product


class Conditioned(NamedTuple):
    """Posterior means (L, n) and covariances within each row (n, L, L), and the log partition function."""

    mean: Array
    cov: Array
    log_z: Array
    jitter: Array


class Factors(NamedTuple):
    """The factors of the rotated problem, the rotations U (n, L, L), the eigenvalues d (n, L), and K'."""

    own: gaussian_sites.Factors
    U: Array
    d: Array
    K: Array

    @property
    def alpha(self) -> Array:
        """K⁻¹ mean, (L, n)."""
        return _back(self.U, self.own.alpha)

    @property
    def H(self) -> Array:
        """H of R = HᵀSH in the coordinates of f, (rank, L, n)."""
        rows, size = self.d.shape
        H = self.own.H.reshape(-1, rows, size)
        return namespace(H).einsum("nla,rna->rln", self.U, H)


def _rotated(U: Array, x: Array) -> Array:
    """Return Uᵀx as one vector, the values of a row next to each other; x is (L, n)."""
    return namespace(U, x).einsum("nla,ln->na", U, x).reshape(-1)


def _back(U: Array, x: Array) -> Array:
    """Return U x, (L, n)."""
    return namespace(U, x).einsum("nla,na->ln", U, x.reshape(U.shape[:2]))


def _rotated_prior(K: Array, U: Array) -> Array:
    """Return K' = UᵀKU."""
    rows, size = U.shape[:2]
    xp = namespace(K, U)
    out = xp.zeros((rows, size, rows, size), K.dtype)
    for own, V in zip(K, xp.swapaxes(U, 0, 1), strict=True):
        out = out + V[:, :, None, None] * own[:, None, :, None] * V[None, None]
    return out.reshape(rows * size, rows * size)


def _prior_blocks(K_bar: Array, U: Array) -> Array:
    """Return the diagonal blocks of U K̄' Uᵀ: the cotangents of K_l, (L, n, n)."""
    rows, size = U.shape[:2]
    by_row = K_bar.reshape(rows, size, rows, size)
    return namespace(K_bar, U).einsum("ila,iajc,jlc->lij", U, by_row, U, optimize=True)


def _own_blocks(matrix: Array, rows: int, size: int) -> Array:
    """Return the blocks of each row on the diagonal of a matrix."""
    every = namespace(matrix).arange(rows)
    return matrix.reshape(rows, size, rows, size)[every, :, every]


def condition_on_blocks(K: Array, b: Array, W: Array) -> tuple[Conditioned, Factors]:
    """Condition on the sites; return the factors for derivatives and covariances as well."""
    xp = namespace(K, b, W)
    rows, size = W.shape[:2]
    d, U = xp.linalg.eigh(W)
    prior = _rotated_prior(K, U)
    out, own = gaussian_sites.condition_on_sites(prior, _rotated(U, b), d.reshape(-1), None, True)
    V = own.V.reshape(-1, rows, size)
    lowered = xp.einsum("rna,rnc->nac", V, own.signed(own.V).reshape(V.shape))
    cov = _own_blocks(prior, rows, size) - lowered
    eye = xp.eye(size, dtype=K.dtype)
    cov = cov * (1 - eye) + eye * out.var.reshape(rows, size)[:, :, None]
    cov = xp.einsum("nla,nac,nmc->nlm", U, cov, U)
    return Conditioned(_back(U, out.mean), cov, out.log_z, out.jitter), Factors(own, U, d, prior)


def mean_on_blocks(K: Array, b: Array, W: Array) -> Conditioned:
    """Return mean and log_z for positive semi-definite blocks at a third of the cost; `cov` holds the prior's."""
    xp = namespace(K, b, W)
    d, U = xp.linalg.eigh(W)
    out, _ = gaussian_sites.mean_on_sites(_rotated_prior(K, U), _rotated(U, b), xp.maximum(d, 0.0).reshape(-1))
    prior = xp.diagonal(K, axis1=1, axis2=2).T
    cov = xp.eye(len(K), dtype=K.dtype) * prior[:, :, None]
    return Conditioned(_back(U, out.mean), cov, out.log_z, out.jitter)


def covariance(factors: Factors) -> Array:
    """Return Cov(f_li, f_mj), (L, n, L, n)."""
    rows, size = factors.d.shape
    own = gaussian_sites.covariance(factors.K, factors.d.reshape(-1), factors.own).reshape(rows, size, rows, size)
    return namespace(own).einsum("ila,iajc,jmc->limj", factors.U, own, factors.U, optimize=True)


def covariance_times(K: Array, factors: Factors, x: Array) -> Array:
    """Return Σ x, (L, n), without forming Σ."""
    own = _rotated(factors.U, x)
    return _back(factors.U, factors.K @ (own - factors.own.R_times(factors.K @ own)))


def pull_prior(factors: Factors, out: Conditioned, bar: Conditioned) -> tuple[Array, Array]:
    """Return the cotangents of K and b, given the cotangent `bar` of the result; its `cov` is symmetric."""
    own, U, prior = factors.own, factors.U, factors.K
    xp = namespace(prior, bar.mean)
    alpha, mean_bar = own.alpha, _rotated(U, bar.mean)
    pulled = mean_bar - own.R_times(prior @ mean_bar)
    outer = 0.5 * xp.outer(pulled + 0.5 * bar.log_z * alpha, alpha)
    K_bar = outer + outer.T - 0.5 * bar.log_z * own.R()

    def with_covariances(K_bar: Array) -> Array:
        G = plus_diagonal(-(own.H.T @ own.signed(own.V)), 1.0).T
        rows, size = factors.d.shape
        D = xp.einsum("nla,nlm,nmc->nac", U, bar.cov, U)
        DG = xp.einsum("nac,ncr->nar", D, G.reshape(rows, size, -1)).reshape(G.shape)
        return K_bar + symmetric_product(G, DG)

    sd = xp.sqrt(xp.diagonal(out.cov, axis1=1, axis2=2))
    largest = xp.max(xp.abs(bar.cov) * sd[:, :, None] * sd[:, None, :])
    matter = largest > gaussian_sites.NO_SLOPE * xp.abs(bar.log_z)
    K_bar = cond(matter, with_covariances, lambda K_bar: K_bar, K_bar)
    return _prior_blocks(K_bar, U), _back(U, prior @ pulled) + bar.log_z * out.mean


def block_sites(K: Array, b: Array, W: Array) -> Conditioned:
    """Return the posterior of N(0, K_l), l = 1 … L, times the sites; differentiable in reverse mode."""
    if is_host(K, b, W):
        return condition_on_blocks(K, b, W)[0]
    return _differentiable(K, b, W)


@jax.custom_vjp
def _differentiable(K: Array, b: Array, W: Array) -> Conditioned:
    return condition_on_blocks(K, b, W)[0]


def _forward(K: Array, b: Array, W: Array) -> tuple[Conditioned, tuple[Conditioned, Factors]]:
    out, factors = condition_on_blocks(K, b, W)
    return out, (out, factors)


def _backward(kept: tuple[Conditioned, Factors], bar: Conditioned) -> tuple[Array, Array, Array]:
    out, factors = kept
    D = 0.5 * (bar.cov + small_matrices.transpose(bar.cov))
    K_bar, b_bar = pull_prior(factors, out, bar._replace(cov=D))
    Sigma = covariance(factors)
    moved = jnp.einsum("limj,mj->li", Sigma, bar.mean)
    by_mean = jnp.einsum("ln,mn->nlm", moved, out.mean)
    by_cov = jnp.einsum("limj,ilp,piqj->jmq", Sigma, D, Sigma, optimize=True)
    second = out.cov + jnp.einsum("ln,mn->nlm", out.mean, out.mean)
    return K_bar, b_bar, -0.5 * (by_mean + small_matrices.transpose(by_mean)) - by_cov - 0.5 * bar.log_z * second


_differentiable.defvjp(_forward, _backward)


class LeftOut(NamedTuple):
    """The cavity of each row, N(mean, cov) without the row's site, and log ∫ cavity × site."""

    mean: Array
    cov: Array
    log_z: Array


def without_block(mean: Array, cov: Array, b: Array, W: Array) -> LeftOut:
    """Divide the site (b, W) of each row out of its marginal N(mean, cov); rows first.  NaN if that is no Gaussian.

    With cov = L Lᵀ, the precision of the cavity is L⁻ᵀ(I − LᵀWL)L⁻¹, and with the cavity's mean m₋

        log ∫ cavity × site = ½ log|I − LᵀWL| + ½ [bᵀ(mean + m₋) − meanᵀW m₋].
    """
    L = small_matrices.small_cholesky(cov)
    Lt = small_matrices.transpose(L)
    times, apply = small_matrices.times, small_matrices.apply
    R = small_matrices.small_cholesky(jnp.eye(cov.shape[-1], dtype=cov.dtype) - times(times(Lt, W), L))
    root = small_matrices.transpose(small_matrices.small_lower_solve(R, Lt))
    without = times(root, small_matrices.transpose(root))
    # m₋ = C₋ (C⁻¹ mean − b), and C₋ C⁻¹ mean = mean + C₋ W mean
    left = mean + apply(without, apply(W, mean) - b)
    log_det = jnp.sum(jnp.log(jnp.diagonal(R, axis1=-2, axis2=-1)), axis=-1)
    dot = small_matrices.dot
    return LeftOut(left, without, log_det + 0.5 * (dot(b, mean + left) - dot(mean, apply(W, left))))


def positive_blocks(W: Array) -> Array:
    """Return the nearest positive semi-definite blocks: negative eigenvalues are set to 0."""
    d, U = jnp.linalg.eigh(W)
    return jnp.einsum("nla,na,nma->nlm", U, jnp.maximum(d, 0.0), U)
