"""Cholesky factors with the smallest jitter that suffices, and symmetric eigenvalue problems.

A matrix that rounding has made indefinite is factorised with the smallest jitter of `JITTERS` that suffices, and that
jitter is part of the result.  Where no jitter suffices the result is NaN, which callers turn into an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular

from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.numerics.dense import lapack
from sitewise.numerics.dense.triangular import lower_inverse, plus_diagonal

_Result = TypeVar("_Result", bound=tuple[Array, ...])


def cholesky(a: Array) -> Array:
    """Return the lower Cholesky factor; NaN if `a` is not positive definite.  A NumPy matrix is overwritten."""
    if is_host(a):
        return lapack.cholesky(a)
    return lax.linalg.cholesky(a, symmetrize_input=False)


JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)  # as shares of each diagonal entry


def with_least_jitter(attempt: Callable[[Array], _Result], like: Array, first: int = 0) -> tuple[_Result, Array]:
    """Return attempt(jitter) for the smallest jitter that makes the first number of the result finite, and the jitter.

    Jitters are those of `JITTERS` from position `first` on.  `like` is an array of the kind that `attempt` works on.  A
    compiled program holds one copy of `attempt`, and only its results pass through the loop: a factor that is used
    inside `attempt` alone is neither copied nor converted to another layout.
    """
    if is_host(like):
        for jitter in JITTERS[first:]:
            result = attempt(np.float64(jitter))
            if np.isfinite(result[0]):
                break
        return result, np.float64(jitter)
    jitters = jnp.asarray(JITTERS, like.dtype)
    not_found = jax.tree.map(lambda a: jnp.full(a.shape, jnp.nan, a.dtype), jax.eval_shape(attempt, jitters[0]))

    def failed(state: tuple[Array, _Result]) -> Array:
        position, (found, *_) = state
        return (position == first) | ((position < len(JITTERS)) & ~jnp.isfinite(found))

    def again(state: tuple[Array, _Result]) -> tuple[Array, _Result]:
        return state[0] + 1, attempt(jitters[state[0]])

    position, result = lax.while_loop(failed, again, (jnp.full((), first, jnp.int32), not_found))
    return result, jitters[position - 1]


def jittered_cholesky(a: Array, first: int = 0) -> tuple[Array, Array]:
    """Return the Cholesky factor of `a` plus the smallest jitter of `JITTERS` that suffices, and that jitter.

    A jitter is a share of each diagonal entry, so a row of large numbers does not dominate the other rows.  The first
    jitter tried is 0, or with first=1 it is 1e-12, about the rounding error of the factorisation itself.  The factor is
    NaN if the last jitter (1e-4) does not suffice.
    """
    return _least_jittered(a, first) if is_host(a) else _jittered_cholesky(a, first)


def _least_jittered(a: Array, first: int) -> tuple[Array, Array]:
    xp = namespace(a)

    def attempt(jitter: Array) -> tuple[Array, Array]:
        factor = cholesky(plus_diagonal(xp.array(a), jitter * xp.diagonal(a)))
        # A failed factorisation is NaN throughout, and a NaN in `a` reaches the last entry of the diagonal.
        return factor[-1, -1], factor

    (_, factor), jitter = with_least_jitter(attempt, a, first)
    return factor, jitter


_jittered_cholesky = jax.custom_jvp(_least_jittered, nondiff_argnums=(1,))


@_jittered_cholesky.defjvp
def _jittered_cholesky_jvp(
    first: int, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return dL = L Φ(L⁻¹ dA L⁻ᵀ), where Φ keeps the lower triangle and halves the diagonal; jitter is held fixed."""
    L, jitter = _jittered_cholesky(primals[0], first)
    half = solve_triangular(L, tangents[0], lower=True)
    inner = solve_triangular(L, half.T, lower=True).T
    kept = jnp.tril(inner) - 0.5 * jnp.diag(jnp.diagonal(inner))
    return (L, jitter), (L @ kept, jnp.zeros_like(jitter))


def safe_root(w: Array) -> Array:
    """Return √w with a finite derivative at w = 0 (padded rows)."""
    xp = namespace(w)
    return xp.where(w > 0, xp.sqrt(xp.where(w > 0, w, 1.0)), 0.0)


def whitener(K: Array) -> tuple[Array, Array]:
    """Return T = L⁻ᵀ with L Lᵀ = K, for which Tᵀ K T = I, and the jitter that was needed."""
    L, jitter = jittered_cholesky(K)
    return lower_inverse(L).T, jitter


def inverse_root(A: Array) -> tuple[Array, Array, Array]:
    """Return (L⁻¹, ½ log|A|, jitter) with L Lᵀ = A.  A matrix product with L⁻¹ is faster than a solve."""
    L, jitter = jittered_cholesky(A)
    xp = namespace(L)
    return lower_inverse(L), xp.sum(xp.log(xp.diagonal(L))), jitter


def eigen(a: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of a symmetric matrix in increasing order, and its eigenvectors as columns."""
    values, vectors = namespace(a).linalg.eigh(a)
    return values, vectors


def semidefinite_root(a: Array) -> Array:
    """Return R with R Rᵀ = a for a positive semi-definite `a`; eigenvalues that rounding made negative count as 0."""
    xp = namespace(a)
    values, vectors = eigen(a)
    return vectors * xp.sqrt(xp.maximum(values, 0.0))


def difference_of_roots(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R and signs s with Rᵀ diag(s) R = aᵀa − bᵀb, without rows that rounding errors exceed.

    Eigenvalues are those of the matrix in units of the columns, so that columns of any size keep their digits.
    """
    unit = np.sqrt(np.sum(a * a, axis=0) + np.sum(b * b, axis=0))
    unit = np.where(unit > 0, unit, 1.0)
    a, b = a / unit, b / unit
    values, vectors = eigen(a.T @ a - b.T @ b)
    kept = np.abs(values) > np.finfo(float).eps * np.max(np.abs(values), initial=0.0)
    return np.sqrt(np.abs(values[kept]))[:, None] * vectors.T[kept] * unit, np.sign(values[kept])


def covariance_root(a: np.ndarray) -> np.ndarray:
    """Return `semidefinite_root` of a covariance matrix, computed from its correlations: in any units of its rows."""
    sd = np.sqrt(np.maximum(np.diagonal(a), 0.0))
    unit = np.where(sd > 0, sd, 1.0)
    return np.asarray(unit[:, None] * semidefinite_root(a / np.outer(unit, unit)))
