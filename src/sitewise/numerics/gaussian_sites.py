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

Arrays are NumPy's or JAX's (`runtime.engine`).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax

from sitewise.numerics.cholesky import cholesky, jittered_cholesky, safe_root, with_least_jitter
from sitewise.numerics.triangular import (
    gram,
    lower_gram,
    lower_inverse,
    lower_solve,
    lower_times,
    lower_transposed_solve,
    plus_diagonal,
    scaled_by,
    symmetric_product,
)
from sitewise.runtime.engine import Array, cond, is_host, namespace
from sitewise.types import fixed, module


class Conditioned(NamedTuple):
    mean: Array
    var: Array
    log_z: Array
    jitter: Array  # what `cholesky.jittered_cholesky` needed, usually 0


def site_factor(K: Array, w: Array) -> tuple[Array, Array, Array]:
    """(L, √w, jitter) with L Lᵀ = I + W½ K W½."""
    root = safe_root(w)
    L, jitter = jittered_cholesky(_B(K, root))
    return L, root, jitter


def _B(K: Array, root: Array) -> Array:
    return plus_diagonal(scaled_by(K, root), 1.0)


def _variances(K: Array, w: Array, left: Array, V: Array) -> Array:
    """diag(K − VᵀV), or where a site leaves little of the prior variance diag W^{−½} (I − B⁻¹) W^{−½}, which is equal.

    K − VᵀV has an error of eps·K.  Where the posterior variance is 1e-9·K, dividing the site out (cavities, EP,
    leave-one-out) would leave nothing but that error.  In 1 − w_i var_i = (B⁻¹)_ii = `left` nothing cancels.
    """
    xp = namespace(K, w)
    prior = xp.diagonal(K)
    # Rounding can make a variance negative that is tiny compared with that of the prior.
    var = xp.maximum(prior - xp.sum(V * V, axis=0), xp.finfo(K.dtype).eps * prior)
    return xp.minimum(xp.where((w > 0) & (left < 0.5), (1 - left) / _nonzero(w), var), prior)


def _nonzero(w: Array) -> Array:
    """w, and 1 where w is 0, for use as a divisor."""
    return namespace(w).where(w > 0, w, 1.0)


def site_weights(K: Array, b: Array, w: Array) -> tuple[Array, Array, Array]:
    """(L, √w, α) with α = K⁻¹ mean = b − w·mean, written as √w B⁻¹ (b/√w) where w > 0.

    The difference loses log₁₀(K·w) digits, and predictions far from the data are K·α.
    """
    L, root, _ = site_factor(K, w)
    column, rest = _split_nat1(K, b, w, root)
    return L, root, _weights(L, root, lower_solve(L, column), rest)


def _weights(L: Array, root: Array, column: Array, rest: Array) -> Array:
    return root * lower_transposed_solve(L, column) + rest


def _split_nat1(K: Array, b: Array, w: Array, root: Array) -> tuple[Array, Array]:
    """W^{−½}(b − W K rest), and `rest`, which is b at the rows whose precision is 0."""
    xp = namespace(K, b, w)
    seen = w > 0
    rest = xp.where(seen, 0.0, b)
    return xp.where(seen, b / xp.where(seen, root, 1.0), 0.0) - root * (K @ rest), rest


@module
class Factors:
    """The matrices that `condition_on_sites` computes: H = L⁻¹ W½, so that R = HᵀH; V = H K; α = K⁻¹ mean.

    Where the site of every row determines it well (`determined`, see `_well_determined`), everything follows from R
    alone, and V is not computed (the field holds H).  R = (K + W⁻¹)⁻¹, so that with no other matrix product

        Σ = W⁻¹ − W⁻¹ R W⁻¹,    Gᵀ = I − R K = R W⁻¹.

    These lose −log₁₀(w·var) digits, which is why V exists.
    """

    H: Array = fixed()
    V: Array = fixed()
    alpha: Array = fixed()
    determined: Array | None = fixed()

    def R(self) -> Array:
        # A program may ask for it inside a branch, whose results do not exist outside; XLA finds equal expressions.
        return self._computed_R if is_host(self.H) else lower_gram(self.H)

    @functools.cached_property
    def _computed_R(self) -> Array:
        return lower_gram(self.H)


def _well_determined(w: Array, left: Array, mask: Array) -> Array:
    """Whether w·var = 1 − left is above 64 √eps for every row that counts.

    That is 1e-6 in double precision, where the error of w·var is about 1e-14.
    """
    xp = namespace(w, left, mask)
    return xp.all(~mask | ((w > 0) & (1 - left > 64 * xp.sqrt(xp.finfo(left.dtype).eps))))


def condition_on_sites(K: Array, b: Array, w: Array, mask: Array | None = None) -> tuple[Conditioned, Factors]:
    """The formulas at the top of this file, and the factors that they use.

    With a mask of the rows that count, the cheaper formulas of `Factors` are used if the numbers allow it; the
    variances of the other rows are then wrong.
    """
    xp = namespace(K, b, w)
    L, root, jitter = site_factor(K, w)
    # Σb = K α.  K b − VᵀV b is equal to it, but where a site is a million times as precise as the prior (large counts)
    # it loses six digits.
    column, rest = _split_nat1(K, b, w, root)
    alpha = _weights(L, root, lower_solve(L, column), rest)
    H = lower_inverse(L) * root
    mean = K @ alpha
    log_z = -xp.sum(xp.log(xp.diagonal(L))) + 0.5 * b @ mean
    left = xp.sum(H * H, axis=0) / _nonzero(w)
    if mask is None:
        V = lower_times(H, K)
        return Conditioned(mean, _variances(K, w, left, V), log_z, jitter), Factors(H, V, alpha, None)
    determined = _well_determined(w, left, mask)

    def from_sites() -> tuple[Array, Array]:
        return H, xp.minimum(xp.where(w > 0, (1 - left) / _nonzero(w), xp.inf), xp.diagonal(K))

    def from_prior() -> tuple[Array, Array]:
        V = lower_times(H, K)
        return V, _variances(K, w, left, V)

    V, var = cond(determined, from_sites, from_prior)
    return Conditioned(mean, var, log_z, jitter), Factors(H, V, alpha, determined)


def covariance(K: Array, w: Array, factors: Factors) -> Array:
    """Σ."""

    def from_precision() -> Array:
        inverse = 1 / _nonzero(w)
        return plus_diagonal(-scaled_by(factors.R(), inverse), inverse)

    def from_prior() -> Array:
        return K - gram(factors.V)

    return from_prior() if factors.determined is None else cond(factors.determined, from_precision, from_prior)


def mean_on_sites(K: Array, b: Array, w: Array) -> tuple[Conditioned, Array]:
    """As `condition_on_sites`, at a third of the cost or less, and α; not for differentiation.

    `var` holds min(K_ii, 1/w_i), which is an upper bound of the variance.
    """
    xp = namespace(K, b, w)
    root = safe_root(w)
    column, rest = _split_nat1(K, b, w, root)

    def attempt(jitter: Array) -> tuple[Array, Array]:
        B = _B(K, root)
        L = cholesky(plus_diagonal(B, jitter * xp.diagonal(B)))
        alpha = _weights(L, root, lower_solve(L, column), rest)
        return xp.sum(xp.log(xp.diagonal(L))), alpha

    (half_log_det, alpha), jitter = with_least_jitter(attempt, K)
    mean = K @ alpha
    log_z = 0.5 * b @ mean - half_log_det
    prior = xp.diagonal(K)
    return Conditioned(mean, prior / xp.maximum(1.0, w * prior), log_z, jitter), alpha


_Residuals = tuple[Array, Array, Conditioned, Factors]


def gaussian_sites(K: Array, b: Array, w: Array) -> Conditioned:
    """Posterior mean, variances and log partition function of N(0, K) times Gaussian sites."""
    return condition_on_sites(K, b, w)[0] if is_host(K, b, w) else _differentiable(K, b, w)


@jax.custom_vjp
def _differentiable(K: Array, b: Array, w: Array) -> Conditioned:
    return condition_on_sites(K, b, w)[0]


def _forward(K: Array, b: Array, w: Array) -> tuple[Conditioned, _Residuals]:
    out, factors = condition_on_sites(K, b, w)
    return out, (K, w, out, factors)


# The pullback leaves out a derivative in the variances that is below this, in units of the variances and of the
# derivative in log_z: it is then only the remaining error of an equation that was solved to 1e-8.
NO_SLOPE = 1e-8


def pull_prior(K: Array, w: Array, out: Conditioned, factors: Factors, bar: Conditioned) -> tuple[Array, Array]:
    """The cotangents of K and b, given the cotangent `bar` of `out`."""
    xp = namespace(K, w, bar.mean)
    H, V, alpha, determined = factors.H, factors.V, factors.alpha, factors.determined
    R = factors.R()
    pulled = bar.mean - H.T @ (H @ (K @ bar.mean))
    outer = 0.5 * xp.outer(pulled + 0.5 * bar.log_z * alpha, alpha)
    K_bar = outer + outer.T - 0.5 * bar.log_z * R

    def with_variances(K_bar: Array) -> Array:
        def from_prior() -> Array:
            return plus_diagonal(-(H.T @ V), 1.0)

        Gt = from_prior() if determined is None else cond(determined, lambda: R / _nonzero(w), from_prior)
        return K_bar + symmetric_product(Gt.T, bar.var[:, None] * Gt.T)

    steep = xp.max(xp.abs(bar.var) * out.var) > NO_SLOPE * xp.abs(bar.log_z)
    K_bar = cond(steep, with_variances, lambda K_bar: K_bar, K_bar)
    b_bar = K @ pulled + bar.log_z * out.mean
    return K_bar, b_bar


def _backward(residuals: _Residuals, bar: Conditioned) -> tuple[Array, Array, Array]:
    K, w, out, factors = residuals
    K_bar, b_bar = pull_prior(K, w, out, factors, bar)
    cov = covariance(K, w, factors)
    w_bar = -out.mean * (cov @ bar.mean) - (cov * cov) @ bar.var - 0.5 * bar.log_z * (out.var + out.mean**2)
    return K_bar, b_bar, w_bar


_differentiable.defvjp(_forward, _backward)
