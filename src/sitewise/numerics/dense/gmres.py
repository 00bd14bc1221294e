"""Linear systems whose matrix is given by its products with vectors."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array, is_host, namespace, put, while_loop
from sitewise.numerics.dense.triangular import upper_solve

# Steps done, Arnoldi's basis, the triangular system, and the orthogonal matrix that made it triangular.
_State = tuple[int | Array, Array, Array, Array]


def gmres(matvec: Callable[[Array], Array], rhs: Array, tol: float | Array, max_steps: int) -> Array:
    """Solve matvec(x) = rhs, until |residual| ≤ tol·|rhs| or for `max_steps` Arnoldi steps.

    The method is that of Saad & Schultz 1986: with Arnoldi's basis V and its Hessenberg matrix, which the rotations Q
    make triangular, Q H = T, the residual after k steps is |rhs|·|Q[k, 0]|.
    """
    xp = namespace(rhs)
    size = min(max_steps, rhs.size)
    norm = xp.sqrt(rhs @ rhs)
    tiny = xp.finfo(rhs.dtype).tiny
    # On the host nothing reads what is not set: filling it would take longer than most systems.
    blank = np.empty if is_host(rhs) else jnp.zeros
    basis = put(blank((size + 1, rhs.size), rhs.dtype), 0, rhs / xp.maximum(norm, tiny))
    triangle = xp.eye(size, dtype=rhs.dtype)  # columns not reached remain the identity: their solution is 0
    turned = xp.eye(size + 1, dtype=rhs.dtype)

    def keep_going(state: _State) -> Array:
        k, _, _, turned = state
        return (k < size) & (norm * xp.abs(turned[k, 0]) > tol * norm)

    def arnoldi(state: _State) -> _State:
        k, basis, triangle, turned = state
        v = matvec(basis[k])
        seen = basis[: k + 1] if is_host(basis) else basis  # a compiled loop has one shape; further rows are zero
        h = seen @ v
        v = v - h @ seen
        again = seen @ v  # a second Gram–Schmidt pass keeps the basis orthogonal to rounding
        v = v - again @ seen
        below = xp.sqrt(v @ v)
        basis = put(basis, k + 1, v / xp.maximum(below, tiny))
        column = put(xp.zeros(size + 1, rhs.dtype), slice(len(seen)), h + again)
        h = turned @ put(column, k + 1, below)
        r = xp.maximum(xp.hypot(h[k], below), tiny)
        c, s = h[k] / r, below / r
        first, second = c * turned[k] + s * turned[k + 1], c * turned[k + 1] - s * turned[k]
        turned = put(put(turned, k, first), k + 1, second)
        column = put(xp.where(xp.arange(size) <= k, h[:size], 0.0), k, r)
        return k + 1, basis, put(triangle, (slice(None), k), column), turned

    k, basis, triangle, turned = while_loop(keep_going, arnoldi, (0, basis, triangle, turned))
    if is_host(k):
        if k == 0:
            return xp.zeros_like(rhs)
        return upper_solve(triangle[:k, :k], norm * turned[:k, 0]) @ basis[:k]
    reached = xp.where(xp.arange(size) < k, norm * turned[:size, 0], 0.0)
    return upper_solve(triangle, reached) @ basis[:size]
