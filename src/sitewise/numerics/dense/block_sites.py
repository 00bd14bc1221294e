"""Conditioning of several independent Gaussian vectors on sites that couple the values of a row.

Each row i has L latent values f_i, the l-th with the prior N(0, K_l) over the rows, independent of the others.  The
sites are exp(b_iᵀf_i − ½ f_iᵀW_i f_i) with symmetric L × L blocks W_i of any sign.  With the eigenvalues d_ia and
eigenvectors of each block, W = ŨSŨᵀ with S = diag(sign d), and Ũ has the columns √|d_ia| times an eigenvector:

    M = S + ŨᵀKŨ = L̃ S L̃ᵀ  (`signed_sites`),    H = L̃⁻¹Ũᵀ
    R = (K + W⁻¹)⁻¹ = HᵀSH,    Σ = (K⁻¹ + W)⁻¹ = K − K R K = W⁻¹ − W⁻¹ R W⁻¹
    α = K⁻¹ mean = Ũ M⁻¹ S c  with  b = Ũ c,    log_z = log ∫ Π_l N(f_l; 0, K_l) exp(bᵀf − ½ fᵀWf) df
                                                      = −log|L̃| + ½ bᵀ mean

One Cholesky factorisation of nL rows and the inverse of the factor give everything: the covariance C_i of f_i follows
from the diagonal blocks of M⁻¹ = L̃⁻ᵀSL̃⁻¹ where every |d|·variance is above a threshold, else from K − K R K.  Results
are NaN unless K⁻¹ + W is positive definite.  With G = I − K R:

    dlog_z = ½ αᵀ dK α − ½ tr(R dK) + meanᵀ db − ½ Σ_i tr((C_i + mean_i mean_iᵀ) dW_i)
    dmean  = G dK α + Σ (db − dW mean),    dC_i = (G dK Gᵀ)_ii − Σ_j Σ_ij dW_j Σ_ji

which are the formulas of `gaussian_sites` with blocks.  K is block diagonal, so that of R only the blocks R_ll are
needed for dlog_z.  A row with b = 0 and W = 0 has exactly no effect.

K is (L, n, n), b, means and α are (L, n), W and C are (n, L, L).  Arrays are NumPy or JAX arrays.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array, cond, is_host, namespace
from sitewise.numerics.dense import small_matrices
from sitewise.numerics.dense.cholesky import cholesky, safe_root, with_least_jitter
from sitewise.numerics.dense.gaussian_sites import NO_SLOPE
from sitewise.numerics.dense.signed_sites import signed_cholesky
from sitewise.numerics.dense.triangular import (
    lower_inverse,
    lower_solve,
    lower_transposed_solve,
    plus_diagonal,
    symmetric_product,
)
from sitewise.types import fixed, module


class Conditioned(NamedTuple):
    """Posterior means (L, n) and covariances within each row (n, L, L), and the log partition function."""

    mean: Array
    cov: Array
    log_z: Array
    jitter: Array


@module
class Factors:
    """T = L̃⁻¹ (rank, a, n), Ũ (l, a, n), the signs S (rank), α (L, n), and K."""

    T: Array = fixed()
    U: Array = fixed()
    sign: Array = fixed()
    alpha: Array = fixed()
    K: Array = fixed()

    # A traced program may use H and V inside a branch, whose results must not be cached; XLA merges equal expressions.

    @property
    def H(self) -> list[Array]:
        """H of R = HᵀSH: one matrix (rank, n) per function."""
        return self._computed_H if is_host(self.T) else self._H()

    @property
    def V(self) -> list[Array]:
        """H_l K_l, each (rank, n)."""
        return self._computed_V if is_host(self.T) else self._V()

    @functools.cached_property
    def _computed_H(self) -> list[Array]:
        return self._H()

    @functools.cached_property
    def _computed_V(self) -> list[Array]:
        return self._V()

    def _H(self) -> list[Array]:
        return [_sum(self.T[:, a] * u for a, u in enumerate(U)) for U in self.U]

    def _V(self) -> list[Array]:
        return [H @ K for H, K in zip(self.H, self.K, strict=True)]

    def signed(self, x: Array) -> Array:
        """Return S x."""
        return (self.sign * x.T).T

    def R_times(self, x: Array) -> Array:
        """Return R x, (L, n)."""
        both = self.sign * _sum(H @ one for H, one in zip(self.H, x, strict=True))
        return namespace(both).stack([both @ H for H in self.H])

    def split(self, x: Array) -> list[Array]:
        """Return the rows of x with positive and with negative signs, on NumPy arrays; positive signs come first."""
        return np.split(x, [np.count_nonzero(self.sign > 0)])

    def R_own(self) -> list[Array]:
        """Return the blocks R_ll, each (n, n)."""
        if not is_host(self.T):
            return [symmetric_product(H, self.signed(H)) for H in self.H]
        found = []
        for plus, minus in map(self.split, self.H):
            found.append(plus.T @ plus)  # NumPy computes one triangle of this product
            if len(minus):
                found[-1] -= minus.T @ minus
        return found


def _sum(matrices: Iterable[Array]) -> Array:
    """Return the sum of new matrices; NumPy matrices are added in place."""
    found: Any = None
    for one in matrices:
        if found is None:
            found = one
        else:
            found += one
    return found


# |d|·variance of a row above which its covariance follows from M⁻¹, whose error is about 1e-14.
_MIN_DETERMINED_SHARE = 1e-6


class _Rotated(NamedTuple):
    """The eigenvectors of the blocks, (l, a, n), and per eigenvalue d, (a, n), its sign and √|d|."""

    vectors: Array
    sign: Array
    root: Array

    def to(self, x: Array) -> Array:
        """Return the coordinates (a, n) of vectors x, (l, n)."""
        return namespace(x).einsum("lan,ln->an", self.vectors, x)

    def back(self, x: Array) -> Array:
        """Return the vectors (l, n) of these coordinates."""
        return namespace(x).einsum("lan,an->ln", self.vectors, x)

    def prior(self, K: Array) -> Array:
        """Return ŨᵀKŨ as a matrix of nL rows, in the order of the coordinates (a, n)."""
        xp, U, places = namespace(K), self.vectors * self.root, range(len(self.root))
        below = {
            (a, c): _sum(_between(u[a], own, u[c]) for own, u in zip(K, U, strict=True))
            for a in places
            for c in places[: a + 1]
        }
        return xp.block([[below[a, c] if c <= a else below[c, a].T for c in places] for a in places])


def _between(left: Array, A: Array, right: Array) -> Array:
    """Return diag(left) A diag(right) as a new matrix."""
    out = A * right
    if is_host(out):
        out *= left[:, None]
        return out
    return left[:, None] * out


def _permuted(A: Array, order: Array, axes: tuple[int, ...]) -> Array:
    """Return A with these axes in this order."""
    if is_host(order) and np.all(order[1:] > order[:-1]):
        return A  # without negative signs, as usual
    for axis in axes:
        A = namespace(A, order).take(A, order, axis)
    return A


def _rotated(W: Array, *, clipped: bool = False) -> _Rotated:
    """Return the eigenvectors and eigenvalues; with `clipped`, negative eigenvalues count as 0."""
    xp = namespace(W)
    d, U = xp.linalg.eigh(W)
    d = (xp.maximum(d, 0.0) if clipped else d).T
    return _Rotated(xp.transpose(U, (1, 2, 0)), xp.where(d < 0, -1.0, 1.0).astype(W.dtype), safe_root(xp.abs(d)))


def _right_side(rotated: _Rotated, K: Array, b: Array) -> tuple[Array, Array]:
    """Return S c − ŨᵀK rest, (a, n), and `rest`: b = Ũ c + rest, and `rest` lies along eigenvectors of d = 0."""
    xp = namespace(K, b)
    own, seen = rotated.to(b), rotated.root > 0
    c = xp.where(seen, own / xp.where(seen, rotated.root, 1.0), 0.0)
    rest = rotated.back(xp.where(seen, 0.0, own))
    return rotated.sign * c - rotated.root * rotated.to(_prior_times(K, rest)), rest


def _prior_times(K: Array, x: Array) -> Array:
    """Return K x, (L, n)."""
    return namespace(K, x).matmul(K, x[..., None])[..., 0]


def condition_on_blocks(K: Array, b: Array, W: Array) -> tuple[Conditioned, Factors]:
    """Condition on the sites; return the factors for derivatives and covariances as well."""
    xp = namespace(K, b, W)
    K, b, W = xp.asarray(K), xp.asarray(b), xp.asarray(W)  # some may be NumPy arrays while others are traced
    rows, size = W.shape[:2]
    rotated = _rotated(W)
    flat = rotated.sign.reshape(-1)
    order = xp.argsort(flat < 0, stable=True)
    sign = flat[order]
    L, jitter = signed_cholesky(plus_diagonal(_permuted(rotated.prior(K), order, (0, 1)), sign), sign > 0)
    right, rest = _right_side(rotated, K, b)
    back = xp.argsort(order)
    solved = lower_transposed_solve(L, sign * lower_solve(L, right.reshape(-1)[order]))[back].reshape(size, rows)
    alpha = rotated.back(rotated.root * solved) + rest
    mean = _prior_times(K, alpha)
    log_z = -xp.sum(xp.log(xp.diagonal(L))) + 0.5 * xp.sum(b * mean)
    T = _permuted(lower_inverse(L), back, (1,)).reshape(-1, size, rows)
    factors = Factors(T, rotated.vectors * rotated.root, sign, alpha, K)
    return Conditioned(mean, _covariances_of_rows(factors, rotated), log_z, jitter), factors


def _covariances_of_rows(factors: Factors, rotated: _Rotated) -> Array:
    """Return C_i, (n, L, L), from M⁻¹ = TᵀST where it is accurate, else from the prior."""
    K, T, sign = factors.K, factors.T, factors.sign
    xp = namespace(K, T)
    size, every = K.shape[0], xp.arange(K.shape[1])

    def from_prior(chosen: Array) -> Array:
        V = xp.stack([H @ xp.take(own, chosen, 1) for H, own in zip(factors.H, K, strict=True)])
        own = xp.diagonal(K, axis1=1, axis2=2)[:, chosen]
        return xp.eye(size, dtype=K.dtype) * own.T[:, :, None] - xp.einsum("lrn,r,mrn->nlm", V, sign, V)

    if not is_host(T):
        return from_prior(every)
    plus, minus = factors.split(T)
    inverse = np.empty((size, size, T.shape[-1]))
    for a, c in itertools.combinations_with_replacement(range(size), 2):
        inverse[a, c] = np.einsum("rn,rn->n", plus[:, a], plus[:, c]) - np.einsum("rn,rn->n", minus[:, a], minus[:, c])
        inverse[c, a] = inverse[a, c]
    # s_a δ_ac − s_a s_c (M⁻¹)_ac is the covariance in units of 1/√|d|.
    scaled = np.eye(size)[:, :, None] * rotated.sign - rotated.sign[:, None] * rotated.sign[None] * inverse
    share = np.einsum("aan->an", scaled) * rotated.sign  # |d|·variance
    root = np.where(rotated.root > 0, rotated.root, 1.0)
    cov = np.einsum("lan,acn,mcn->nlm", rotated.vectors / root, scaled, rotated.vectors / root)
    few = np.flatnonzero(~np.all((np.abs(share) > _MIN_DETERMINED_SHARE) & (rotated.root > 0), axis=0))
    if len(few):
        cov[few] = from_prior(few)
    return cov


def mean_on_blocks(K: Array, b: Array, W: Array) -> Conditioned:
    """Return mean and log_z for positive semi-definite blocks at a third of the cost; `cov` holds the prior's."""
    xp = namespace(K, b, W)
    rotated = _rotated(W, clipped=True)
    right, rest = _right_side(rotated, K, b)
    B = plus_diagonal(rotated.prior(K), 1.0)

    def attempt(jitter: Array) -> tuple[Array, Array]:
        L = cholesky(plus_diagonal(xp.array(B), jitter * xp.diagonal(B)))
        return xp.sum(xp.log(xp.diagonal(L))), lower_transposed_solve(L, lower_solve(L, right.reshape(-1)))

    (half_log_det, solved), jitter = with_least_jitter(attempt, B)
    mean = _prior_times(K, rotated.back(rotated.root * solved.reshape(right.shape)) + rest)
    prior = xp.diagonal(K, axis1=1, axis2=2).T
    cov = xp.eye(len(K), dtype=K.dtype) * prior[:, :, None]
    return Conditioned(mean, cov, 0.5 * xp.sum(b * mean) - half_log_det, jitter)


def covariance(factors: Factors) -> Array:
    """Return Cov(f_li, f_mj), (L, n, L, n)."""
    V, K = factors.V, factors.K
    xp = namespace(K)
    size = len(V)
    signed = [factors.signed(one) for one in V]
    blocks = {(k, m): -(V[k].T @ signed[m]) for k in range(size) for m in range(k, size)}
    for k in range(size):
        blocks[k, k] = blocks[k, k] + K[k]
    rows = [[blocks[k, m] if k <= m else blocks[m, k].T for m in range(size)] for k in range(size)]
    return xp.moveaxis(xp.stack([xp.stack(row) for row in rows]), 1, 2)


def covariance_times(factors: Factors, x: Array) -> Array:
    """Return Σ x, (L, n), without forming Σ."""
    return _prior_times(factors.K, x - factors.R_times(_prior_times(factors.K, x)))


def pull_prior(factors: Factors, out: Conditioned, bar: Conditioned) -> tuple[Array, Array]:
    """Return the cotangents of K and b, given the cotangent `bar` of the result; its `cov` is symmetric."""
    K, alpha = factors.K, factors.alpha
    xp = namespace(K, bar.mean)
    pulled = bar.mean - factors.R_times(_prior_times(K, bar.mean))
    outer = 0.5 * (pulled + 0.5 * bar.log_z * alpha)[:, :, None] * alpha[:, None, :]
    K_bar = outer + xp.swapaxes(outer, 1, 2) - 0.5 * bar.log_z * xp.stack(factors.R_own())

    def with_covariances(K_bar: Array) -> Array:
        size, found = len(K), []
        for k, H in enumerate(factors.H):
            Gt = [plus_diagonal(-(H.T @ factors.signed(V)), float(m == k)) for m, V in enumerate(factors.V)]
            DG = [_sum(Gt[c] * bar.cov[:, c, m] for c in range(size)) for m in range(size)]
            # The sum is symmetric, although its terms are not; of each, the lower triangle is mirrored.
            found.append(_sum(symmetric_product(Gt[m].T, DG[m].T) for m in range(size)))
        return K_bar + xp.stack(found)

    sd = xp.sqrt(xp.diagonal(out.cov, axis1=1, axis2=2))
    largest = xp.max(xp.abs(bar.cov) * sd[:, :, None] * sd[:, None, :])
    K_bar = cond(largest > NO_SLOPE * xp.abs(bar.log_z), with_covariances, lambda K_bar: K_bar, K_bar)
    return K_bar, _prior_times(K, pulled) + bar.log_z * out.mean


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
