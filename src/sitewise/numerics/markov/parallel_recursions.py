"""The recursions of `small_recursions` and `markov_sites` for many processors: log₂ n rounds of all rows at once.

Affine maps compose, (L₂, v₂)∘(L₁, v₁) = (L₂L₁, L₂v₁ + v₂).  So do steps of a chain with sites (Särkkä &
García-Fernández 2021).  A piece of the chain from z to z' is its transition A, the covariance C of z' given z and the
sites, and the information J of the sites about z; with M = (I + C₁J₂)⁻¹

    A = A₂ M A₁,        C = A₂ M C₁ A₂ᵀ + C₂,        J = J₁ + A₁ᵀ J₂ M A₁

and of all steps from the start, which is known, C is the filter's covariance P.  They do more work than a loop, and
lose some more digits where sites are precise.

All products up to a row are made by doubling (Hillis & Steele 1986): after k rounds row j holds the product of the 2ᵏ
rows up to it.  That is log₂ n times the work of one round where `lax.associative_scan` does two, but one small loop for
every n: the other unrolls 2 log₂ n rounds of different lengths for each recursion of a program.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.arrays.engine import Array
from sitewise.numerics.dense.small_matrices import apply, outer, small_solve, times, turned

_Rows = tuple[Array, ...]


def _vectors(first: _Rows, second: _Rows) -> _Rows:
    (L1, v1), (L2, v2) = first, second
    return times(L2, L1), apply(L2, v1) + v2


def _matrices(first: _Rows, second: _Rows) -> _Rows:
    (L1, V1), (L2, V2) = first, second
    return times(L2, L1), times(times(L2, V1), turned(L2)) + V2


def _steps(first: _Rows, second: _Rows) -> _Rows:
    (A1, C1, J1), (A2, C2, J2) = first, second
    size = A1.shape[-1]
    both = small_solve(jnp.eye(size, dtype=A1.dtype) + times(C1, J2), jnp.concatenate([A1, C1], axis=-1))
    MA, MC = both[..., :size], both[..., size:]
    return times(A2, MA), times(times(A2, MC), turned(A2)) + C2, J1 + times(turned(A1), times(J2, MA))


def _products(compose: Callable[[_Rows, _Rows], _Rows], rows: _Rows, reverse: bool) -> _Rows:
    """The product of all rows up to each; in reverse of all from each on, where later rows are the first factors."""
    count = rows[0].shape[0]
    place = jnp.arange(count)

    def double(k: Array, rows: _Rows) -> _Rows:
        apart = jnp.left_shift(1, k)
        other = place + apart if reverse else place - apart
        inside = (other >= 0) & (other < count)
        far = tuple(a[jnp.clip(other, 0, count - 1)] for a in rows)
        both = compose(far, rows)
        return tuple(jnp.where(inside.reshape(-1, *(1,) * (a.ndim - 1)), b, a) for a, b in zip(rows, both, strict=True))

    # Reverse-mode differentiation keeps the rows of each round, and nothing of what is inside it.
    return lax.fori_loop(0, max(count - 1, 0).bit_length(), jax.checkpoint(double), rows)


def _before(values: Array, reverse: bool) -> Array:
    """What a loop has before each row, given what it has after it."""
    none = jnp.zeros_like(values[:1])
    return jnp.concatenate([values[1:], none] if reverse else [none, values[:-1]])


def vectors(L: Array, v: Array, reverse: bool) -> Array:
    """u_j of u_{j+1} = L_j u_j + v_j; in reverse r_{j+1} of r_j = L_jᵀ r_{j+1} + v_j."""
    return _before(_products(_vectors, (turned(L) if reverse else L, v), reverse)[1], reverse)


def matrices(L: Array, V: Array, reverse: bool) -> Array:
    """The same with U_{j+1} = L_j U_j L_jᵀ + V_j, or N_j = L_jᵀ N_{j+1} L_j + V_j."""
    return _before(_products(_matrices, (turned(L) if reverse else L, V), reverse)[1], reverse)


def covariances(A: Array, Q: Array, h: Array, w: Array) -> Array:
    """P of each row of a chain."""
    pieces = A, Q, w[:, None, None] * outer(h, h)
    return _before(_products(_steps, pieces, False)[1], False)
