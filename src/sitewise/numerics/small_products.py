"""Products of matrices and vectors of a few numbers, on the last axes of arrays."""

from __future__ import annotations

from sitewise.runtime.engine import Array


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
