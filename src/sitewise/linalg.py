"""L0. The only file that factorises matrices.

`gaussian_sites` conditions a zero-mean Gaussian N(0, K) on Gaussian sites exp(b_i g_i − ½ w_i g_i²), w ≥ 0:

    B = I + W½ K W½ = L Lᵀ,   V = L⁻¹ W½ K,   Σ = K − VᵀV = (K⁻¹ + W)⁻¹
    mean = Σ b,   var = diag Σ,   log_z = log ∫ N(g; 0, K) exp(bᵀg − ½ gᵀWg) dg = −½ log|B| + ½ bᵀ mean

(R&W eqs. 3.26–3.27 and 3.32.)  The eigenvalues of B are at least one, so no jitter is needed however
singular K is, and a row with w = 0 drops out exactly: that is what makes padding free.  The pullback is
analytic and reuses L; with R = W½ B⁻¹ W½, G = I − K R, α = b − W mean:

    dlog_z = −½ tr(R dK) + ½ αᵀ dK α − ½ Σ (var_i + mean_i²) dw_i + meanᵀ db
    dmean  = G dK α + Σ (db − mean ∘ dw),    dvar_i = (G dK Gᵀ)_ii − Σ_j Σ_ij² dw_j

Rounding can still make B indefinite, where sites are precise and K is huge: eps·w·K > 1.  Every factorisation
therefore goes through one ladder of jitters, `jittered_cholesky`, and the rung that was needed is part of the result
(`Marginals.jitter`, `Stats.jitter`).  Beyond the last rung there is NaN, which the callers turn into an `Outcome`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular


class Conditioned(NamedTuple):
    mean: jax.Array
    var: jax.Array
    log_z: jax.Array
    jitter: jax.Array  # the rung of the ladder that was needed, 0 as a rule


def cholesky(a: jax.Array) -> jax.Array:
    """Lower Cholesky factor; NaN where `a` is not positive definite."""
    return lax.linalg.cholesky(a, symmetrize_input=False)


_RUNGS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)  # jitters, as shares of the diagonal


def _climb(attempt: Callable[[jax.Array], tuple], dtype, first: int = 0) -> tuple[tuple, jax.Array]:
    """attempt(jitter) with the smallest jitter of the ladder for which its first number is finite, and that jitter.

    One copy of `attempt` in the program, and only what it returns passes through the loop: a factor that is used up
    inside is neither copied nor brought into another layout.
    """
    ladder = jnp.asarray(_RUNGS, dtype)
    nothing = jax.tree.map(lambda a: jnp.full(a.shape, jnp.nan, a.dtype), jax.eval_shape(attempt, ladder[0]))

    def failed(state):
        rung, (found, *_) = state
        return (rung == first) | ((rung < len(_RUNGS)) & ~jnp.isfinite(found))

    def again(state):
        return state[0] + 1, attempt(ladder[state[0]])

    rung, result = lax.while_loop(failed, again, (jnp.full((), first, jnp.int32), nothing))
    return result, ladder[rung - 1]


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def jittered_cholesky(a: jax.Array, first: int = 0) -> tuple[jax.Array, jax.Array]:
    """Cholesky factor of `a` plus the smallest jitter of a ladder that makes it factorise, and that jitter.

    Jitters are shares of the diagonal, entry by entry: a row of large numbers does not drown the others.  The first
    rung is 0, or, from first=1 on, 1e-12, about the rounding of the factorisation itself; NaN if the last (1e-4) does
    not suffice.
    """

    def attempt(jitter):
        factor = cholesky(a + jnp.diag(jitter * jnp.diagonal(a)))
        # What does not factorise is NaN from end to end, and a NaN in `a` reaches the last entry of the diagonal.
        return factor[-1, -1], factor

    (_, factor), jitter = _climb(attempt, a.dtype, first)
    return factor, jitter


@jittered_cholesky.defjvp
def _jittered_cholesky_jvp(first, primals, tangents):
    """dL = L Φ(L⁻¹ dA L⁻ᵀ), where Φ keeps the lower triangle and halves the diagonal; the jitter is held."""
    L, jitter = jittered_cholesky(primals[0], first)
    half = solve_triangular(L, tangents[0], lower=True)
    inner = solve_triangular(L, half.T, lower=True).T
    kept = jnp.tril(inner) - 0.5 * jnp.diag(jnp.diagonal(inner))
    return (L, jitter), (L @ kept, jnp.zeros_like(jitter))


def safe_root(w: jax.Array) -> jax.Array:
    """√w with a finite derivative at w = 0 (padded rows)."""
    return jnp.where(w > 0, jnp.sqrt(jnp.where(w > 0, w, 1.0)), 0.0)


def site_factor(K: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(L, √w, jitter) with L Lᵀ = I + W½ K W½."""
    root = safe_root(w)
    L, jitter = jittered_cholesky(_B(K, root))
    return L, root, jitter


def _B(K: jax.Array, root: jax.Array) -> jax.Array:
    return root[:, None] * K * root[None, :] + jnp.eye(K.shape[0], dtype=K.dtype)


def _variances(K: jax.Array, w: jax.Array, left: jax.Array, V: jax.Array) -> jax.Array:
    """diag(K − VᵀV); and of W^{−½} (I − B⁻¹) W^{−½}, which is the same, where a site leaves little of the prior.

    K − VᵀV has an error of eps·K; next to a posterior variance of 1e-9·K, dividing the site out (cavities, EP,
    leave-one-out) would leave nothing but that.  In 1 − w_i var_i = (B⁻¹)_ii = `left` nothing cancels.
    """
    prior = jnp.diagonal(K)
    # Rounding can push a variance that is tiny next to the prior's below zero.
    var = jnp.maximum(prior - jnp.sum(V * V, axis=0), jnp.finfo(K.dtype).eps * prior)
    return jnp.minimum(jnp.where((w > 0) & (left < 0.5), (1 - left) / _seen(w), var), prior)


def _seen(w: jax.Array) -> jax.Array:
    """w, and 1 where it is 0: to divide by."""
    return jnp.where(w > 0, w, 1.0)


def site_weights(K: jax.Array, b: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(L, √w, α) with α = K⁻¹ mean = b − w·mean, written as √w B⁻¹ (b/√w) where w > 0.

    The difference loses the digits in which K·w exceeds one, and predictions far from the data are K·α.
    """
    L, root, _ = site_factor(K, w)
    column, rest = _split_nat1(K, b, w, root)
    return L, root, _weights(L, root, solve_triangular(L, column, lower=True), rest)


def _weights(L, root, column, rest):
    return root * solve_triangular(L, column, lower=True, trans=1) + rest


def _split_nat1(K, b, w, root):
    """W^{−½}(b − W K rest) and the part `rest` of b that has no precision with it."""
    seen = w > 0
    rest = jnp.where(seen, 0.0, b)
    return jnp.where(seen, b / jnp.where(seen, root, 1.0), 0.0) - root * (K @ rest), rest


class Factors(NamedTuple):
    """What `condition_on_sites` was computed from: H = L⁻¹ W½, so that R = HᵀH; V = H K; α = K⁻¹ mean.

    Where no row's site is slight (`weighty`), everything follows from R alone, and V is not computed (H stands in its
    place).  R = (K + W⁻¹)⁻¹, so that with no other product of matrices

        Σ = W⁻¹ − W⁻¹ R W⁻¹,    Gᵀ = I − R K = R W⁻¹.

    These lose the digits in which w·var falls short of one, which is why V exists.
    """

    H: jax.Array
    V: jax.Array
    alpha: jax.Array
    weighty: jax.Array | None


def _is_weighty(w: jax.Array, left: jax.Array, mask: jax.Array) -> jax.Array:
    """w·var = 1 − left of every row that counts is above 64 √eps: 1e-6 in double precision, where its own error is
    1e-14 or so."""
    return jnp.all(~mask | ((w > 0) & (1 - left > 64 * jnp.sqrt(jnp.finfo(left.dtype).eps))))


def condition_on_sites(
    K: jax.Array, b: jax.Array, w: jax.Array, mask: jax.Array | None = None
) -> tuple[Conditioned, Factors]:
    """The formulas above, with the factors they were computed from.

    With a mask of the rows that count (the variances of others are not right then), the cheaper way is taken if the
    numbers allow it.
    """
    L, root, jitter = site_factor(K, w)
    # Σb = K α.  K b − VᵀV b would be the same, but where a site is a million times as precise as the prior (large
    # counts) it loses as many digits.
    column, rest = _split_nat1(K, b, w, root)
    alpha = _weights(L, root, solve_triangular(L, column, lower=True), rest)
    H = lower_inverse(L) * root
    mean = K @ alpha
    log_z = -jnp.sum(jnp.log(jnp.diagonal(L))) + 0.5 * b @ mean
    left = jnp.sum(H * H, axis=0) / _seen(w)
    if mask is None:
        V = lower_times(H, K)
        return Conditioned(mean, _variances(K, w, left, V), log_z, jitter), Factors(H, V, alpha, None)
    weighty = _is_weighty(w, left, mask)
    V = lax.cond(weighty, lambda: H, lambda: lower_times(H, K))
    quick = jnp.minimum(jnp.where(w > 0, (1 - left) / _seen(w), jnp.inf), jnp.diagonal(K))
    var = jnp.where(weighty, quick, _variances(K, w, left, V))
    return Conditioned(mean, var, log_z, jitter), Factors(H, V, alpha, weighty)


def covariance(K: jax.Array, w: jax.Array, factors: Factors, R: jax.Array | None = None) -> jax.Array:
    """Σ.  Give R = `lower_gram`(H) where it is needed for other things too."""

    def from_precision():
        return jnp.diag(1 / _seen(w)) - (lower_gram(factors.H) if R is None else R) / jnp.outer(_seen(w), _seen(w))

    def from_prior():
        return K - gram(factors.V)

    return from_prior() if factors.weighty is None else lax.cond(factors.weighty, from_precision, from_prior)


def mean_on_sites(K: jax.Array, b: jax.Array, w: jax.Array) -> Conditioned:
    """`condition_on_sites` at a third of the cost or less, with min(K_ii, 1/w_i), which is never less, in the place of
    the variances; not for differentiation."""
    root = safe_root(w)
    column, rest = _split_nat1(K, b, w, root)

    def attempt(jitter):
        B = _B(K, root)
        L = cholesky(B + jnp.diag(jitter * jnp.diagonal(B)))
        alpha = _weights(L, root, solve_triangular(L, column, lower=True), rest)
        return jnp.sum(jnp.log(jnp.diagonal(L))), alpha

    (half_log_det, alpha), jitter = _climb(attempt, K.dtype)
    mean = K @ alpha
    log_z = 0.5 * b @ mean - half_log_det
    prior = jnp.diagonal(K)
    return Conditioned(mean, prior / jnp.maximum(1.0, w * prior), log_z, jitter)


@jax.custom_vjp
def gaussian_sites(K: jax.Array, b: jax.Array, w: jax.Array) -> Conditioned:
    """Posterior mean, variances and log partition function of N(0, K) times Gaussian sites."""
    return condition_on_sites(K, b, w)[0]


def _forward(K, b, w):
    out, factors = condition_on_sites(K, b, w)
    return out, (K, w, out, factors)


# A derivative in the variances, in units of the variances and of the derivative in log_z, below which it is left out of
# the pullback: there it is what remains of an equation that was solved to 1e-8.
NO_SLOPE = 1e-8


def pull_prior(
    K: jax.Array, w: jax.Array, out: Conditioned, factors: Factors, bar: Conditioned
) -> tuple[jax.Array, jax.Array]:
    """The cotangents of K and b for the cotangent `bar` of what came out."""
    H, V, alpha, weighty = factors
    R = lower_gram(H)
    pulled = bar.mean - H.T @ (H @ (K @ bar.mean))
    outer = 0.5 * jnp.outer(pulled + 0.5 * bar.log_z * alpha, alpha)
    K_bar = outer + outer.T - 0.5 * bar.log_z * R

    def with_variances(K_bar):
        def from_prior():
            return jnp.eye(K.shape[0], dtype=K.dtype) - H.T @ V

        Gt = from_prior() if weighty is None else lax.cond(weighty, lambda: R / _seen(w), from_prior)
        return K_bar + symmetric_product(Gt.T, bar.var[:, None] * Gt.T)

    steep = jnp.max(jnp.abs(bar.var) * out.var) > NO_SLOPE * jnp.abs(bar.log_z)
    K_bar = lax.cond(steep, with_variances, lambda K_bar: K_bar, K_bar)
    b_bar = K @ pulled + bar.log_z * out.mean
    return K_bar, b_bar


def _backward(residuals, bar):
    K, w, out, factors = residuals
    K_bar, b_bar = pull_prior(K, w, out, factors, bar)
    cov = covariance(K, w, factors)
    w_bar = -out.mean * (cov @ bar.mean) - (cov * cov) @ bar.var - 0.5 * bar.log_z * (out.var + out.mean**2)
    return K_bar, b_bar, w_bar


gaussian_sites.defvjp(_forward, _backward)


def lower_inverse(L: jax.Array, leaf: int = 0) -> jax.Array:
    """L⁻¹ by halves, [[A, 0], [C, D]]⁻¹ = [[A⁻¹, 0], [−D⁻¹CA⁻¹, D⁻¹]].

    Nearly all of it is matrix products, which run at about twice the rate of triangular solves.
    """
    n = L.shape[0]
    leaf = leaf or max(48, -(-n // 8))
    if n <= leaf:
        return solve_triangular(L, jnp.eye(n, dtype=L.dtype), lower=True)
    half = -(-n // 32) * 16
    A, D = lower_inverse(L[:half, :half], leaf), lower_inverse(L[half:, half:], leaf)
    below = -(D @ (L[half:, :half] @ A))
    return jnp.block([[A, jnp.zeros((half, n - half), L.dtype)], [below, D]])


def lower_times(H: jax.Array, A: jax.Array) -> jax.Array:
    """H A for a lower triangular H: the zeros above the diagonal are a quarter of the work."""
    h = _half(H.shape[0])
    return H @ A if h == H.shape[0] else jnp.concatenate([H[:h, :h] @ A[:h], H[h:] @ A])


def lower_gram(H: jax.Array) -> jax.Array:
    """HᵀH for a lower triangular H, by the blocks [[A, 0], [C, D]]: half the work."""
    h = _half(H.shape[0])
    if h == H.shape[0]:
        return H.T @ H
    A, C, D = H[:h, :h], H[h:, :h], H[h:, h:]
    side = C.T @ D
    return jnp.block([[A.T @ A + C.T @ C, side], [side.T, D.T @ D]])


def small_cholesky(a: jax.Array) -> jax.Array:
    """Lower factors of many small matrices, on the last two axes; all at once, column by column."""

    def eliminate(a, j):
        column = jnp.where(jnp.arange(a.shape[-1]) >= j, a[..., :, j], 0.0) / jnp.sqrt(a[..., j, j])[..., None]
        return a - column[..., :, None] * column[..., None, :], column

    return jnp.moveaxis(lax.scan(eliminate, a, jnp.arange(a.shape[-1]))[1], 0, -1)


def small_lower_solve(L: jax.Array, x: jax.Array) -> jax.Array:
    """L⁻¹x for many small lower triangular L; x has a matrix for each."""

    def substitute(x, j):
        row = x[..., j, :] / L[..., j, j][..., None]
        return x - L[..., :, j][..., None] * row[..., None, :], row

    return jnp.moveaxis(lax.scan(substitute, x, jnp.arange(L.shape[-1]))[1], 0, -2)


def whitener(K: jax.Array) -> tuple[jax.Array, jax.Array]:
    """T = L⁻ᵀ with L Lᵀ = K, so that Tᵀ K T = I; and the jitter that was needed."""
    L, jitter = jittered_cholesky(K)
    return lower_inverse(L).T, jitter


_HALVES = 128  # columns from which on two products are faster than one


def _half(columns: int) -> int:
    return -(-columns // 32) * 16 if columns >= _HALVES else columns


def times_upper(A: jax.Array, U: jax.Array) -> jax.Array:
    """A U for an upper triangular U: the zeros below the diagonal are a quarter of the work."""
    h = _half(U.shape[0])
    return jnp.concatenate([A[:, :h] @ U[:h, :h], A @ U[:, h:]], axis=1)


def weighted_gram(A: jax.Array, w: jax.Array) -> jax.Array:
    """Aᵀ diag(w) A."""
    return symmetric_product(A, w[:, None] * A)


def gram(A: jax.Array) -> jax.Array:
    """AᵀA."""
    return symmetric_product(A, A)


def symmetric_product(A: jax.Array, B: jax.Array) -> jax.Array:
    """AᵀB, which is known to be symmetric: three quarters of it say it all."""
    h = _half(A.shape[1])
    top, corner = A[:, :h].T @ B, A[:, h:].T @ B[:, h:]
    return jnp.block([[top[:, :h], top[:, h:]], [top[:, h:].T, corner]])


def inverse_root(A: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(L⁻¹, ½ log|A|, jitter) with L Lᵀ = A: products with L⁻¹ run as matrix products, which solves do not."""
    L, jitter = jittered_cholesky(A)
    return lower_inverse(L), jnp.sum(jnp.log(jnp.diagonal(L))), jitter


def semidefinite_root(a: jax.Array) -> jax.Array:
    """A matrix R with R Rᵀ = a for a positive semi-definite `a`, rounding below zero removed."""
    values, vectors = jnp.linalg.eigh(a)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))


class Whitened(NamedTuple):
    """N(0, A Aᵀ) times Gaussian sites in the coordinates z of g = A z: z ~ N(z_mean, M⁻¹), M = L Lᵀ."""

    z_mean: jax.Array
    L: jax.Array
    log_z: jax.Array


def whitened_sites(A: jax.Array, b: jax.Array, w: jax.Array) -> Whitened:
    """M = I + AᵀWA,  z_mean = M⁻¹Aᵀb,  log_z = −½ log|M| + ½ bᵀA z_mean.

    A is lower triangular.  As well conditioned as `gaussian_sites`, and A is never inverted:
    g = A(z_mean + L⁻ᵀu), u ~ N(0, I).
    """
    G = safe_root(w)[:, None] * A
    L, _ = jittered_cholesky(lower_gram(G) + jnp.eye(A.shape[0], dtype=A.dtype))
    pulled = solve_triangular(L, A.T @ b, lower=True)
    log_z = -jnp.sum(jnp.log(jnp.diagonal(L))) + 0.5 * pulled @ pulled
    return Whitened(solve_triangular(L, pulled, lower=True, trans=1), L, log_z)


def lower_solve(L: jax.Array, x: jax.Array) -> jax.Array:
    """L⁻¹x for a lower triangular L."""
    return solve_triangular(L, x, lower=True)


def lower_transposed_solve(L: jax.Array, x: jax.Array) -> jax.Array:
    """L⁻ᵀx for a lower triangular L."""
    return solve_triangular(L, x, lower=True, trans=1)


class Split(NamedTuple):
    """N(0, Q⁻¹) as the sum of a part a and independent noise of standard deviations sd: g = a + sd∘ε.

    Given g, a ~ N(pull g, root rootᵀ).
    """

    pull: jax.Array
    root: jax.Array
    sd: jax.Array


def independent_part(A: jax.Array, w: jax.Array) -> Split:
    """The split with as much independent noise as Q = (AAᵀ)⁻¹ + W allows, in proportion to 1/diag Q.

    With D = c/diag Q and S = D½ Q D½, Q⁻¹ − D is positive definite iff S < I, which sets c; then
    a | g has mean (I − DQ)g and covariance D − DQD = D½(I − S)D½.
    """
    eye = jnp.eye(A.shape[0], dtype=A.dtype)
    Q = lower_gram(lower_inverse(A)) + jnp.diag(w)
    scale = 1 / jnp.sqrt(jnp.diagonal(Q))
    S = scale[:, None] * Q * scale[None, :]
    x = lax.fori_loop(0, 40, lambda _, x: (lambda y: y / jnp.linalg.norm(y))(S @ x), jnp.ones(A.shape[0], A.dtype))
    share = 0.95 / (x @ S @ x / (x @ x))  # power iteration is a lower bound of the largest eigenvalue

    def too_large(state):
        share, root = state
        return (share > 1e-12) & ~jnp.all(jnp.isfinite(root))

    def reduce(state):
        share = 0.7 * state[0]
        return share, cholesky(eye - share * S)

    share, root = lax.while_loop(too_large, reduce, (share, cholesky(eye - share * S)))
    sd = jnp.sqrt(share) * scale
    return Split(eye - sd[:, None] ** 2 * Q, sd[:, None] * root, sd)
