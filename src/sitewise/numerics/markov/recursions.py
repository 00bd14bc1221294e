"""Linear recursions of small vectors and matrices along the rows of a chain, forwards and backwards.

Every recursion adds x_j y_j (or x_j y_j y_jᵀ) at row j, and also returns its products with the vectors `probe`.
"""

from __future__ import annotations

from typing import Any

from sitewise.arrays.engine import Array, namespace
from sitewise.arrays.sweeps import Step, in_parallel, sweep
from sitewise.numerics.dense.small_matrices import apply, dot, outer, times
from sitewise.numerics.markov import parallel_recursions


def _vector_forward(_: None, u: Array, row: Any) -> tuple[Array, Any]:
    L, x, y, probe = row
    return apply(L, u) + x * y, (u, dot(probe, u))


def _vector_backward(_: None, r: Array, row: Any) -> tuple[Array, Any]:
    L, x, y, probe = row
    return apply(L.T, r) + x * y, (r, dot(probe, r))


def _matrix_forward(_: None, U: Array, row: Any) -> tuple[Array, Any]:
    L, x, y, probe = row
    return times(times(L, U), L.T) + outer(y, x * y), (U, dot(probe, apply(U, probe)))


def _matrix_backward(_: None, N: Array, row: Any) -> tuple[Array, Any]:
    L, x, y, probe = row
    return times(times(L.T, N), L) + outer(y, x * y), (N, dot(probe, apply(N, probe)))


def vector_forward(L: Array, x: Array, y: Array, probe: Array) -> tuple[Array, Array]:
    """Return all u_j of u_{j+1} = L_j u_j + x_j y_j, u_0 = 0, and all probe_jᵀu_j."""
    return _vectors(_vector_forward, L, x, y, probe, False)


def vector_backward(L: Array, x: Array, y: Array, probe: Array) -> tuple[Array, Array]:
    """Return all r_{j+1} of r_j = L_jᵀ r_{j+1} + x_j y_j, which is 0 after the last row, and all probe_jᵀr_{j+1}."""
    return _vectors(_vector_backward, L, x, y, probe, True)


def matrix_forward(L: Array, x: Array, y: Array, probe: Array) -> tuple[Array, Array]:
    """Return all U_j of U_{j+1} = L_j U_j L_jᵀ + x_j y_j y_jᵀ, U_0 = 0, and all probe_jᵀU_j probe_j."""
    return _matrices(_matrix_forward, L, x, y, probe, False)


def matrix_backward(L: Array, x: Array, y: Array, probe: Array) -> tuple[Array, Array]:
    """Return all N_{j+1} of N_j = L_jᵀ N_{j+1} L_j + x_j y_j y_jᵀ, last of them 0, and all probe_jᵀN_{j+1} probe_j."""
    return _matrices(_matrix_backward, L, x, y, probe, True)


def _vectors(step: Step, L: Array, x: Array, y: Array, probe: Array, reverse: bool) -> tuple[Array, Array]:
    if in_parallel(L, x, y, probe):
        u = parallel_recursions.vectors(L, x[:, None] * y, reverse)
        return u, dot(probe, u)
    return sweep(step, None, namespace(y).zeros(y.shape[1], y.dtype), (L, x, y, probe), reverse)


def _matrices(step: Step, L: Array, x: Array, y: Array, probe: Array, reverse: bool) -> tuple[Array, Array]:
    if in_parallel(L, x, y, probe):
        U = parallel_recursions.matrices(L, x[:, None, None] * outer(y, y), reverse)
        return U, dot(probe, apply(U, probe))
    return sweep(step, None, namespace(y).zeros((y.shape[1],) * 2, y.dtype), (L, x, y, probe), reverse)
