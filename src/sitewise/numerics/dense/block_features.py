"""Conditioning of several processes with features Φ_l on sites that couple the values of a row, O(n(Lm)²).

The l-th of L independent processes is s_l = Φ_l v_l with v_l ~ N(0, I), and W_i is an L × L block of any sign.  With v
the stacked v_l and u the stacked Φ_lᵀ b_l, the sites exp(b_iᵀs_i − ½ s_iᵀW_i s_i) give

    A_lk = δ_lk I + Φ_lᵀ diag(W_lk) Φ_k,    S = A⁻¹,    c = S u,    log_z = −½ log|A| + ½ uᵀc
    mean_l = Φ_l c_l,    (C_i)_lk = φ_liᵀ S_lk φ_ki

Results are NaN unless A is positive definite.  With cotangents m̄ and C̄ (symmetric), z̄ of log_z, P_lk = Φ_lᵀ diag(C̄_lk)
Φ_k, p_l = Φ_lᵀ m̄_l, r = S p and ū = r + z̄ c, the pullback is

    Ā = −½ (r cᵀ + c rᵀ) − S P S − ½ z̄ (S + c cᵀ),    b̄_l = Φ_l ū_l,    (W̄_i)_lk = φ_liᵀ Ā_lk φ_ki
    Φ̄_l = m̄_l c_lᵀ + b_l ū_lᵀ + 2 Σ_k [diag(C̄_lk) Φ_k S_kl + diag(W_lk) Φ_k Ā_kl]

which are the formulas of `priors.sparse.conditioning` with blocks.  Φ is (L, n, m), b and means are (L, n), W and C are
(n, L, L), and c is (L, m).  Arrays are NumPy or JAX arrays.
"""

from __future__ import annotations

from typing import NamedTuple

from jax.typing import ArrayLike

from sitewise.arrays.engine import Array, namespace
from sitewise.numerics.dense import cholesky
from sitewise.numerics.dense.triangular import plus_diagonal


class Projected(NamedTuple):
    """Means (L, n) and covariances within each row (n, L, L) of the processes, and the log partition function."""

    mean: Array
    cov: Array
    log_z: ArrayLike
    jitter: ArrayLike


class Inner(NamedTuple):
    """q(v) = N(c, HᵀH): c (L, m) and H (Lm, L, m)."""

    coef: Array
    H: Array

    @property
    def S(self) -> Array:
        """The blocks S_lk of the covariance, (L, m, L, m)."""
        size, count = self.coef.shape
        H = self.H.reshape(size * count, -1)
        return (H.T @ H).reshape(size, count, size, count)


def gram(phi: Array, W: Array) -> Array:
    """Return the blocks Σ_i W_i,lk φ_li φ_kiᵀ of symmetric W, (L, m, L, m)."""
    xp, size = namespace(phi, W), len(phi)
    upper = {(a, c): phi[a].T @ (W[:, a, c, None] * phi[c]) for a in range(size) for c in range(a, size)}
    rows = [[upper[a, c] if a <= c else upper[c, a].T for c in range(size)] for a in range(size)]
    return xp.stack([xp.stack(row, 1) for row in rows])


def forms(phi: Array, Q: Array) -> Array:
    """Return φ_liᵀ Q_lk φ_ki per row, (n, L, L), for a symmetric Q of blocks (L, m, L, m)."""
    xp, size = namespace(phi, Q), len(phi)
    upper = {(a, c): xp.sum((phi[a] @ Q[a, :, c]) * phi[c], axis=1) for a in range(size) for c in range(a, size)}
    rows = [xp.stack([upper[min(a, c), max(a, c)] for c in range(size)], -1) for a in range(size)]
    return xp.stack(rows, -2)


def apply(phi: Array, coef: Array) -> Array:
    """Return Φ_l c_l, (L, n)."""
    return namespace(phi, coef).matmul(phi, coef[..., None])[..., 0]


def apply_transposed(phi: Array, x: Array) -> Array:
    """Return Φ_lᵀ x_l, (L, m)."""
    return namespace(phi, x).matmul(x[:, None, :], phi)[:, 0]


def times(S: Array, x: Array) -> Array:
    """Return S x of blocks (L, m, L, m) and vectors (L, m)."""
    return (S.reshape(x.size, x.size) @ x.reshape(-1)).reshape(x.shape)


def condition(phi: Array, b: Array, W: Array) -> tuple[Projected, Inner]:
    """Condition by the formulas at the top of this file; not for differentiation."""
    xp = namespace(phi, b, W)
    size, _, count = phi.shape
    A = plus_diagonal(gram(phi, W).reshape(size * count, size * count), 1.0)
    H, half_log_det, jitter = cholesky.inverse_root(A)
    # Jitter compensates for rounding of a matrix with eigenvalues of at least 1; another A is indefinite.
    H = H * xp.where(jitter > 0, xp.nan, 1.0)
    u = apply_transposed(phi, b)
    coef = (H.T @ (H @ u.reshape(-1))).reshape(u.shape)
    inner = Inner(coef, H.reshape(size * count, size, count))
    log_z = -half_log_det + 0.5 * xp.sum(u * coef)
    return Projected(apply(phi, coef), forms(phi, inner.S), log_z, jitter), inner


def pull(phi: Array, b: Array, W: Array, inner: Inner, bar: Projected) -> tuple[Array, Array]:
    """Return the cotangents of Φ and b, given the cotangent `bar` of the result; its `cov` is symmetric."""
    xp, coef, S = namespace(phi, bar.mean), inner.coef, inner.S
    wide = coef.size
    flat_S, c = S.reshape(wide, wide), coef.reshape(-1)
    r = times(S, apply_transposed(phi, bar.mean))
    u_bar = r + bar.log_z * coef
    outer = 0.5 * xp.outer(r.reshape(-1), c)
    P = gram(phi, bar.cov).reshape(wide, wide)
    A_bar = -outer - outer.T - flat_S @ P @ flat_S - 0.5 * bar.log_z * (flat_S + xp.outer(c, c))
    A_bar = A_bar.reshape(S.shape)

    def of_function(k: int) -> Array:
        found = bar.mean[k][:, None] * coef[k] + b[k][:, None] * u_bar[k]
        for j, one in enumerate(phi):
            found = found + 2 * bar.cov[:, k, j, None] * (one @ S[j, :, k])
            found = found + 2 * W[:, k, j, None] * (one @ A_bar[j, :, k])
        return found

    return xp.stack([of_function(k) for k in range(len(phi))]), apply(phi, u_bar)
