"""Conditioning of a sparse prior on Gaussian sites, and its analytic pullback to the kernel and the inducing inputs.

The features Φ = K_xu T (`priors.sparse.features`) make the inducing variables v ~ N(0, I) and the projected process
s = Φ v, f_i = s_i + N(0, resid_i), resid_i = κ_ii − |φ_i|².  Given sites exp(b_i s_i − ½ w_i s_i²):

    A = I + Φᵀ W Φ,   S = A⁻¹,   c = S Φᵀ b
    mean = Φ c,   var = diag Φ S Φᵀ,   log_z = log ∫ N(v; 0, I) Π sites dv = −½ log|A| + ½ bᵀ Φ c

With w ≥ 0, the eigenvalues of A are at least 1.  With negative precisions the product is a Gaussian only if A is
positive definite; otherwise the result is NaN.  A row with b = w = 0 drops out exactly.  The pullback is analytic:

    p = Φᵀ m̄,  P = Φᵀ diag(v̄) Φ,  r = S p,  ū = r + z̄ c,  Ā = −½(r cᵀ + c rᵀ) − S P S − ½ z̄ (S + c cᵀ)
    b̄ = Φ ū,   w̄ = diag Φ Ā Φᵀ,   Φ̄ = m̄ cᵀ + b ūᵀ + 2 diag(v̄) Φ S + 2 W Φ Ā − 2 diag(r̄esid) Φ

and continues to the kernel matrices without T: K̄_xu = Φ̄ Tᵀ and, because ΦᵀΦ̄ is symmetric,

    K̄_uu = −½ T (ΦᵀΦ̄) Tᵀ = T (Ā + ½ z̄ I + Q) Tᵀ,   Q = Φᵀ diag(r̄esid) Φ

Each skipped sum over rows saves n·m² multiplications.  With r̄esid = v̄ − ½ z̄ w + e (e = 0 for the ELBO,
v̄ = 0 at a fixed point of (VI, elbo) and (EP, ep)) one product with Φ and no sum remains where v̄ = e = 0:

    K̄_xu = m̄ (Tc)ᵀ + b (Tū)ᵀ + [W Φ (2Ā + z̄I) + 2 diag(v̄) Φ (S − I) − 2 diag(e) Φ] Tᵀ
    Q = −½ z̄ (A − I) + P + Φᵀ diag(e) Φ
"""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax.typing import ArrayLike

from sitewise.arrays.engine import cond, namespace
from sitewise.numerics.dense import cholesky
from sitewise.numerics.dense.tall_products import (
    plus_product,
    row_forms,
    row_squares,
    times_transposed_upper,
    weighted_gram,
)
from sitewise.priors.sparse.features import Features


class Projected(NamedTuple):
    """Marginals of the projected process given sites, without the prior mean."""

    mean: jax.Array
    var: jax.Array
    resid: jax.Array
    log_z: ArrayLike
    jitter: ArrayLike


class Inner(NamedTuple):
    """q(v) = N(coef, HᵀH), for predictions."""

    coef: jax.Array
    H: jax.Array


class Factor(NamedTuple):
    """q(v) and ΦᵀWΦ = A − I, for derivatives."""

    inner: Inner
    gram: jax.Array


def condition(features: Features, b: jax.Array, w: jax.Array) -> tuple[Projected, Factor]:
    """Condition on sites by the formulas at the top of this file; not for differentiation."""
    features = features.like(b, w)
    gram, u = features.total(lambda phi, b, w: (weighted_gram(phi, w), phi.T @ b), b, w)
    xp = namespace(gram)
    eye = xp.eye(gram.shape[0], dtype=gram.dtype)
    H, half_log_det, jitter = cholesky.inverse_root(gram + eye)
    # Jitter compensates for rounding.  With a negative precision A may need jitter because it is indefinite.
    H = H * xp.where((jitter > 0) & xp.any(w < 0), xp.nan, 1.0)
    coef = H.T @ (H @ u)

    def rows(phi: jax.Array) -> tuple[jax.Array, jax.Array]:
        return phi @ coef, row_squares(phi, H.T)

    mean, var = features.each(rows)
    log_z = -half_log_det + 0.5 * u @ coef
    return Projected(mean, var, features.resid, log_z, jitter), Factor(Inner(coef, H), gram)


_Residuals = tuple[Features, jax.Array, jax.Array, Factor, Projected]
_Cotangents = tuple[Features, jax.Array, jax.Array]  # of features, b and w


@jax.custom_vjp
def project(features: Features, b: jax.Array, w: jax.Array) -> Projected:
    """Condition on sites, differentiably."""
    return condition(features, b, w)[0]


def _forward(features: Features, b: jax.Array, w: jax.Array) -> tuple[Projected, _Residuals]:
    features = features.like(b, w)
    out, factor = condition(features, b, w)
    return out, (features, b, w, factor, out)


# Smaller derivatives in the variances, in units of the variances and of z̄, are set to 0: they are the remaining error
# of converged sites, and change the gradient by less than this per row.
NEGLIGIBLE_SLOPE = 1e-6


def _steep(slope: jax.Array, out: Projected, z_bar: ArrayLike) -> jax.Array:
    """Return whether a derivative in the variances exceeds the remaining error of the sites."""
    xp = namespace(slope, out.var)
    return xp.max(xp.abs(slope) * (out.var + out.resid)) > NEGLIGIBLE_SLOPE * xp.abs(z_bar)


class Pulled(NamedTuple):
    """Cotangents of the features and of b, and the matrix Ā in w̄ = diag Φ Ā Φᵀ."""

    features: Features
    b: jax.Array
    A: jax.Array


def pull_features(
    features: Features, b: jax.Array, w: jax.Array, factor: Factor, out: Projected, bar: Projected
) -> Pulled:
    """Pull back the cotangent `bar` of `out`, the result of `condition`."""
    features = features.like(b, w, bar.mean)
    coef, H = factor.inner
    xp = namespace(H, bar.mean)
    mean_bar, var_bar, resid_bar, z_bar, _ = bar
    S, eye = H.T @ H, xp.eye(H.shape[0], dtype=H.dtype)
    resid_bar = xp.where(out.resid > 0, resid_bar, 0.0)
    # A derivative set to 0 in one sum must be 0 in all: derivatives in κ, φ and S have terms of the size of the prior
    # variance, which cancel and may be thousands of times the variance of q.
    steep = _steep(var_bar, out, z_bar)
    var_bar = xp.where(steep, var_bar, 0.0)
    rest = resid_bar - var_bar + 0.5 * z_bar * w  # e
    uneven = _steep(rest, out, z_bar)
    rest = xp.where(uneven, rest, 0.0)
    resid_bar = rest + var_bar - 0.5 * z_bar * w

    def sums(
        phi: jax.Array, mean_bar: jax.Array, var_bar: jax.Array, rest: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        def gram_if(needed: jax.Array, weights: jax.Array) -> jax.Array:
            return cond(needed, lambda: weighted_gram(phi, weights), lambda: xp.zeros_like(S))

        return phi.T @ mean_bar, gram_if(steep, var_bar), gram_if(uneven, rest)

    p, P, E = features.total(sums, mean_bar, var_bar, rest)
    r = S @ p
    u_bar = r + z_bar * coef
    outer = 0.5 * xp.outer(r, coef)
    A_bar = -outer - outer.T - S @ P @ S - 0.5 * z_bar * (S + xp.outer(coef, coef))
    T = features.whitened.T
    K_uu_bar = T @ (A_bar + 0.5 * z_bar * (eye - factor.gram) + P + E) @ T.T
    by_w, by_var = 2 * A_bar + z_bar * eye, 2 * (S - eye)
    by_w_and_T = by_w @ T.T
    by_mean_and_b = xp.stack([T @ coef, T @ u_bar])

    def pull(
        phi: jax.Array, b: jax.Array, w: jax.Array, mean_bar: jax.Array, var_bar: jax.Array, rest: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        def whole() -> jax.Array:
            """Return all terms except m̄ and b: Tᵀ is common to them, and a triangular product costs half."""
            K_bar = phi @ by_w
            K_bar *= w[:, None]  # in place, where arrays are NumPy's
            K_bar = cond(steep, lambda K: K + var_bar[:, None] * (phi @ by_var), lambda K: K, K_bar)
            K_bar -= 2 * rest[:, None] * phi
            return times_transposed_upper(K_bar, T)

        def first() -> jax.Array:
            K_bar = phi @ by_w_and_T
            K_bar *= w[:, None]
            return K_bar

        K_bar = cond(steep | uneven, whole, first)
        return plus_product(K_bar, xp.stack([mean_bar, b], axis=1), by_mean_and_b), phi @ u_bar

    features_bar, b_bar = features.pull(pull, K_uu_bar, resid_bar, b, w, mean_bar, var_bar, rest)
    return Pulled(features_bar, b_bar, A_bar)


def _backward(residuals: _Residuals, bar: Projected) -> _Cotangents:
    features, b, w, factor, out = residuals
    found = pull_features(features, b, w, factor, out, bar)
    return found.features, found.b, features.each(lambda phi: row_forms(phi, found.A))


project.defvjp(_forward, _backward)
