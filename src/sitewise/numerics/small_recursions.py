"""Linear recursions of vectors and matrices of a few numbers along rows, and the algebra of such matrices."""

from __future__ import annotations

from typing import Any

from sitewise.runtime.engine import Array, namespace
from sitewise.runtime.sweeps import sweep


def times(A: Array, B: Array) -> Array:
    """A B for small matrices.  As sums of products they are compiled into a loop; as dots they would be calls."""
    return (A[..., :, :, None] * B[..., None, :, :]).sum(-2)


def apply(A: Array, x: Array) -> Array:
    """A x for a small matrix."""
    return (A * x[..., None, :]).sum(-1)


def turned(A: Array) -> Array:
    """Aᵀ."""
    return A.swapaxes(-1, -2)


def outer(x: Array, y: Array) -> Array:
    return x[..., :, None] * y[..., None, :]


def dot(x: Array, y: Array) -> Array:
    return (x * y).sum(-1)


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
    """u_{j+1} = L_j u_j + x_j y_j from u_0 = 0, and probe_jᵀu_j."""
    return sweep(_vector_forward, None, _zero(y, 1), (L, x, y, probe))


def vector_backward(L: Array, x: Array, y: Array, probe: Array) -> tuple[Array, Array]:
    """r_{j+1} of r_j = L_jᵀ r_{j+1} + x_j y_j, which is 0 after the last row, and probe_jᵀr_{j+1}."""
    return sweep(_vector_backward, None, _zero(y, 1), (L, x, y, probe), reverse=True)


def matrix_forward(L: Array, x: Array, y: Array, probe: Array) -> tuple[Array, Array]:
    """U_{j+1} = L_j U_j L_jᵀ + x_j y_j y_jᵀ from U_0 = 0, and probe_jᵀU_j probe_j."""
    return sweep(_matrix_forward, None, _zero(y, 2), (L, x, y, probe))


def matrix_backward(L: Array, x: Array, y: Array, probe: Array) -> tuple[Array, Array]:
    """N_{j+1} of N_j = L_jᵀ N_{j+1} L_j + x_j y_j y_jᵀ, 0 after the last row, and probe_jᵀN_{j+1} probe_j."""
    return sweep(_matrix_backward, None, _zero(y, 2), (L, x, y, probe), reverse=True)


def _zero(y: Array, axes: int) -> Array:
    return namespace(y).zeros((y.shape[1],) * axes, y.dtype)
