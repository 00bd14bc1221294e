"""Gaussian algebra of softmax models: a vector per class, and sites that depend on differences between classes only.

K is one matrix for all classes, or one for each on a leading axis.  See `priors.classes` and decision 008.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular

from sitewise.numerics import cholesky, gaussian_sites, small_matrices


class Conditioned(NamedTuple):
    """One Gaussian vector per class, conditioned on sites that depend on differences between the classes only."""

    mean: jax.Array  # of g, (classes, n)
    cross: jax.Array  # covariance of the g of one row, (n, classes, classes)
    log_z: jax.Array
    jitter: jax.Array


class Factors(NamedTuple):
    """E_c = H_cᵀH_c,  (Σ_c E_c)⁻¹ = T Tᵀ on the rows that have a site,  noise = 1/Σ_c w_c there, else 0.

    V and N follow from them: Σ_c = K_c − V_cᵀV_c, and N_c is that of `condition_on_sites`.
    """

    H: jax.Array
    T: jax.Array
    noise: jax.Array
    V: jax.Array
    N: jax.Array


def _factorise(K: jax.Array, w: jax.Array) -> tuple[Factors, jax.Array, jax.Array]:
    """The factors, log ∫ of the sites without their linear terms, and the jitter that was needed."""
    n = K.shape[-1]

    def one_class(K: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        L, root, jitter = gaussian_sites.site_factor(K, w)
        return solve_triangular(L, jnp.diag(root), lower=True), jnp.sum(jnp.log(jnp.diagonal(L))), jitter

    # One class after the other: factorisations in a batch wait for each other in XLA's threads, and two such batches at
    # the same time wait forever (seen in jaxlib 0.10.2 on two cores).
    if K.ndim == 2:
        H, half_log_dets, jitters = lax.map(lambda w: one_class(K, w), w)
    else:
        H, half_log_dets, jitters = lax.map(lambda each: one_class(*each), (K, w))
    total = jnp.sum(w, axis=0)
    seen = total > 0
    noise = jnp.where(seen, 1 / jnp.where(seen, total, 1.0), 0.0)
    scale = cholesky.safe_root(noise)
    scaled = (H * scale).reshape(-1, n)
    LM, jitter = cholesky.jittered_cholesky(scaled.T @ scaled + jnp.diag(jnp.where(seen, 0.0, 1.0)))
    T = scale[:, None] * solve_triangular(LM, jnp.eye(n, dtype=K.dtype), lower=True).T
    V = H @ K
    # I − K E = W⁻¹ E: each row uses the form in which nothing cancels.
    HT = H @ T
    site_is_precise = (w * jnp.diagonal(K, axis1=-2, axis2=-1) > 1)[..., None]
    divided = jnp.swapaxes(H, 1, 2) @ HT / jnp.where(site_is_precise, w[..., None], 1.0)
    N = jnp.where(site_is_precise, divided, T - jnp.swapaxes(V, 1, 2) @ HT)
    log_z = -jnp.sum(half_log_dets) - jnp.sum(jnp.log(jnp.diagonal(LM)))
    return Factors(H, T, noise, V, N), log_z, jnp.maximum(jitter, jnp.max(jitters))


def condition_on_sites(K: jax.Array, b: jax.Array, w: jax.Array) -> tuple[Conditioned, Factors]:
    """f_c ~ N(0, K_c) independent for each class c, times Π_i max_s Π_c exp(b_ci (f_ci − s) − ½ w_ci (f_ci − s)²).

    The best s of a row is (Σ_c w_c f_c − Σ_c b_c)/Σ_c w_c, so that the site of a row has the precision matrix
    diag(w) − wwᵀ/Σw (that of softmax, R&W eq. 3.38, if Σw = 1) and is invariant to a common shift; g = f − s.
    With s integrated over instead, the sites are diagonal in h = f − s, which gives the algebra of R&W eqs. 3.43–3.47:

        E_c = W_c½ B_c⁻¹ W_c½,  M = Σ_c E_c,  Σ_c = K_c − K_c E_c K_c,   s ~ N(M⁻¹r, M⁻¹),  r = −Σ_c (I − E_c K_c) b_c
        f_c | s ~ N(Σ_c (b_c + w_c s), Σ_c),   Cov(h_c, h_e) = δ_ce Σ_c + N_c N_eᵀ,   N_c = (I − K_c E_c) M^{−½}

    and maximising over s instead of integrating removes 1/Σw from every covariance within a row, and
    ½ log(2π/Σw) from log_z.  A row with b = w = 0 drops out exactly.
    """
    factors, log_z, jitter = _factorise(K, w)
    V, N = factors.V, factors.N
    # Σ_c b_c = V_cᵀ H_c W_c⁻¹ b_c and b_c − w_c Σ_c b_c = E_c W_c⁻¹ b_c where w > 0.  The differences are equal, but
    # under a wide prior their rounding errors exceed the last steps of an iteration.
    seen = w > 0
    rest = jnp.where(seen, 0.0, b)[..., None]
    column = factors.H @ jnp.where(seen, b / jnp.where(seen, w, 1.0), 0.0)[..., None] - V @ rest
    own = (K @ rest + jnp.swapaxes(V, 1, 2) @ column)[..., 0]
    left = jnp.swapaxes(factors.H, 1, 2) @ column + rest
    white = -factors.T.T @ jnp.sum(left, axis=0)[:, 0]
    mean = own - N @ white  # f_c − s = Σ_c b_c − (I − K_c E_c) s
    variances = jnp.diagonal(K, axis1=-2, axis2=-1) - jnp.sum(V * V, axis=1)
    cross = jnp.einsum("cij,eij->ice", N, N) - factors.noise[:, None, None]
    cross = cross + jnp.eye(w.shape[0], dtype=K.dtype) * variances.T[:, :, None]
    log_z = log_z + 0.5 * jnp.sum(b * own) + 0.5 * white @ white
    return Conditioned(mean, cross, log_z, jitter), factors


class LeftOut(NamedTuple):
    """N(mean, cov) of one row with its site divided out, and log ∫ of it times that site."""

    mean: jax.Array
    cov: jax.Array
    log_z: jax.Array


def without_site(mean: jax.Array, cross: jax.Array, b: jax.Array, w: jax.Array) -> LeftOut:
    """Divide the site (b, w) of each row out of its N(mean, cross); classes on the last axes, rows first.

    The site is exp(b̃ᵀf − ½ fᵀWf + (Σb)²/2Σw), W = diag(w) − wwᵀ/Σw, b̃ = b − wΣb/Σw.  The site and all that is computed
    from the result are invariant to a common shift, which is given a variance here so that `cross` is invertible.
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
