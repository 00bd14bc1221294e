"""Conditioning of sparse softmax models: several latent functions per row with shared whitened features.

Class c has s_c = Φ v_c with v_c ~ N(0, I_m), and the site of row i (`softmax_sites`) has the precision matrix
W_i = diag(w) − wwᵀ/Σw and the vector b̃ = b − p Σb, p = w/Σw.  With v = (v_1, …, v_C):

    A = I + Σ_i W_i ⊗ φ_i φ_iᵀ,   S = A⁻¹,   c = S u,   u_c = Φᵀ b̃_c
    E[s_c] = Φ c_c,   Cov(s_c, s_d) of row i = φ_iᵀ S_cd φ_i,   log_z = −½ log|A| + ½ uᵀ c + Σ_i (Σb)²/(2Σw)

and g = s − (best shift per row) = (I − 1pᵀ) s + Σb/Σw.  Because the classes share Φ, each of the C(C+1)/2 blocks of A
is a weighted Gram matrix of Φ and symmetric, and so is the part of S_cd that enters a quadratic form.  Each of the two
takes n(Cm)²/4 multiplications and memory (Cm)².  The pullback, with cotangents m̄ and D of the mean and covariance of s:

    p_c = Φᵀ m̄_c,   P = Σ_i D_i ⊗ φ_i φ_iᵀ,   r = S p,   ū = r + z̄ c,   Ā = −½(rcᵀ + crᵀ) − SPS − ½ z̄ (S + ccᵀ)
    Φ̄ = Σ_c (m̄_c c_cᵀ + b̃_c ū_cᵀ) + 2 Σ_cd [diag(W_cd) Φ Ā_cd + diag(D_cd) Φ S_cd] − 2 diag(r̄esid) Φ

and K̄_xu = Φ̄ Tᵀ, K̄_uu = −½ T (ΦᵀΦ̄) Tᵀ as in `priors.sparse.conditioning`.  A row with b = w = 0 drops out.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays.engine import Array, cond, is_host, namespace
from sitewise.numerics.dense import cholesky, softmax_sites
from sitewise.numerics.dense.tall_products import row_forms, times_transposed_upper, weighted_gram
from sitewise.numerics.dense.triangular import lower_gram
from sitewise.priors.sparse.conditioning import NEGLIGIBLE_SLOPE
from sitewise.priors.sparse.features import Features
from sitewise.sites import Sites

# -- blocks: a symmetric matrix as blocks, one per pair of classes c ≤ d, on the first axis ---------------


def _pairs(classes: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(classes)


def _copies(classes: int) -> np.ndarray:
    """Return how often each pair occurs in the whole matrix."""
    first, second = _pairs(classes)
    return np.where(first == second, 1.0, 2.0)


def _pair_numbers(classes: int) -> np.ndarray:
    """Return the matrix of pair numbers, shape (classes, classes)."""
    first, second = _pairs(classes)
    numbers = np.zeros((classes, classes), int)
    numbers[first, second] = numbers[second, first] = np.arange(len(first))
    return numbers


def whole(blocks: Array, classes: int) -> Array:
    """Assemble the matrix from symmetric blocks."""
    size = classes * blocks.shape[-1]
    return namespace(blocks).swapaxes(blocks[_pair_numbers(classes)], 1, 2).reshape(size, size)


def blocks_of(matrix: Array, classes: int) -> Array:
    """Return the symmetric parts of the blocks of a symmetric matrix."""
    first, second = _pairs(classes)
    m = len(matrix) // classes
    xp = namespace(matrix)
    found = xp.swapaxes(matrix.reshape(classes, m, classes, m), 1, 2)[first, second]
    return 0.5 * (found + xp.swapaxes(found, 1, 2))


def grams(phi: Array, weights: Array) -> Array:
    """Return Φᵀ diag(weights_p) Φ per pair; weights are (rows, pairs)."""
    if is_host(phi, weights):
        return np.stack([weighted_gram(phi, weights[:, p]) for p in range(weights.shape[1])])
    return lax.map(lambda w: weighted_gram(phi, w), weights.T)


def forms(phi: Array, blocks: Array) -> Array:
    """Return φ_iᵀ block_p φ_i per row and pair."""
    if is_host(phi, blocks):
        return np.stack([row_forms(phi, block) for block in blocks], axis=1)
    return lax.map(lambda block: row_forms(phi, block), blocks).T


def _weighted_products(phi: Array, weights: Array, blocks: Array) -> Array:
    """Return Σ_p diag(weights_p) Φ block_p."""
    if is_host(phi, weights, blocks):
        found = np.zeros_like(phi)
        for p, block in enumerate(blocks):
            found += weights[:, p, None] * (phi @ block)
        return found

    def add(total: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
        return total + pair[0][:, None] * (phi @ pair[1]), None

    return lax.scan(add, jnp.zeros_like(phi), (weights.T, blocks))[0]


def as_matrices(values: Array, classes: int) -> Array:
    """Convert (rows, pairs) to (rows, classes, classes)."""
    return values[:, _pair_numbers(classes)]


# -- the best shift per row ----------------------------------------------------------------------------------


class Shift(NamedTuple):
    """g = (I − 1pᵀ) s + offset, and the site per row as a Gaussian factor of s."""

    p: Array  # (classes, rows)
    noise: Array  # 1/Σw, or 0
    offset: Array
    linear: Array  # b̃, (classes, rows)
    prec: Array  # W_i of the pairs, (rows, pairs)
    constant: Array

    @classmethod
    def of(cls, b: Array, w: Array) -> Shift:
        xp = namespace(b, w)
        _, noise = softmax_sites.inverse(xp.sum(w, axis=0))
        p, total = w * noise, xp.sum(b, axis=0)
        first, second = _pairs(len(w))
        own = (first == second)[:, None]
        prec = xp.where(own, xp.maximum(w[first] * (1 - p[first]), 0.0), -w[first] * p[second])
        return cls(p, noise, noise * total, b - p * total, prec.T, 0.5 * xp.sum(noise * total**2))

    def centred(self, x: Array) -> Array:
        """Return (I − 1pᵀ) x per row."""
        return x - namespace(x).sum(self.p * x, axis=0)

    def pulled(self, x: Array) -> Array:
        """Return (I − p1ᵀ) x per row."""
        return x - self.p * namespace(x).sum(x, axis=0)

    def centred_both(self, R: Array) -> Array:
        """Return (I − 1pᵀ) R (I − p1ᵀ) for one symmetric R per row."""
        xp = namespace(R)
        left = xp.einsum("ci,ice->ie", self.p, R)
        inner = xp.einsum("ci,ic->i", self.p, left)
        return R - left[:, None, :] - left[:, :, None] + inner[:, None, None]

    def pulled_both(self, D: Array) -> Array:
        """Return (I − p1ᵀ) D (I − 1pᵀ), the transpose of `centred_both`."""
        xp, p = namespace(D), self.p.T
        sums = xp.sum(D, axis=1)
        total = xp.sum(sums, axis=1)[:, None, None]
        both = p[:, :, None] * sums[:, None, :]
        return D - both - xp.swapaxes(both, 1, 2) + total * p[:, :, None] * p[:, None, :]


# -- conditioning ---------------------------------------------------------------------------------------------


class Factor(NamedTuple):
    """q(v) = N(coef, HᵀH) with S = HᵀH, the blocks of A − I, u, and the covariance of g per row."""

    coef: Array  # (classes, m)
    H: Array
    S: Array
    gram: Array
    u: Array
    shift: Shift
    cross: Array


class Projected(NamedTuple):
    """Mean (classes, rows) and covariance (rows, classes, classes) of g, and log_z."""

    mean: Array
    cross: Array
    log_z: Array
    jitter: Array
    noise: Array  # 1/Σw, or 0


def _inner(features: Features, sites: Sites) -> tuple[Features, Factor, Array, Array]:
    """Return features, factor (without S and cross), log_z and jitter: the part that needs no variances."""
    features = features.like(*sites)
    shift = Shift.of(*sites)
    gram, u = features.total(lambda phi, W, b: (grams(phi, W), b.T @ phi), shift.prec, shift.linear.T)
    xp = namespace(gram)
    A = whole(gram, len(u))
    H, half_log_det, jitter = cholesky.inverse_root(A + xp.eye(len(A), dtype=A.dtype))
    coef = (H.T @ (H @ u.ravel())).reshape(u.shape)
    log_z = -half_log_det + 0.5 * xp.sum(u * coef) + shift.constant
    return features, Factor(coef, H, H, gram, u, shift, H), log_z, jitter


def condition(features: Features, sites: Sites) -> tuple[Projected, Factor]:
    """Condition on sites by the formulas at the top of this file; not for differentiation."""
    features, factor, log_z, jitter = _inner(features, sites)
    classes, shift, S = len(factor.coef), factor.shift, lower_gram(factor.H)
    blocks = blocks_of(S, classes)
    mean, cov = features.each(lambda phi: (phi @ factor.coef.T, forms(phi, blocks)))
    cross = shift.centred_both(as_matrices(cov, classes))
    mean = shift.centred(mean.T) + shift.offset
    return Projected(mean, cross, log_z, jitter, shift.noise), factor._replace(S=S, cross=cross)


def condition_mean(features: Features, sites: Sites) -> Projected:
    """Condition without the products for variances: `cross` holds upper bounds of the variances only."""
    features, factor, log_z, jitter = _inner(features, sites)
    mean, prior = features.each(lambda phi: (phi @ factor.coef.T, namespace(phi).sum(phi * phi, axis=1)))
    var = softmax_sites.variance_bounds(prior, sites.prec)
    eye = namespace(var).eye(len(var), dtype=var.dtype)
    mean = factor.shift.centred(mean.T) + factor.shift.offset
    return Projected(mean, eye * var.T[:, :, None], log_z, jitter, factor.shift.noise)


def pull_features(
    features: Features, factor: Factor, var: Array, mean_bar: Array, cross_bar: Array, resid_bar: Array, z_bar: Array
) -> Features:
    """Return the cotangent of the features, given cotangents of mean and covariance of g, residuals and log_z."""
    features = features.like(factor.S, mean_bar)
    coef, _, S, gram, u, shift, _ = factor
    classes, xp = len(coef), namespace(S, mean_bar)
    first, second = _pairs(classes)
    copies = _copies(classes)
    resid_bar = xp.where(features.resid > 0, xp.sum(resid_bar, axis=0), 0.0)
    by_mean = shift.pulled(mean_bar)
    D = shift.pulled_both(0.5 * (cross_bar + xp.swapaxes(cross_bar, 1, 2)))[:, first, second]
    sd = xp.sqrt(var).T
    steep = xp.max(xp.abs(cross_bar) * sd[:, :, None] * sd[:, None, :]) > NEGLIGIBLE_SLOPE * xp.abs(z_bar)

    def sums(phi: Array, by_mean: Array, D: Array, resid_bar: Array) -> tuple[Array, Array, Array]:
        P = cond(steep, lambda: grams(phi, D), lambda: xp.zeros_like(gram))
        return by_mean.T @ phi, P, weighted_gram(phi, resid_bar)

    p, P, Q = features.total(sums, by_mean.T, D, resid_bar)
    r = (S @ p.ravel()).reshape(p.shape)
    u_bar = r + z_bar * coef
    outer = 0.5 * xp.outer(r, coef)
    A_bar = -outer - outer.T - 0.5 * z_bar * (S + xp.outer(coef, coef))
    A_bar = cond(steep, lambda A: A - S @ whole(P, classes) @ S, lambda A: A, A_bar)
    A_blocks, S_blocks = blocks_of(A_bar, classes), blocks_of(S, classes)
    twice = 2 * xp.asarray(copies)[:, None, None]
    seen = p.T @ coef + u.T @ u_bar + xp.sum(twice * (gram @ A_blocks + P @ S_blocks), axis=0) - 2 * Q
    T = features.whitened.T
    K_uu_bar = -0.25 * T @ (seen + seen.T) @ T.T

    def pull(
        phi: Array, by_mean: Array, linear: Array, W: Array, D: Array, resid_bar: Array
    ) -> tuple[Array, tuple[()]]:
        phi_bar = by_mean @ coef + linear @ u_bar - 2 * resid_bar[:, None] * phi
        phi_bar = phi_bar + _weighted_products(phi, 2 * copies * W, A_blocks)
        phi_bar = cond(
            steep, lambda bar: bar + _weighted_products(phi, 2 * copies * D, S_blocks), lambda bar: bar, phi_bar
        )
        return times_transposed_upper(phi_bar, T), ()

    rows = (by_mean.T, shift.linear.T, shift.prec, D, resid_bar)
    return features.pull(pull, K_uu_bar, resid_bar, *rows)[0]
