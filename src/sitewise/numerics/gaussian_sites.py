"""Conditioning a Gaussian on Gaussian sites, and its pullback.

`gaussian_sites` conditions a zero-mean Gaussian N(0, K) on Gaussian sites exp(b_i g_i − ½ w_i g_i²), w ≥ 0:

    B = I + W½ K W½ = L Lᵀ,   V = L⁻¹ W½ K,   Σ = K − VᵀV = (K⁻¹ + W)⁻¹
    mean = Σ b,   var = diag Σ,   log_z = log ∫ N(g; 0, K) exp(bᵀg − ½ gᵀWg) dg = −½ log|B| + ½ bᵀ mean

(R&W eqs. 3.26–3.27 and 3.32.)  The eigenvalues of B are at least one, so no jitter is needed however
singular K is.  A row with w = 0 drops out exactly, so that padding changes no result.  The pullback is
analytic and reuses L; with R = W½ B⁻¹ W½, G = I − K R, α = b − W mean:

    dlog_z = −½ tr(R dK) + ½ αᵀ dK α − ½ Σ (var_i + mean_i²) dw_i + meanᵀ db
    dmean  = G dK α + Σ (db − mean ∘ dw),    dvar_i = (G dK Gᵀ)_ii − Σ_j Σ_ij² dw_j

Rounding can still make B indefinite, where sites are precise and K is huge: eps·w·K > 1.  Every factorisation
is therefore one of `jittered_cholesky`, and the jitter that was needed is part of the result (`Marginals.jitter`,
`Stats.jitter`).  Where no jitter suffices the result is NaN, which the callers turn into an `Outcome`.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular

from sitewise.numerics.cholesky import cholesky, jittered_cholesky, safe_root, with_least_jitter
from sitewise.numerics.triangular import gram, lower_gram, lower_inverse, lower_times, symmetric_product


class Conditioned(NamedTuple):
    mean: jax.Array
    var: jax.Array
    log_z: jax.Array
    jitter: jax.Array  # what `cholesky.jittered_cholesky` needed, usually 0


def site_factor(K: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(L, √w, jitter) with L Lᵀ = I + W½ K W½."""
    root = safe_root(w)
    L, jitter = jittered_cholesky(_B(K, root))
    return L, root, jitter


def _B(K: jax.Array, root: jax.Array) -> jax.Array:
    return root[:, None] * K * root[None, :] + jnp.eye(K.shape[0], dtype=K.dtype)


def _variances(K: jax.Array, w: jax.Array, left: jax.Array, V: jax.Array) -> jax.Array:
    """diag(K − VᵀV), or where a site leaves little of the prior variance diag W^{−½} (I − B⁻¹) W^{−½}, which is equal.

    K − VᵀV has an error of eps·K.  Where the posterior variance is 1e-9·K, dividing the site out (cavities, EP,
    leave-one-out) would leave nothing but that error.  In 1 − w_i var_i = (B⁻¹)_ii = `left` nothing cancels.
    """
    prior = jnp.diagonal(K)
    # Rounding can make a variance negative that is tiny compared with that of the prior.
    var = jnp.maximum(prior - jnp.sum(V * V, axis=0), jnp.finfo(K.dtype).eps * prior)
    return jnp.minimum(jnp.where((w > 0) & (left < 0.5), (1 - left) / _nonzero(w), var), prior)


def _nonzero(w: jax.Array) -> jax.Array:
    """w, and 1 where w is 0, for use as a divisor."""
    return jnp.where(w > 0, w, 1.0)


def site_weights(K: jax.Array, b: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(L, √w, α) with α = K⁻¹ mean = b − w·mean, written as √w B⁻¹ (b/√w) where w > 0.

    The difference loses log₁₀(K·w) digits, and predictions far from the data are K·α.
    """
    L, root, _ = site_factor(K, w)
    column, rest = _split_nat1(K, b, w, root)
    return L, root, _weights(L, root, solve_triangular(L, column, lower=True), rest)


def _weights(L: jax.Array, root: jax.Array, column: jax.Array, rest: jax.Array) -> jax.Array:
    return root * solve_triangular(L, column, lower=True, trans=1) + rest


def _split_nat1(K: jax.Array, b: jax.Array, w: jax.Array, root: jax.Array) -> tuple[jax.Array, jax.Array]:
    """W^{−½}(b − W K rest), and `rest`, which is b at the rows whose precision is 0."""
    seen = w > 0
    rest = jnp.where(seen, 0.0, b)
    return jnp.where(seen, b / jnp.where(seen, root, 1.0), 0.0) - root * (K @ rest), rest


class Factors(NamedTuple):
    """The matrices that `condition_on_sites` computes: H = L⁻¹ W½, so that R = HᵀH; V = H K; α = K⁻¹ mean.

    Where the site of every row determines it well (`determined`, see `_well_determined`), everything follows from R
    alone, and V is not computed (the field holds H).  R = (K + W⁻¹)⁻¹, so that with no other matrix product

        Σ = W⁻¹ − W⁻¹ R W⁻¹,    Gᵀ = I − R K = R W⁻¹.

    These lose −log₁₀(w·var) digits, which is why V exists.
    """

    H: jax.Array
    V: jax.Array
    alpha: jax.Array
    determined: jax.Array | None


def _well_determined(w: jax.Array, left: jax.Array, mask: jax.Array) -> jax.Array:
    """Whether w·var = 1 − left is above 64 √eps for every row that counts.

    That is 1e-6 in double precision, where the error of w·var is about 1e-14.
    """
    return jnp.all(~mask | ((w > 0) & (1 - left > 64 * jnp.sqrt(jnp.finfo(left.dtype).eps))))


def condition_on_sites(
    K: jax.Array, b: jax.Array, w: jax.Array, mask: jax.Array | None = None
) -> tuple[Conditioned, Factors]:
    """The formulas at the top of this file, and the factors that they use.

    With a mask of the rows that count, the cheaper formulas of `Factors` are used if the numbers allow it; the
    variances of the other rows are then wrong.
    """
    L, root, jitter = site_factor(K, w)
    # Σb = K α.  K b − VᵀV b is equal to it, but where a site is a million times as precise as the prior (large counts)
    # it loses six digits.
    column, rest = _split_nat1(K, b, w, root)
    alpha = _weights(L, root, solve_triangular(L, column, lower=True), rest)
    H = lower_inverse(L) * root
    mean = K @ alpha
    log_z = -jnp.sum(jnp.log(jnp.diagonal(L))) + 0.5 * b @ mean
    left = jnp.sum(H * H, axis=0) / _nonzero(w)
    if mask is None:
        V = lower_times(H, K)
        return Conditioned(mean, _variances(K, w, left, V), log_z, jitter), Factors(H, V, alpha, None)
    determined = _well_determined(w, left, mask)
    V = lax.cond(determined, lambda: H, lambda: lower_times(H, K))
    quick = jnp.minimum(jnp.where(w > 0, (1 - left) / _nonzero(w), jnp.inf), jnp.diagonal(K))
    var = jnp.where(determined, quick, _variances(K, w, left, V))
    return Conditioned(mean, var, log_z, jitter), Factors(H, V, alpha, determined)


def covariance(K: jax.Array, w: jax.Array, factors: Factors) -> jax.Array:
    """Σ."""

    def from_precision() -> jax.Array:
        weight = _nonzero(w)
        return jnp.diag(1 / weight) - lower_gram(factors.H) / jnp.outer(weight, weight)

    def from_prior() -> jax.Array:
        return K - gram(factors.V)

    return from_prior() if factors.determined is None else lax.cond(factors.determined, from_precision, from_prior)


def mean_on_sites(K: jax.Array, b: jax.Array, w: jax.Array) -> Conditioned:
    """As `condition_on_sites`, at a third of the cost or less; not for differentiation.

    `var` holds min(K_ii, 1/w_i), which is an upper bound of the variance.
    """
    root = safe_root(w)
    column, rest = _split_nat1(K, b, w, root)

    def attempt(jitter: jax.Array) -> tuple[jax.Array, jax.Array]:
        B = _B(K, root)
        L = cholesky(B + jnp.diag(jitter * jnp.diagonal(B)))
        alpha = _weights(L, root, solve_triangular(L, column, lower=True), rest)
        return jnp.sum(jnp.log(jnp.diagonal(L))), alpha

    (half_log_det, alpha), jitter = with_least_jitter(attempt, K.dtype)
    mean = K @ alpha
    log_z = 0.5 * b @ mean - half_log_det
    prior = jnp.diagonal(K)
    return Conditioned(mean, prior / jnp.maximum(1.0, w * prior), log_z, jitter)


_Residuals = tuple[jax.Array, jax.Array, Conditioned, Factors]


@jax.custom_vjp
def gaussian_sites(K: jax.Array, b: jax.Array, w: jax.Array) -> Conditioned:
    """Posterior mean, variances and log partition function of N(0, K) times Gaussian sites."""
    return condition_on_sites(K, b, w)[0]


def _forward(K: jax.Array, b: jax.Array, w: jax.Array) -> tuple[Conditioned, _Residuals]:
    out, factors = condition_on_sites(K, b, w)
    return out, (K, w, out, factors)


# The pullback leaves out a derivative in the variances that is below this, in units of the variances and of the
# derivative in log_z: it is then only the remaining error of an equation that was solved to 1e-8.
NO_SLOPE = 1e-8


def pull_prior(
    K: jax.Array, w: jax.Array, out: Conditioned, factors: Factors, bar: Conditioned
) -> tuple[jax.Array, jax.Array]:
    """The cotangents of K and b, given the cotangent `bar` of `out`."""
    H, V, alpha, determined = factors
    R = lower_gram(H)
    pulled = bar.mean - H.T @ (H @ (K @ bar.mean))
    outer = 0.5 * jnp.outer(pulled + 0.5 * bar.log_z * alpha, alpha)
    K_bar = outer + outer.T - 0.5 * bar.log_z * R

    def with_variances(K_bar: jax.Array) -> jax.Array:
        def from_prior() -> jax.Array:
            return jnp.eye(K.shape[0], dtype=K.dtype) - H.T @ V

        Gt = from_prior() if determined is None else lax.cond(determined, lambda: R / _nonzero(w), from_prior)
        return K_bar + symmetric_product(Gt.T, bar.var[:, None] * Gt.T)

    steep = jnp.max(jnp.abs(bar.var) * out.var) > NO_SLOPE * jnp.abs(bar.log_z)
    K_bar = lax.cond(steep, with_variances, lambda K_bar: K_bar, K_bar)
    b_bar = K @ pulled + bar.log_z * out.mean
    return K_bar, b_bar


def _backward(residuals: _Residuals, bar: Conditioned) -> tuple[jax.Array, jax.Array, jax.Array]:
    K, w, out, factors = residuals
    K_bar, b_bar = pull_prior(K, w, out, factors, bar)
    cov = covariance(K, w, factors)
    w_bar = -out.mean * (cov @ bar.mean) - (cov * cov) @ bar.var - 0.5 * bar.log_z * (out.var + out.mean**2)
    return K_bar, b_bar, w_bar


gaussian_sites.defvjp(_forward, _backward)
