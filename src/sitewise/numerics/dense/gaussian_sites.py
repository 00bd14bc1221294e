"""Conditioning of a Gaussian N(0, K) on Gaussian sites, and its derivatives (pullback).

`gaussian_sites` conditions a zero-mean Gaussian N(0, K) on Gaussian sites exp(b_i g_i − ½ w_i g_i²).  With w ≥ 0

    B = I + W½ K W½ = L Lᵀ,   V = L⁻¹ W½ K,   Σ = K − VᵀV = (K⁻¹ + W)⁻¹
    mean = Σ b,   var = diag Σ,   log_z = log ∫ N(g; 0, K) exp(bᵀg − ½ gᵀWg) dg = −½ log|B| + ½ bᵀ mean

(R&W eqs. 3.26–3.27 and 3.32.)  The eigenvalues of B are at least one, so no jitter is needed however
singular K is.  A row with w = 0 has exactly no effect, so padding changes no result.  The pullback is
analytic and reuses L; with R = W½ B⁻¹ W½, G = I − K R, α = b − W mean:

    dlog_z = −½ tr(R dK) + ½ αᵀ dK α − ½ Σ (var_i + mean_i²) dw_i + meanᵀ db
    dmean  = G dK α + Σ (db − mean ∘ dw),    dvar_i = (G dK Gᵀ)_ii − Σ_j Σ_ij² dw_j

Rounding can still make B indefinite, where sites are precise and K is huge: eps·w·K > 1.  Every factorisation
therefore uses `jittered_cholesky`, and the jitter that was needed is part of the result (`Marginals.jitter`,
`Stats.jitter`).  Where no jitter suffices the result is NaN, which the callers turn into an `Outcome`.

Where precisions are negative the same formulas hold with signs (`signed_sites`), and the result is NaN unless
K⁻¹ + W is positive definite.  Where the values of w are known they decide which algebra is used.  A traced program is
compiled for w ≥ 0 and returns NaN for negative precisions, unless the caller announces them by `signed`.

Arrays are NumPy or JAX arrays (`arrays.engine`).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sitewise.arrays.engine import Array, cond, is_host, namespace
from sitewise.numerics.dense.cholesky import cholesky, jittered_cholesky, safe_root, with_least_jitter
from sitewise.numerics.dense.signed_sites import may_be_negative, signed_factor, signed_weights
from sitewise.numerics.dense.triangular import (
    column_squares,
    columns_times,
    gram,
    lower_gram,
    lower_inverse,
    lower_solve,
    lower_times,
    lower_transposed_solve,
    plus,
    plus_diagonal,
    scaled_by,
    symmetric_product,
)
from sitewise.types import fixed, module


class Conditioned(NamedTuple):
    """Posterior means and variances, and the log partition function, of N(0, K) times sites."""

    mean: Array
    var: Array
    log_z: Array
    jitter: Array  # the jitter that the factorisation needed (`cholesky.jittered_cholesky`), usually 0


def site_factor(K: Array, w: Array) -> tuple[Array, Array, Array]:
    """Return (L, √w, jitter) with L Lᵀ = I + W½ K W½."""
    root = _root(w)
    L, jitter = jittered_cholesky(_B(K, root))
    return L, root, jitter


def _root(w: Array) -> Array:
    """Return √w; NaN where a precision is negative, a case that `may_be_negative` excludes on the host."""
    return safe_root(w) if is_host(w) else jnp.where(w < 0, jnp.nan, safe_root(w))


def _B(K: Array, root: Array) -> Array:
    return plus_diagonal(scaled_by(K, root), 1.0)


def _variances(K: Array, w: Array, left: Array, reduction: Array) -> Array:
    """Return the posterior variances: diag(K − VᵀV) = diag K − reduction.

    Where the posterior variance is a small share of the prior variance, the equal diagonal of W^{−½} (I − B⁻¹) W^{−½}
    is used instead.  K − VᵀV has an error of eps·K.  Where the posterior variance is 1e-9·K, dividing the site out
    (cavities, EP, leave-one-out) would leave only that error.  1 − w_i var_i = (B⁻¹)_ii = `left` does not cancel.
    """
    xp = namespace(K, w)
    prior = xp.diagonal(K)
    # Rounding can make a variance negative if it is tiny compared with the prior variance.
    var = xp.maximum(prior - reduction, xp.finfo(K.dtype).eps * prior)
    return xp.where((w > 0) & (left < 0.5), (1 - left) / _nonzero(w), var)


def _nonzero(w: Array) -> Array:
    """Return w, with 1 where w is not positive, for use as a divisor."""
    return namespace(w).where(w > 0, w, 1.0)


def inverse_precisions(w: Array) -> Array:
    """Return 1/w, and 1 where w is not positive."""
    return 1 / _nonzero(w)


class Weights(NamedTuple):
    """The arrays that predictions need: H = L⁻¹ W½ with the factor L of B, and α = K⁻¹ mean.

    Where precisions may be negative, each row of H has a sign (`signed_sites`).
    """

    H: Array
    alpha: Array
    sign: Array | None = None


def site_weights(K: Array, b: Array, w: Array) -> Weights:
    """Compute the factor and the weights α that predictions need.

    Where w > 0, α = b − w·mean is computed as √w B⁻¹ (b/√w): the difference loses log₁₀(K·w) digits, and predictions
    far from the data are K·α.  The weights are computed once, not in a loop, so a traced program can afford the algebra
    for precisions of any sign.
    """
    if may_be_negative(w, True):
        found = signed_factor(K, w)
        back = namespace(K, w).argsort(found.order)
        H = lower_inverse(found.L) * found.root
        return Weights(H[:, back], signed_weights(found, K, b, w)[back], found.sign)
    L, root, _ = site_factor(K, w)
    column, rest = _split_nat1(K, b, w, root)
    return Weights(lower_inverse(L) * root, _weights(L, root, lower_solve(L, column), rest))


def _weights(L: Array, root: Array, column: Array, rest: Array) -> Array:
    return root * lower_transposed_solve(L, column) + rest


def _split_nat1(K: Array, b: Array, w: Array, root: Array) -> tuple[Array, Array]:
    """Return W^{−½}(b − W K rest), and `rest`, which is b at the rows whose precision is 0 and else 0."""
    xp = namespace(K, b, w)
    seen = w > 0
    rest = xp.where(seen, 0.0, b)
    through = 0.0 if is_host(rest) and not rest.any() else K @ rest
    return xp.where(seen, b / xp.where(seen, root, 1.0), 0.0) - root * through, rest


@module
class Factors:
    """The matrices that `condition_on_sites` computes: H = L⁻¹ W½ with R = HᵀH; V = H K; α = K⁻¹ mean.

    Where every row is well determined by its site (`determined`, see `_well_determined`), everything follows from R
    alone, and V is not computed (the field holds H).  R = (K + W⁻¹)⁻¹, so no other matrix product is needed for

        Σ = W⁻¹ − W⁻¹ R W⁻¹,    Gᵀ = I − R K = R W⁻¹.

    These formulas lose −log₁₀(w·var) digits; the formulas with V do not.

    Where precisions may be negative, each row of H and V has a sign: R = HᵀSH, Σ = K − VᵀSV.
    """

    H: Array = fixed()
    V: Array = fixed()
    alpha: Array = fixed()
    determined: Array | None = fixed()
    sign: Array | None = fixed(default=None)

    def R(self) -> Array:
        # A traced program may use R inside a branch, whose results must not be cached; XLA merges equal expressions.
        return self._computed_R if is_host(self.H) else self._R()

    @functools.cached_property
    def _computed_R(self) -> Array:
        return self._R()

    def _R(self) -> Array:
        return lower_gram(self.H) if self.sign is None else symmetric_product(self.H, self.signed(self.H))

    def R_times(self, x: Array) -> Array:
        """Return R x."""
        return self.H.T @ self.signed(self.H @ x)

    def signed(self, x: Array) -> Array:
        """Return S x."""
        return x if self.sign is None else (self.sign * x.T).T


def _well_determined(w: Array, left: Array, mask: Array) -> Array:
    """Return whether w·var = 1 − left is above 64 √eps for every row of the mask.

    The threshold is 1e-6 in double precision, where the error of w·var is about 1e-14.
    """
    xp = namespace(w, left, mask)
    return xp.all(~mask | ((w > 0) & (1 - left > 64 * xp.sqrt(xp.finfo(left.dtype).eps))))


def condition_on_sites(
    K: Array, b: Array, w: Array, mask: Array | None = None, signed: bool = False
) -> tuple[Conditioned, Factors]:
    """Condition N(0, K) on sites (b, w), and return the factors for derivatives and covariances.

    With a mask of the rows in use (not padding), the cheaper formulas of `Factors` are used where they are accurate;
    the variances of rows outside the mask are then wrong.
    """
    if may_be_negative(w, signed):
        return _condition_on_signed_sites(K, b, w)
    xp = namespace(K, b, w)
    L, root, jitter = site_factor(K, w)
    # Σb = K α.  The equal K b − VᵀV b loses six digits where a site is a million times as precise as the prior (large
    # counts).
    column, rest = _split_nat1(K, b, w, root)
    alpha = _weights(L, root, lower_solve(L, column), rest)
    H = columns_times(lower_inverse(L), root)
    mean = K @ alpha
    log_z = -xp.sum(xp.log(xp.diagonal(L))) + 0.5 * b @ mean
    left = column_squares(H) / _nonzero(w)

    def from_prior() -> tuple[Array, Array]:
        V = lower_times(H, K)
        return V, xp.minimum(_variances(K, w, left, column_squares(V)), xp.diagonal(K))

    if mask is None:
        V, var = from_prior()
        return Conditioned(mean, var, log_z, jitter), Factors(H, V, alpha, None)
    determined = _well_determined(w, left, mask)

    def from_sites() -> tuple[Array, Array]:
        return H, xp.minimum(xp.where(w > 0, (1 - left) / _nonzero(w), xp.inf), xp.diagonal(K))

    V, var = cond(determined, from_sites, from_prior)
    return Conditioned(mean, var, log_z, jitter), Factors(H, V, alpha, determined)


def _condition_on_signed_sites(K: Array, b: Array, w: Array) -> tuple[Conditioned, Factors]:
    """Condition with the factor of `signed_sites`.  A variance may exceed the prior variance."""
    xp = namespace(K, b, w)
    found = signed_factor(K, w)
    L, order, root, sign, jitter = found
    back = xp.argsort(order)
    alpha = signed_weights(found, K, b, w)[back]
    mean = K @ alpha
    log_z = -xp.sum(xp.log(xp.diagonal(L))) + 0.5 * b @ mean
    H = lower_inverse(L) * root
    V = lower_times(H, xp.asarray(K)[order])
    factors = Factors(H[:, back], V, alpha, None, sign)
    left = (sign @ (H * H))[back] / _nonzero(w)
    return Conditioned(mean, _variances(K, w, left, sign @ (V * V)), log_z, jitter), factors


def covariance(K: Array, w: Array, factors: Factors) -> Array:
    """Return the posterior covariance Σ."""

    def from_precision() -> Array:
        inverse = inverse_precisions(w)
        return plus_diagonal(scaled_by(factors.R(), inverse, -inverse), inverse)

    def from_prior() -> Array:
        return K - (
            gram(factors.V) if factors.sign is None else symmetric_product(factors.V, factors.signed(factors.V))
        )

    return from_prior() if factors.determined is None else cond(factors.determined, from_precision, from_prior)


def mean_on_sites(K: Array, b: Array, w: Array, signed: bool = False) -> tuple[Conditioned, Array]:
    """Return the posterior mean and log_z without the variances, and α; not differentiable.

    With w ≥ 0 it takes at most a third of the time of `condition_on_sites`, and `var` holds min(K_ii, 1/w_i), an upper
    bound on the variance.  With negative precisions `var` holds the variance.
    """
    if may_be_negative(w, signed):
        out, factors = _condition_on_signed_sites(K, b, w)
        return out, factors.alpha
    xp = namespace(K, b, w)
    root = _root(w)
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


def gaussian_sites(K: Array, b: Array, w: Array, signed: bool = False) -> Conditioned:
    """Return posterior means, variances and the log partition function of N(0, K) times Gaussian sites."""
    if is_host(K, b, w):
        return condition_on_sites(K, b, w)[0]
    return _differentiable(K, b, w, may_be_negative(w, signed))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _differentiable(K: Array, b: Array, w: Array, signed: bool) -> Conditioned:
    return condition_on_sites(K, b, w, signed=signed)[0]


def _forward(K: Array, b: Array, w: Array, signed: bool) -> tuple[Conditioned, _Residuals]:
    out, factors = condition_on_sites(K, b, w, signed=signed)
    return out, (K, w, out, factors)


# The pullback omits the derivative in the variances if it is below this share of the derivative in log_z, in units of
# the variances: it is then only the remaining error of a fixed-point equation that was solved to 1e-8.
NO_SLOPE = 1e-8


def pull_prior(K: Array, w: Array, out: Conditioned, factors: Factors, bar: Conditioned) -> tuple[Array, Array]:
    """Return the cotangents of K and b, given the cotangent `bar` of `out`."""
    xp = namespace(K, w, bar.mean)
    H, V, alpha, determined = factors.H, factors.V, factors.alpha, factors.determined
    R = factors.R()
    pulled = bar.mean - factors.R_times(K @ bar.mean)
    left, right = 0.5 * (pulled + 0.5 * bar.log_z * alpha), alpha
    K_bar = xp.stack([left, right], axis=1) @ xp.stack([right, left])
    K_bar = plus(K_bar, -0.5 * bar.log_z * R)

    def with_variances(K_bar: Array) -> Array:
        # G diag(v) Gᵀ: of well determined rows R W⁻¹ diag(v) W⁻¹ R.
        def from_prior() -> tuple[Array, Array]:
            return plus_diagonal(-(H.T @ factors.signed(V)), 1.0).T, bar.var

        def from_sites() -> tuple[Array, Array]:
            return R, bar.var * inverse_precisions(w) ** 2

        G, v = from_prior() if determined is None else cond(determined, from_sites, from_prior)
        return plus(K_bar, symmetric_product(G, v[:, None] * G))

    variances_matter = xp.max(xp.abs(bar.var) * out.var) > NO_SLOPE * xp.abs(bar.log_z)
    K_bar = cond(variances_matter, with_variances, lambda K_bar: K_bar, K_bar)
    b_bar = K @ pulled + bar.log_z * out.mean
    return K_bar, b_bar


def _backward(_: bool, residuals: _Residuals, bar: Conditioned) -> tuple[Array, Array, Array]:
    K, w, out, factors = residuals
    K_bar, b_bar = pull_prior(K, w, out, factors, bar)
    cov = covariance(K, w, factors)
    w_bar = -out.mean * (cov @ bar.mean) - (cov * cov) @ bar.var - 0.5 * bar.log_z * (out.var + out.mean**2)
    return K_bar, b_bar, w_bar


_differentiable.defvjp(_forward, _backward)
