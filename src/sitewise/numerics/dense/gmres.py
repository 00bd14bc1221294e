"""GMRES: solve a linear system whose matrix is given by its products with vectors."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from sitewise.arrays.engine import Array, is_host, namespace, put, while_loop
from sitewise.numerics.dense.triangular import upper_solve

# The number of steps done, Arnoldi's basis V, the triangular matrix T, and the rotations Q with Q H = T.
_State = tuple[int | Array, Array, Array, Array]


def gmres(matvec: Callable[[Array], Array], rhs: Array, tol: float | Array, max_steps: int) -> Array:
    """Solve matvec(x) = rhs until |residual| ≤ tol·|rhs|, or for `max_steps` Arnoldi steps (Saad & Schultz 1986).

    With Arnoldi's basis V, its Hessenberg matrix H and rotations Q that make it triangular, Q H = T, the residual after
    k steps is |rhs|·|Q[k, 0]|.
    """
    xp = namespace(rhs)
    size = min(max_steps, rhs.size)
    norm = xp.sqrt(rhs @ rhs)
    tiny = xp.finfo(rhs.dtype).tiny
    # On the host rows that are not set are never read, and filling them would take longer than solving most systems.
    blank = np.empty if is_host(rhs) else jnp.zeros
    basis = put(blank((size + 1, rhs.size), rhs.dtype), 0, rhs / xp.maximum(norm, tiny))
    triangle = xp.eye(size, dtype=rhs.dtype)  # columns not reached stay unit vectors: the solution is 0 there
    rotations = xp.eye(size + 1, dtype=rhs.dtype)

    def keep_going(state: _State) -> Array:
        k, _, _, rotations = state
        return (k < size) & (norm * xp.abs(rotations[k, 0]) > tol * norm)

    def arnoldi(state: _State) -> _State:
        k, basis, triangle, rotations = state
        v = matvec(basis[k])
        seen = basis[: k + 1] if is_host(basis) else basis  # shapes are constant in a compiled loop; later rows are 0
        h = seen @ v
        v = v - h @ seen
        again = seen @ v  # a second Gram–Schmidt pass keeps the basis orthogonal to rounding
        v = v - again @ seen
        subdiagonal = xp.sqrt(v @ v)
        basis = put(basis, k + 1, v / xp.maximum(subdiagonal, tiny))
        column = put(xp.zeros(size + 1, rhs.dtype), slice(len(seen)), h + again)
        h = rotations @ put(column, k + 1, subdiagonal)
        r = xp.maximum(xp.hypot(h[k], subdiagonal), tiny)
        c, s = h[k] / r, subdiagonal / r
        first, second = c * rotations[k] + s * rotations[k + 1], c * rotations[k + 1] - s * rotations[k]
        rotations = put(put(rotations, k, first), k + 1, second)
        column = put(xp.where(xp.arange(size) <= k, h[:size], 0.0), k, r)
        return k + 1, basis, put(triangle, (slice(None), k), column), rotations

    k, basis, triangle, rotations = while_loop(keep_going, arnoldi, (0, basis, triangle, rotations))
    if is_host(k):
        if k == 0:
            return xp.zeros_like(rhs)
        return upper_solve(triangle[:k, :k], norm * rotations[:k, 0]) @ basis[:k]
    reached = xp.where(xp.arange(size) < k, norm * rotations[:size, 0], 0.0)
    return upper_solve(triangle, reached) @ basis[:size]
