"""Cholesky factors, with the one ladder of jitters that every factorisation goes through.

A matrix that rounding has made indefinite is factorised with the smallest jitter of `JITTERS` that suffices, and that
jitter is part of the result.  Beyond the last one there is NaN, which callers turn into an `Outcome`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular

from sitewise.numerics.triangular import lower_inverse


def cholesky(a: jax.Array) -> jax.Array:
    """Lower Cholesky factor; NaN where `a` is not positive definite."""
    return lax.linalg.cholesky(a, symmetrize_input=False)


JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)  # jitters, as shares of the diagonal


def with_least_jitter(attempt: Callable[[jax.Array], tuple], dtype, first: int = 0) -> tuple[tuple, jax.Array]:
    """attempt(jitter) with the smallest jitter of the ladder for which its first number is finite, and that jitter.

    One copy of `attempt` in the program, and only what it returns passes through the loop: a factor that is used up
    inside is neither copied nor brought into another layout.
    """
    ladder = jnp.asarray(JITTERS, dtype)
    nothing = jax.tree.map(lambda a: jnp.full(a.shape, jnp.nan, a.dtype), jax.eval_shape(attempt, ladder[0]))

    def failed(state):
        rung, (found, *_) = state
        return (rung == first) | ((rung < len(JITTERS)) & ~jnp.isfinite(found))

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

    (_, factor), jitter = with_least_jitter(attempt, a.dtype, first)
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


def whitener(K: jax.Array) -> tuple[jax.Array, jax.Array]:
    """T = L⁻ᵀ with L Lᵀ = K, so that Tᵀ K T = I; and the jitter that was needed."""
    L, jitter = jittered_cholesky(K)
    return lower_inverse(L).T, jitter


def inverse_root(A: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(L⁻¹, ½ log|A|, jitter) with L Lᵀ = A: products with L⁻¹ run as matrix products, which solves do not."""
    L, jitter = jittered_cholesky(A)
    return lower_inverse(L), jnp.sum(jnp.log(jnp.diagonal(L))), jitter


def semidefinite_root(a: jax.Array) -> jax.Array:
    """A matrix R with R Rᵀ = a for a positive semi-definite `a`, rounding below zero removed."""
    values, vectors = jnp.linalg.eigh(a)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))
