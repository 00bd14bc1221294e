"""The factor of N(0, K) times Gaussian sites exp(b_i g_i − ½ w_i g_i²) whose precisions w have any sign.

Where log p is not concave (Student-t, an outlier) its second-order expansion has a negative precision.  The product is
a Gaussian iff K⁻¹ + W is positive definite.  With S = sign(w), +1 where w = 0, and the rows of negative precision last,

    M = S + |W|½ K |W|½ = L S Lᵀ,    L = [L₊ 0; Y L₋]
    L₊L₊ᵀ = M₁₁ = I + W₊½ K W₊½,    Y = M₂₁ L₊⁻ᵀ,    L₋L₋ᵀ = YYᵀ − M₂₂ = I − W₋½ Σ₊ W₋½,    Σ₊ = (K⁻¹ + W₊)⁻¹

so that L has the cost of a Cholesky factor.  L₋ exists iff K⁻¹ + W = Σ₊⁻¹ − W₋ is positive definite; otherwise L is NaN
in its last rows.  |M| = |L|²·|S| gives log|I + KW| = 2 Σ log L_ii, and with H = L⁻¹ |W|½, V = H K

    R = (K + W⁻¹)⁻¹ = |W|½ M⁻¹ |W|½ = HᵀSH,    Σ = (K⁻¹ + W)⁻¹ = K − K R K = K − VᵀSV,    I − R K = I − HᵀSV

which are the formulas of `gaussian_sites` with signs.  The rows of H and V may stay in the order of L.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.numerics.dense.cholesky import cholesky, jittered_cholesky, safe_root
from sitewise.numerics.dense.triangular import gram, lower_solve, lower_transposed_solve, plus_diagonal, scaled_by


def may_be_negative(w: Array, announced: bool) -> bool:
    """Return whether precisions may be negative.

    The values decide where they are known; in a traced program the caller's `announced` decides.
    """
    return announced if isinstance(w, jax.core.Tracer) else bool((np.asarray(w) < 0).any())


class SignedFactor(NamedTuple):
    """The factor L, and per row of L: its row number in the data (`order`), √|w| (`root`) and the sign of w.

    `jitter` is the jitter that L₊ needed.
    """

    L: Array
    order: Array
    root: Array
    sign: Array
    jitter: Array


def signed_factor(K: Array, w: Array) -> SignedFactor:
    """Compute L of the formulas above.  No jitter is added to L₋, which decides whether the product is a Gaussian."""
    xp = namespace(K, w)
    K, w = xp.asarray(K), xp.asarray(w)  # one may be a NumPy array while the other is traced
    order = xp.argsort(w < 0, stable=True)
    w = w[order]
    root, sign = safe_root(xp.abs(w)), xp.where(w < 0, -1.0, 1.0).astype(w.dtype)
    M = plus_diagonal(scaled_by(K[order][:, order], root), sign)
    L, jitter = signed_cholesky(M, w >= 0)
    return SignedFactor(L, order, root, sign, jitter)


def signed_cholesky(M: Array, plus: Array) -> tuple[Array, Array]:
    """Return L with M = L S Lᵀ, and the jitter of L₊; `plus` holds for the rows of sign +1, which come first."""
    return _by_blocks(M, int(np.sum(plus))) if is_host(M) else _by_masks(M, plus)


def _by_blocks(M: Array, first: int) -> tuple[Array, Array]:
    """Compute L and the jitter where the number `first` of rows with positive sign is known."""
    if first == len(M):
        return jittered_cholesky(M)
    L, jitter = np.zeros_like(M), np.float64(0.0)
    if first:
        L[:first, :first], jitter = jittered_cholesky(M[:first, :first])
        L[first:, :first] = lower_solve(L[:first, :first], M[:first, first:]).T
    Y = L[first:, :first]
    L[first:, first:] = cholesky(Y @ Y.T - M[first:, first:])
    return L, jitter


def _by_masks(M: Array, plus: Array) -> tuple[Array, Array]:
    """Compute L and the jitter in a traced program, whose shapes cannot depend on the number of positive signs.

    Each block is embedded in a matrix of all rows, with ones on the rest of the diagonal.
    """
    xp = namespace(M)
    eye, row, column = xp.eye(M.shape[0], dtype=M.dtype), plus[:, None], plus[None, :]
    upper, jitter = jittered_cholesky(xp.where(row & column, M, eye))
    across = lower_solve(upper, xp.where(row & ~column, M, 0.0))  # Yᵀ
    lower = cholesky(xp.where(row | column, eye, gram(across) - M))
    return xp.where(row, upper, across.T + lower), jitter


def signed_weights(factor: SignedFactor, K: Array, b: Array, w: Array) -> Array:
    """Return α = K⁻¹ mean = (I + WK)⁻¹ b in the row order of the factor.

    Where w is not 0 it is computed as |W|½ M⁻¹ S|W|^{−½} b.
    """
    xp = namespace(K, b, w)
    L, order, root, sign, _ = factor
    b, rest = xp.asarray(b), xp.where(w == 0, b, 0.0)
    column = xp.where(root > 0, sign * b[order] / xp.where(root > 0, root, 1.0), 0.0) - root * (K @ rest)[order]
    return root * lower_transposed_solve(L, sign * lower_solve(L, column)) + rest[order]
