"""GMRES: solve a linear system whose matrix is given by its products with vectors."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays.engine import Array, is_host
from sitewise.numerics.dense.triangular import upper_solve

# The number of steps done, Arnoldi's basis V, the triangular matrix T, and the rotations Q with Q H = T.
_State = tuple[Array, Array, Array, Array]


def gmres(matvec: Callable[[Array], Array], rhs: Array, tol: float | Array, max_steps: int) -> Array:
    """Solve matvec(x) = rhs until |residual| ≤ tol·|rhs|, or for `max_steps` Arnoldi steps (Saad & Schultz 1986).

    With Arnoldi's basis V, its Hessenberg matrix H and rotations Q that make it triangular, Q H = T, the residual after
    k steps is |rhs|·|Q[k, 0]|.
    """
    size = min(max_steps, rhs.size)
    return (_on_host if is_host(rhs) else _traced)(matvec, rhs, tol, size)


def _on_host(matvec: Callable[[np.ndarray], np.ndarray], rhs: np.ndarray, tol: float, size: int) -> np.ndarray:
    """As `_traced`, with the rotations as pairs of numbers: most systems need ten steps."""
    norm = math.sqrt(rhs @ rhs)
    basis = np.empty((size + 1, rhs.size))
    basis[0] = rhs / max(norm, _TINY)
    triangle = np.zeros((size, size))
    rotations: list[tuple[float, float]] = []
    left = [norm]  # Q |rhs| e_1: its last entry is the residual
    for k in range(size):
        if not abs(left[k]) > tol * norm:  # a NaN ends the loop too
            break
        v = matvec(basis[k])
        seen = basis[: k + 1]
        h = seen @ v
        v = v - h @ seen
        again = seen @ v  # a second Gram–Schmidt pass keeps the basis orthogonal to rounding
        v -= again @ seen
        below = math.sqrt(v @ v)
        np.divide(v, max(below, _TINY), out=basis[k + 1])
        column = (h + again).tolist()
        for i, (c, s) in enumerate(rotations):
            column[i], column[i + 1] = c * column[i] + s * column[i + 1], c * column[i + 1] - s * column[i]
        r = max(math.hypot(column[k], below), _TINY)
        c, s = column[k] / r, below / r
        rotations.append((c, s))
        column[k] = r
        triangle[: k + 1, k] = column
        left[k:] = c * left[k], -s * left[k]
    k = len(rotations)
    return upper_solve(triangle[:k, :k], np.array(left[:k])) @ basis[:k] if k else np.zeros_like(rhs)


_TINY = float(np.finfo(float).tiny)


def _traced(matvec: Callable[[Array], Array], rhs: Array, tol: float | Array, size: int) -> Array:
    norm = jnp.sqrt(rhs @ rhs)
    tiny = jnp.finfo(rhs.dtype).tiny
    basis = jnp.zeros((size + 1, rhs.size), rhs.dtype).at[0].set(rhs / jnp.maximum(norm, tiny))
    triangle = jnp.eye(size, dtype=rhs.dtype)  # columns not reached stay unit vectors: the solution is 0 there
    rotations = jnp.eye(size + 1, dtype=rhs.dtype)

    def keep_going(state: _State) -> Array:
        k, _, _, rotations = state
        return (k < size) & (norm * jnp.abs(rotations[k, 0]) > tol * norm)

    def arnoldi(state: _State) -> _State:
        k, basis, triangle, rotations = state
        v = matvec(basis[k])
        h = basis @ v  # rows not reached are 0
        v = v - h @ basis
        again = basis @ v
        v = v - again @ basis
        subdiagonal = jnp.sqrt(v @ v)
        basis = basis.at[k + 1].set(v / jnp.maximum(subdiagonal, tiny))
        h = rotations @ (h + again).at[k + 1].set(subdiagonal)
        r = jnp.maximum(jnp.hypot(h[k], subdiagonal), tiny)
        c, s = h[k] / r, subdiagonal / r
        first, second = c * rotations[k] + s * rotations[k + 1], c * rotations[k + 1] - s * rotations[k]
        rotations = rotations.at[k].set(first).at[k + 1].set(second)
        column = jnp.where(jnp.arange(size) <= k, h[:size], 0.0).at[k].set(r)
        return k + 1, basis, triangle.at[:, k].set(column), rotations

    k, basis, triangle, rotations = lax.while_loop(keep_going, arnoldi, (0, basis, triangle, rotations))
    reached = jnp.where(jnp.arange(size) < k, norm * rotations[:size, 0], 0.0)
    return upper_solve(triangle, reached) @ basis[:size]
