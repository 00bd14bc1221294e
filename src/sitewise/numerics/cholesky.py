"""Cholesky factors, and the sequence of jitters that every factorisation uses.

A matrix that rounding has made indefinite is factorised with the smallest jitter of `JITTERS` that suffices, and that
jitter is part of the result.  Where none suffices the result is NaN, which callers turn into an `Outcome`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.typing import DTypeLike

from sitewise.numerics.triangular import lower_inverse

_Result = TypeVar("_Result", bound=tuple[jax.Array, ...])


def cholesky(a: jax.Array) -> jax.Array:
    """Lower Cholesky factor; NaN where `a` is not positive definite."""
    return lax.linalg.cholesky(a, symmetrize_input=False)


JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)  # jitters, as shares of the diagonal


def with_least_jitter(
    attempt: Callable[[jax.Array], _Result], dtype: DTypeLike, first: int = 0
) -> tuple[_Result, jax.Array]:
    """attempt(jitter) with the smallest jitter of `JITTERS` for which its first number is finite, and that jitter.

    The program holds one copy of `attempt`, and only what it returns passes through the loop: a factor that is used
    only inside `attempt` is neither copied nor converted to another layout.
    """
    jitters = jnp.asarray(JITTERS, dtype)
    nothing = jax.tree.map(lambda a: jnp.full(a.shape, jnp.nan, a.dtype), jax.eval_shape(attempt, jitters[0]))

    def failed(state: tuple[jax.Array, _Result]) -> jax.Array:
        position, (found, *_) = state
        return (position == first) | ((position < len(JITTERS)) & ~jnp.isfinite(found))

    def again(state: tuple[jax.Array, _Result]) -> tuple[jax.Array, _Result]:
        return state[0] + 1, attempt(jitters[state[0]])

    position, result = lax.while_loop(failed, again, (jnp.full((), first, jnp.int32), nothing))
    return result, jitters[position - 1]


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def jittered_cholesky(a: jax.Array, first: int = 0) -> tuple[jax.Array, jax.Array]:
    """Cholesky factor of `a` plus the smallest jitter of `JITTERS` with which it factorises, and that jitter.

    Jitters are shares of the diagonal, entry by entry, so that a row of large numbers does not dominate the others.
    The first one is 0, or with first=1 it is 1e-12, which is about the rounding error of the factorisation itself.
    The factor is NaN if the last one (1e-4) does not suffice.
    """

    def attempt(jitter: jax.Array) -> tuple[jax.Array, jax.Array]:
        factor = cholesky(a + jnp.diag(jitter * jnp.diagonal(a)))
        # A failed factorisation is NaN throughout, and a NaN in `a` reaches the last entry of the diagonal.
        return factor[-1, -1], factor

    (_, factor), jitter = with_least_jitter(attempt, a.dtype, first)
    return factor, jitter


@jittered_cholesky.defjvp
def _jittered_cholesky_jvp(
    first: int, primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
    """dL = L Φ(L⁻¹ dA L⁻ᵀ), where Φ keeps the lower triangle and halves the diagonal; the jitter is held constant."""
    L, jitter = jittered_cholesky(primals[0], first)
    half = solve_triangular(L, tangents[0], lower=True)
    inner = solve_triangular(L, half.T, lower=True).T
    kept = jnp.tril(inner) - 0.5 * jnp.diag(jnp.diagonal(inner))
    return (L, jitter), (L @ kept, jnp.zeros_like(jitter))


def safe_root(w: jax.Array) -> jax.Array:
    """√w with a finite derivative at w = 0 (padded rows)."""
    return jnp.where(w > 0, jnp.sqrt(jnp.where(w > 0, w, 1.0)), 0.0)


def whitener(K: jax.Array) -> tuple[jax.Array, jax.Array]:
    """T = L⁻ᵀ with L Lᵀ = K, so that Tᵀ K T = I, and the jitter that was needed."""
    L, jitter = jittered_cholesky(K)
    return lower_inverse(L).T, jitter


def inverse_root(A: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(L⁻¹, ½ log|A|, jitter) with L Lᵀ = A.  Multiplying by L⁻¹ is a matrix product, which is faster than a solve."""
    L, jitter = jittered_cholesky(A)
    return lower_inverse(L), jnp.sum(jnp.log(jnp.diagonal(L))), jitter


def semidefinite_root(a: jax.Array) -> jax.Array:
    """A matrix R with R Rᵀ = a for a positive semi-definite `a`; eigenvalues that rounding made negative count as 0."""
    values, vectors = jnp.linalg.eigh(a)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))
