"""Parallel prefix versions of the linear recursions and of the Kalman filter: log₂ n rounds over all rows at once.

They serve accelerators (GPUs); `recursions` and `filtering` choose between them and a loop over the rows.

Affine maps compose, (L₂, v₂)∘(L₁, v₁) = (L₂L₁, L₂v₁ + v₂).  So do steps of a chain with sites (Särkkä &
García-Fernández 2021).  A piece of the chain from z to z' is described by its transition A, the covariance C of z'
given z and the sites, and the information J of the sites about z; with M = (I + C₁J₂)⁻¹

    A = A₂ M A₁,        C = A₂ M C₁ A₂ᵀ + C₂,        J = J₁ + A₁ᵀ J₂ M A₁

For all steps from the start, which is known, C is the filter's covariance P.  The parallel versions do more work than a
loop, and lose a few more digits where sites are precise.

Products of all rows up to each row are computed by doubling (Hillis & Steele 1986): after k rounds row j holds the
product of the last 2ᵏ rows up to j.  This takes the work of log₂ n rounds, whereas
`lax.associative_scan` takes the work of two.  But it is one small loop for every n, whereas `lax.associative_scan`
unrolls 2 log₂ n rounds of different lengths for each recursion of a program.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from sitewise.arrays.engine import Array
from sitewise.numerics.dense.small_matrices import apply, outer, small_solve, times, transpose

_Rows = tuple[Array, ...]


def _compose_vectors(first: _Rows, second: _Rows) -> _Rows:
    (L1, v1), (L2, v2) = first, second
    return times(L2, L1), apply(L2, v1) + v2


def _compose_matrices(first: _Rows, second: _Rows) -> _Rows:
    (L1, V1), (L2, V2) = first, second
    return times(L2, L1), times(times(L2, V1), transpose(L2)) + V2


def _compose_steps(first: _Rows, second: _Rows) -> _Rows:
    (A1, C1, J1), (A2, C2, J2) = first, second
    size = A1.shape[-1]
    both = small_solve(jnp.eye(size, dtype=A1.dtype) + times(C1, J2), jnp.concatenate([A1, C1], axis=-1))
    MA, MC = both[..., :size], both[..., size:]
    return times(A2, MA), times(times(A2, MC), transpose(A2)) + C2, J1 + times(transpose(A1), times(J2, MA))


def _prefix_products(compose: Callable[[_Rows, _Rows], _Rows], rows: _Rows, reverse: bool) -> _Rows:
    """Return the product of all rows up to each row.

    With `reverse`, return the product of all rows from each row on, where later rows are the first factors.
    """
    count = rows[0].shape[0]
    place = jnp.arange(count)

    def double(k: Array, rows: _Rows) -> _Rows:
        distance = jnp.left_shift(1, k)
        partner = place + distance if reverse else place - distance
        inside = (partner >= 0) & (partner < count)
        partners = tuple(a[jnp.clip(partner, 0, count - 1)] for a in rows)
        both = compose(partners, rows)
        return tuple(jnp.where(inside.reshape(-1, *(1,) * (a.ndim - 1)), b, a) for a, b in zip(rows, both, strict=True))

    # Reverse-mode differentiation stores the rows after each round and recomputes the inside of the round.
    return lax.fori_loop(0, max(count - 1, 0).bit_length(), jax.checkpoint(double), rows)


def _values_before(values: Array, reverse: bool) -> Array:
    """Shift by one row: the values of a loop before each row, given its values after each row."""
    empty = jnp.zeros_like(values[:1])
    return jnp.concatenate([values[1:], empty] if reverse else [empty, values[:-1]])


def vectors(L: Array, v: Array, reverse: bool) -> Array:
    """Return all u_j of u_{j+1} = L_j u_j + v_j; with `reverse`, all r_{j+1} of r_j = L_jᵀ r_{j+1} + v_j."""
    return _values_before(_prefix_products(_compose_vectors, (transpose(L) if reverse else L, v), reverse)[1], reverse)


def matrices(L: Array, V: Array, reverse: bool) -> Array:
    """Return all U_j of U_{j+1} = L_j U_j L_jᵀ + V_j; with `reverse`, all N_{j+1} of N_j = L_jᵀ N_{j+1} L_j + V_j."""
    return _values_before(_prefix_products(_compose_matrices, (transpose(L) if reverse else L, V), reverse)[1], reverse)


def covariances(A: Array, Q: Array, h: Array, w: Array) -> Array:
    """Return the filter's covariance P before the site of each row of a chain."""
    pieces = A, Q, w[:, None, None] * outer(h, h)
    return _values_before(_prefix_products(_compose_steps, pieces, False)[1], False)
