"""Linear systems whose matrix is given by its products with vectors."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular

# Steps done, Arnoldi's basis, the triangular system, the Givens rotations and the right-hand side that these rotate.
_State = tuple[int | jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]


def gmres(
    matvec: Callable[[jax.Array], jax.Array], rhs: jax.Array, tol: float | jax.Array, max_steps: int
) -> jax.Array:
    """Solve matvec(x) = rhs, until |residual| ≤ tol·|rhs| or for `max_steps` Arnoldi steps.

    The method is that of Saad & Schultz 1986; Givens rotations give the residual at every step.
    """
    size = min(max_steps, rhs.size)
    norm = jnp.linalg.norm(rhs)
    tiny = jnp.finfo(rhs.dtype).tiny
    basis = jnp.zeros((size + 1, rhs.size), rhs.dtype).at[0].set(rhs / jnp.maximum(norm, tiny))
    hess = jnp.eye(size, dtype=rhs.dtype)  # columns not reached remain the identity: their solution is 0
    goal = jnp.zeros(size + 1, rhs.dtype).at[0].set(norm)
    rotations = jnp.zeros((size, 2), rhs.dtype).at[:, 0].set(1.0)

    def keep_going(state: _State) -> jax.Array:
        k, *_, goal = state
        return (k < size) & (jnp.abs(goal[k]) > tol * norm)

    def arnoldi(state: _State) -> _State:
        k, basis, hess, rotations, goal = state
        v = matvec(basis[k])
        h = basis @ v
        v = v - h @ basis
        again = basis @ v  # a second Gram–Schmidt pass keeps the basis orthogonal to rounding
        v = v - again @ basis
        h = h + again
        below = jnp.linalg.norm(v)
        basis = basis.at[k + 1].set(v / jnp.maximum(below, tiny))
        h = h.at[k + 1].set(below)

        def rotate(i: jax.Array, h: jax.Array) -> jax.Array:
            c, s = rotations[i]
            return h.at[i].set(c * h[i] + s * h[i + 1]).at[i + 1].set(-s * h[i] + c * h[i + 1])

        h = lax.fori_loop(0, k, rotate, h)
        r = jnp.maximum(jnp.hypot(h[k], below), tiny)
        c, s = h[k] / r, below / r
        h = h.at[k].set(r)
        rotations = rotations.at[k].set(jnp.stack([c, s]))
        goal = goal.at[k + 1].set(-s * goal[k]).at[k].set(c * goal[k])
        column = jnp.where(jnp.arange(size) <= k, h[:size], 0.0)
        return k + 1, basis, hess.at[:, k].set(column), rotations, goal

    start: _State = (0, basis, hess, rotations, goal)
    k, basis, hess, _, goal = lax.while_loop(keep_going, arnoldi, start)
    reached = jnp.where(jnp.arange(size) < k, goal[:size], 0.0)
    return solve_triangular(hess, reached, lower=False) @ basis[:size]
