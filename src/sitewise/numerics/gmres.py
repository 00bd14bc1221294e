"""Linear systems that are known by their products with vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular


def gmres(matvec, rhs: jax.Array, tol: float | jax.Array, max_steps: int) -> jax.Array:
    """Solve matvec(x) = rhs, to |residual| ≤ tol·|rhs| or `max_steps` Arnoldi steps.

    Saad & Schultz 1986, with Givens rotations so that the residual is known at every step.
    """
    size = min(max_steps, rhs.size)
    norm = jnp.linalg.norm(rhs)
    tiny = jnp.finfo(rhs.dtype).tiny
    basis = jnp.zeros((size + 1, rhs.size), rhs.dtype).at[0].set(rhs / jnp.maximum(norm, tiny))
    hess = jnp.eye(size, dtype=rhs.dtype)  # columns not reached stay the identity: their solution is 0
    goal = jnp.zeros(size + 1, rhs.dtype).at[0].set(norm)
    rotations = jnp.zeros((size, 2), rhs.dtype).at[:, 0].set(1.0)

    def keep_going(state):
        k, *_, goal = state
        return (k < size) & (jnp.abs(goal[k]) > tol * norm)

    def arnoldi(state):
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

        def rotate(i, h):
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

    k, basis, hess, _, goal = lax.while_loop(keep_going, arnoldi, (0, basis, hess, rotations, goal))
    reached = jnp.where(jnp.arange(size) < k, goal[:size], 0.0)
    return solve_triangular(hess, reached, lower=False) @ basis[:size]
