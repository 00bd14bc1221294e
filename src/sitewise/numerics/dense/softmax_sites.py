"""Conditioning of multi-class (softmax) Gaussian processes on sites that depend on differences between classes only.

Every class has one latent vector.  K is one matrix for all classes, or one matrix per class on a leading axis.  See
`priors.classes` and decision 008.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays.engine import Array, cond, is_host, namespace
from sitewise.numerics.dense import cholesky, gaussian_sites, small_matrices
from sitewise.numerics.dense.triangular import (
    gram,
    lower_gram,
    lower_inverse,
    lower_solve,
    lower_times,
    lower_transposed_solve,
    plus_diagonal,
    scaled_by,
)


class Conditioned(NamedTuple):
    """Posterior of one Gaussian vector per class, given sites that depend on differences between classes only."""

    mean: Array  # of g, (classes, n)
    cross: Array  # covariance between the classes' g within each row, (n, classes, classes)
    log_z: Array
    jitter: Array
    noise: Array  # 1/Σ_c w_c, or 0


class Factors(NamedTuple):
    """The matrices of `condition_on_sites`: one per class, except T, which is 0 at rows without a site.

    E = HᵀH,   (Σ_c E_c)⁻¹ = T Tᵀ,   F = E T,   V = H K,   N = (I − K E) T,   α = K⁻¹ E[f],   noise = 1/Σ_c w_c, or 0

    On the host V and N are None: only derivatives of variances need them, and `shifts` and `covariance` compute them.
    """

    H: Array
    E: Array
    T: Array
    F: Array
    V: Array | None
    N: Array | None
    alpha: Array
    noise: Array

    def shifts(self, K: Array, w: Array) -> Array:
        """Return N."""
        return _times_I_minus_KE(K, w, self.T, self.F) if self.N is None else self.N


_MIN_WEIGHTED_VARIANCE = 64 * float(np.sqrt(np.finfo(float).eps))  # of w·Σ_ii, whose error is about 1e-14
_MIN_DIVISOR = 1e-100  # smaller precisions are not divided by: their products would have too few digits


def by_class(function: Callable[..., Any], K: Array, *each: Array) -> Any:
    """Return function(K_c, …) of each class, with the results on a leading axis.

    K is one matrix for all classes, or one matrix per class.  Classes are computed one after the other: batched
    factorisations wait for each other in XLA's threads, and two batches at the same time deadlock (seen in jaxlib
    0.10.2 on two cores).
    """
    if is_host(K, *each):
        classes = len(each[0])
        results: list[np.ndarray] = []
        for c in range(classes):
            found = function(K if K.ndim == 2 else K[c], *[part[c] for part in each])
            results = results or [np.empty((classes, *np.shape(one))) for one in found]
            for result, one in zip(results, found, strict=True):
                result[c] = one
        return tuple(results)
    if K.ndim == 2:
        return lax.map(lambda parts: function(K, *parts), each)
    return lax.map(lambda parts: function(*parts), (K, *each))


class _Means(NamedTuple):
    """Posterior mean and log_z, and the factors for variances: H, E per class, and LM LMᵀ = scale · Σ_c E_c · scale."""

    H: Array
    E: Array
    LM: Array
    scale: Array  # √noise
    noise: Array
    mean: Array
    alpha: Array
    log_z: Array
    jitter: Array


def _diagonal(K: Array) -> Array:
    return namespace(K).diagonal(K, axis1=-2, axis2=-1)


def _times(matrices: Array, x: Array) -> Array:
    """Return A_c x_c of each class, or A x_c if all classes share one matrix."""
    return (matrices @ x[..., None])[..., 0]


def _transposed(matrices: Array) -> Array:
    return namespace(matrices).swapaxes(matrices, 1, 2)


def inverse(w: Array) -> tuple[Array, Array]:
    """Return the mask of precisions that can be divided by, and 1/w there, 0 elsewhere."""
    xp = namespace(w)
    large = w > _MIN_DIVISOR
    return large, xp.where(large, 1 / xp.where(large, w, 1.0), 0.0)


def _times_I_minus_KE(K: Array, w: Array, X: Array, EX: Array) -> Array:
    """Return (I − K E) X of each class, given E X.

    It is computed as W⁻¹ E X, which is equal and does not cancel: under a wide prior the rounding error of the
    difference exceeds the last steps of an iteration.
    """
    xp = namespace(K, w, EX)
    large, inverses = inverse(w)
    divided = inverses[..., None] * EX
    return cond(xp.all(large), lambda: divided, lambda: xp.where(large[..., None], divided, X - K @ EX))


def _times_I_minus_EK(K: Array, w: Array, E: Array, x: Array) -> Array:
    """Return (I − E K) x of each class, without cancellation as in `_times_I_minus_KE`."""
    large, inverses = inverse(w)
    rest = namespace(w, x).where(large, 0.0, x)
    return _times(E, inverses * x - _times(K, rest)) + rest


def _condition_means(K: Array, b: Array, w: Array) -> _Means:
    """Compute the posterior mean and log_z, the part of `condition_on_sites` that needs no variances."""
    xp = namespace(K, b, w)

    def one_class(K: Array, w: Array) -> tuple[Array, ...]:
        L, root, jitter = gaussian_sites.site_factor(K, w)
        H = lower_inverse(L) * root
        return H, lower_gram(H), xp.sum(xp.log(xp.diagonal(L))), jitter

    H, E, half_log_dets, jitters = by_class(one_class, K, w)
    seen, noise = inverse(xp.sum(w, axis=0))
    scale = cholesky.safe_root(noise)
    M = plus_diagonal(scaled_by(xp.sum(E, axis=0), scale), xp.where(seen, 0.0, 1.0))
    LM, jitter = cholesky.jittered_cholesky(M)

    left = _times_I_minus_EK(K, w, E, b)
    own = _times(K, left)
    white = -lower_solve(LM, scale * xp.sum(left, axis=0))
    s = scale * lower_transposed_solve(LM, white)
    pulled = E @ s
    shift = _times_I_minus_KE(K, w, s[:, None], pulled[..., None])[..., 0]
    log_z = 0.5 * xp.sum(b * own) + 0.5 * white @ white - xp.sum(half_log_dets) - xp.sum(xp.log(xp.diagonal(LM)))
    return _Means(H, E, LM, scale, noise, own - shift, left + pulled, log_z, xp.maximum(jitter, xp.max(jitters)))


def condition_on_sites(K: Array, b: Array, w: Array) -> tuple[Conditioned, Factors]:
    """Condition independent f_c ~ N(0, K_c) on Π_i max_s Π_c exp(b_ci (f_ci − s) − ½ w_ci (f_ci − s)²).

    The maximising s of a row is (Σ_c w_c f_c − Σ_c b_c)/Σ_c w_c.  The site of a row is therefore invariant to a common
    shift, and has the precision matrix diag(w) − wwᵀ/Σw (if Σw = 1, the precision matrix of softmax, R&W eq. 3.38);
    g = f − s.  With s integrated over instead, the sites are diagonal in h = f − s, with the algebra of R&W
    eqs. 3.43–3.47:

        E_c = W_c½ B_c⁻¹ W_c½,  M = Σ_c E_c,  Σ_c = K_c − K_c E_c K_c,   s ~ N(M⁻¹r, M⁻¹),  r = −Σ_c (I − E_c K_c) b_c
        f_c | s ~ N(Σ_c (b_c + w_c s), Σ_c),   Cov(h_c, h_e) = δ_ce Σ_c + N_c N_eᵀ,   N_c = (I − K_c E_c) M^{−½}

    Maximising over s instead of integrating removes 1/Σw from every covariance within a row, and ½ log(2π/Σw) from
    log_z.  A row with b = w = 0 has exactly no effect.
    """
    xp = namespace(K, b, w)
    found = _condition_means(K, b, w)
    if xp is np:
        return _with_variances_on_host(K, w, found)
    T = found.scale[:, None] * lower_inverse(found.LM).T
    F = found.E @ T
    N = _times_I_minus_KE(K, w, T, F)
    (V,) = by_class(lambda K, H: (lower_times(H, K),), K, found.H)
    own = _diagonal(K) - xp.sum(V * V, axis=1)
    cross = xp.einsum("cij,eij->ice", N, N) - found.noise[:, None, None]
    cross = cross + xp.eye(w.shape[0], dtype=K.dtype) * own.T[:, :, None]
    factors = Factors(found.H, found.E, T, F, V, N, found.alpha, found.noise)
    return Conditioned(found.mean, cross, found.log_z, found.jitter, found.noise), factors


def _with_variances_on_host(K: np.ndarray, w: np.ndarray, found: _Means) -> tuple[Conditioned, Factors]:
    """Complete `condition_on_sites` without V and N where every row of a class is well determined by its site.

    N = W⁻¹F, and diag Σ = W⁻¹ − W⁻¹ diag(E) W⁻¹.  The second formula loses −log₁₀(w·Σ_ii) digits; for rows where that
    is too many, Σ_ii = K_ii − |H k_i|², for these rows only.
    """
    classes, n = w.shape
    large, inverses = inverse(w)
    Tt = lower_inverse(found.LM) * found.scale
    F = np.empty_like(found.E)
    for c in range(classes):
        F[c] = lower_times(Tt, found.E[c]).T
    N = F if np.all(large) else _times_I_minus_KE(K, w, Tt.T, F)
    cross = np.empty((n, classes, classes))
    for c in range(classes):
        for e in range(c + 1):
            cross[:, c, e] = cross[:, e, c] = np.einsum("ij,ij->i", N[c], N[e])
    if N is F:
        cross *= (inverses[:, None] * inverses).transpose(2, 0, 1)
    cross -= found.noise[:, None, None]
    weighted = 1 - _diagonal(found.E) * inverses  # w·Σ_ii
    own = weighted * inverses
    for c in range(classes):
        poor = np.flatnonzero(~(large[c] & (weighted[c] > _MIN_WEIGHTED_VARIANCE)))
        if len(poor):
            of_class = K if K.ndim == 2 else K[c]
            V = lower_times(found.H[c], of_class[:, poor])
            own[c, poor] = of_class[poor, poor] - np.einsum("ij,ij->j", V, V)
    np.einsum("icc->ic", cross)[...] += own.T
    factors = Factors(found.H, found.E, Tt.T, F, None, None if N is F else N, found.alpha, found.noise)
    return Conditioned(found.mean, cross, found.log_z, found.jitter, found.noise), factors


def mean_on_sites(K: Array, b: Array, w: Array) -> Conditioned:
    """Condition as `condition_on_sites`, at about half the cost; `cross` is the diagonal of `variance_bounds`."""
    found = _condition_means(K, b, w)
    var = variance_bounds(_diagonal(K), w)
    cross = namespace(var).eye(w.shape[0], dtype=K.dtype) * var.T[:, :, None]
    return Conditioned(found.mean, cross, found.log_z, found.jitter, found.noise)


def variance_bounds(prior: Array, w: Array) -> Array:
    """Return upper bounds on the posterior variances of g, given the prior variances, shared or one per class.

    g_c = f_c − Σ_e p_e f_e + constant with p = w/Σw.  Its variance is at most its prior variance,
    (1 − p_c)² K_c + Σ_{e≠c} p_e² K_e, and the variance of h_c is at most 1/w_c.
    """
    xp = namespace(prior, w)
    _, noise = inverse(xp.sum(w, axis=0))
    large, widths = inverse(w)
    p = w * noise
    bound = (1 - 2 * p) * prior + xp.sum(p**2 * prior, axis=0)
    return xp.where(large, xp.minimum(bound, widths - noise), bound)


def covariance(K: Array, w: Array, factors: Factors) -> Array:
    """Return Cov(h_c, h_e) of all rows and classes as one matrix, class after class."""
    flat = factors.shifts(K, w).reshape(-1, factors.T.shape[-1])
    if factors.V is None:
        own = by_class(lambda K, H: (K - gram(lower_times(H, K)),), K, factors.H)
    else:
        own = by_class(lambda K, V: (K - gram(V),), K, factors.V)
    return with_blocks(flat @ flat.T, own[0])


def with_blocks(matrix: Array, blocks: Array) -> Array:
    """Return `matrix` plus the block diagonal matrix of `blocks`.  A NumPy matrix is changed in place."""
    classes, n = blocks.shape[:2]
    by_block = matrix.reshape(classes, n, classes, n)
    if not is_host(matrix, blocks):
        every = np.arange(classes)
        return by_block.at[every, :, every, :].add(blocks).reshape(matrix.shape)
    for c in range(classes):
        by_block[c, :, c] += blocks[c]
    return matrix


def covariance_times(K: Array, w: Array, factors: Factors, x: Array) -> Array:
    """Return `covariance` times x, (classes, n), without forming that matrix: Σ_c = K_c (I − E_c K_c)."""
    N = factors.shifts(K, w)
    shared = namespace(K, x).sum(_times(_transposed(N), x), axis=0)
    return _times(K, _times_I_minus_EK(K, w, factors.E, x)) + N @ shared


def pull_prior(K: Array, w: Array, var: Array, factors: Factors, bar: Conditioned) -> Array:
    """Return the cotangent of K, given the cotangent `bar` of the result, whose variances are `var`.

    With G_c = I − K_c E_c and A_cd = δ_cd G_c − N_c F_dᵀ, which is Cov(h_c, f_d) K_d⁻¹,

        dlog_z = ½ Σ_d [α_dᵀ dK_d α_d − tr((E_d − F_d F_dᵀ) dK_d)]
        dmean_c = Σ_d A_cd dK_d α_d,    dCov(h_c, h_e) = Σ_d A_cd dK_d A_edᵀ.

    Let D_ce be the diagonal matrix of the derivatives in the covariance of g_c and g_e, S_c = Σ_e D_ce N_e and
    Q = Σ_c N_cᵀ S_c.  The contribution of the covariances to the cotangent of K_d is

        Σ_ce A_cdᵀ D_ce A_ed = G_dᵀ D_dd G_d − G_dᵀ S_d F_dᵀ − F_d S_dᵀ G_d + F_d Q F_dᵀ.
    """
    xp = namespace(K, bar.mean)
    E, T, F, alpha = factors.E, factors.T, factors.F, factors.alpha
    if xp is np and K.ndim == 2 and not (np.any(bar.mean) or np.any(bar.cross)):
        return _pull_log_z(factors, bar.log_z)
    pulled = _times_I_minus_EK(K, w, E, bar.mean)
    pulled = pulled - F @ (T.T @ xp.sum(pulled, axis=0))  # Σ_c A_cdᵀ times the derivative in mean_c
    outer = 0.5 * (pulled + 0.5 * bar.log_z * alpha)[:, :, None] * alpha[:, None, :]
    K_bar = outer + _transposed(outer) - 0.5 * bar.log_z * (E - F @ _transposed(F))
    D = xp.moveaxis(0.5 * (bar.cross + _transposed(bar.cross)), 0, -1)

    def with_variances(K_bar: Array) -> Array:
        N = factors.shifts(K, w)
        n = N.shape[-1]
        G = _times_I_minus_KE(K, w, xp.eye(n, dtype=K.dtype), E)
        S = xp.einsum("cei,eij->cij", D, N)
        Q = N.reshape(-1, n).T @ S.reshape(-1, n)
        own = xp.diagonal(D).T[:, :, None]
        half = _transposed(G) @ (0.5 * own * G - S @ _transposed(F)) + 0.5 * (F @ Q) @ _transposed(F)
        return K_bar + half + _transposed(half)

    sd = xp.sqrt(var)
    variances_matter = xp.max(xp.abs(D) * sd[:, None] * sd[None]) > gaussian_sites.NO_SLOPE * xp.abs(bar.log_z)
    K_bar = cond(variances_matter, with_variances, lambda K_bar: K_bar, K_bar)
    return xp.sum(K_bar, axis=0) if K.ndim == 2 else K_bar


def _pull_log_z(factors: Factors, by_log_z: Any) -> np.ndarray:
    """Return `pull_prior` for a shared matrix K and an evidence that depends on K through log_z only."""
    flat = np.swapaxes(factors.F, 0, 1).reshape(factors.F.shape[1], -1)
    return 0.5 * by_log_z * (flat @ flat.T + factors.alpha.T @ factors.alpha - np.sum(factors.E, axis=0))


class LeftOut(NamedTuple):
    """The cavity of each row, N(mean, cov) without the row's site, and log ∫ cavity × site."""

    mean: Array
    cov: Array
    log_z: Array


def without_site(mean: Array, cross: Array, b: Array, w: Array) -> LeftOut:
    """Divide the site (b, w) of each row out of its marginal N(mean, cross); rows first, classes on the last axes.

    The site is exp(b̃ᵀf − ½ fᵀWf + (Σb)²/2Σw), W = diag(w) − wwᵀ/Σw, b̃ = b − wΣb/Σw.  The site and everything computed
    from the result are invariant to a common shift.  The shift is given a variance here to make `cross` invertible.
    """
    classes = mean.shape[-1]
    eye = jnp.eye(classes, dtype=mean.dtype)
    total = jnp.sum(w, axis=-1, keepdims=True)
    share = w / jnp.where(total > 0, total, 1.0)
    linear = b - share * jnp.sum(b, axis=-1, keepdims=True)
    W = w[..., None] * (eye - share[..., None, :])
    free = lax.stop_gradient(jnp.trace(cross, axis1=-2, axis2=-1) / classes)
    L = small_matrices.small_cholesky(cross + free[..., None, None])
    # cavity precision = Λ − W with Λ = (L Lᵀ)⁻¹:  I − LᵀWL = R Rᵀ,  cov = L R⁻ᵀR⁻¹ Lᵀ
    Lt = jnp.swapaxes(L, -1, -2)
    R = small_matrices.small_cholesky(eye - Lt @ W @ L)
    root = jnp.swapaxes(small_matrices.small_lower_solve(R, Lt), -1, -2)
    white = small_matrices.small_lower_solve(L, mean[..., None])[..., 0]  # L⁻¹ mean; Λ mean = L⁻ᵀ white
    pulled = small_matrices.small_lower_solve(R, (white - (Lt @ linear[..., None])[..., 0])[..., None])[..., 0]
    cavity_mean = (root @ pulled[..., None])[..., 0]
    constant = 0.5 * jnp.sum(b, axis=-1) ** 2 / jnp.where(total > 0, total, 1.0)[..., 0]
    log_det = jnp.sum(jnp.log(jnp.diagonal(R, axis1=-2, axis2=-1)), axis=-1)
    log_z = log_det + 0.5 * jnp.sum(white**2, axis=-1) - 0.5 * jnp.sum(pulled**2, axis=-1) + constant
    return LeftOut(cavity_mean, root @ jnp.swapaxes(root, -1, -2), log_z)
