"""Multifrontal factorisation of a sparse symmetric matrix, with solves, log determinant and Gaussian samples.

Children first, the front of a block is assembled from the matrix and from its children's updates, with own variables s
and later ones r:

    F = [F_ss, ·; F_rs, F_rr],    F_ss = L Lᵀ,    G = F_rs F_ss⁻¹,    update to the parent  U = F_rr − G F_rsᵀ

**Linear constraints.** With multipliers λ the matrix is [P, C; Cᵀ, 0], and the inverse of this matrix holds, in place
of P⁻¹, the covariance of N(0, P⁻¹) given Cᵀx = 0.  P may be singular in directions that the constraints fix, if the
part of P that is eliminated before the last block is not.  The last block is then [S, T; Tᵀ, −H], and is eliminated in
the order λ, rest: H = C_iᵀ P_ii⁻¹ C_i and S + T H⁻¹ Tᵀ are positive definite.
log_det is log|H| + log|S + T H⁻¹ Tᵀ| + Σ log|F_ss|, the log determinant of P on {x: Cᵀx = 0} plus log|CᵀC|.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.linalg import lapack

from sitewise.numerics.sparse.analysis import Analysis
from sitewise.numerics.sparse.fronts import assembled, minus_square
from sitewise.numerics.sparse.independent import Eliminated


@dataclasses.dataclass(slots=True, eq=False)
class Factor:
    """The factor of a matrix: per block F_ss⁻¹ = JᵀJ (J = L⁻¹) and G.

    ok      whether the matrix is positive definite; if not, solutions are NaN
    last    the inverse of a constrained block
    first   the variables that were eliminated before the blocks
    """

    analysis: Analysis
    J: list[np.ndarray]
    G: list[np.ndarray]
    log_det: float
    ok: bool
    last: Constrained | None = None
    first: Eliminated | None = None

    def block_inverse(self, t: int) -> np.ndarray:
        """Return F_ss⁻¹ of block t."""
        if self.last is not None and t == len(self.J) - 1:
            return self.last.inverse
        half = lapack.dlauum(self.J[t], lower=1)[0]  # JᵀJ on and below the diagonal
        return half + np.tril(half, -1).T

    def _block_solve(self, t: int, b: np.ndarray) -> np.ndarray:
        """Return F_ss⁻¹ b of block t."""
        if self.last is not None and t == len(self.J) - 1:
            return self.last.inverse @ b
        return self.J[t].T @ (self.J[t] @ b)

    def solve(self, b: np.ndarray) -> np.ndarray:
        """Return the solution x of the linear system, for a vector b or for columns."""
        blocks, place = self.analysis.blocks, self.analysis.place
        if not self.ok:
            return np.full(np.shape(b), np.nan)
        x = np.array(b[self.analysis.order], float)
        if self.first is not None:
            C, q = self.first.matrix(place), self.first.size
            x[:q] = (x[:q].T / self.first.d).T
            x -= C.T @ x[:q]
        for t, block in enumerate(blocks):
            if len(block.rows):
                x[block.rows] -= self.G[t] @ x[block.start : block.start + block.size]
        for t in range(len(blocks) - 1, -1, -1):
            block, own = blocks[t], slice(blocks[t].start, blocks[t].start + blocks[t].size)
            x[own] = self._block_solve(t, x[own])
            if len(block.rows):
                x[own] -= self.G[t].T @ x[block.rows]
        return self._to_first(x)[place]

    def _to_first(self, x: np.ndarray) -> np.ndarray:
        """Return x with −D⁻¹ C x_r added to the variables that were eliminated before the blocks."""
        if self.first is not None:
            x[: self.first.size] -= ((self.first.matrix(self.analysis.place) @ x).T / self.first.d).T
        return x

    def _backward(self, x: np.ndarray, upto: int) -> np.ndarray:
        """Return x with −Gᵀ x_r added in every block before number `upto`, parents first."""
        for t in range(upto - 1, -1, -1):
            block = self.analysis.blocks[t]
            if len(block.rows):
                x[block.start : block.start + block.size] -= self.G[t].T @ x[block.rows]
        return self._to_first(x)

    def sample(self, white: np.ndarray) -> np.ndarray:
        """Return x = R white with R Rᵀ the inverse: Gaussian samples from standard normal numbers, in columns.

        Under constraints, x_i given the last block is corrected by P_ii⁻¹ C_i H⁻¹ times the violation of Cᵀx = 0.
        """
        x, blocks = np.array(white, float), self.analysis.blocks
        if self.first is not None:
            x[: self.first.size] = (x[: self.first.size].T / np.sqrt(self.first.d)).T
        if self.last is None:
            for t, block in enumerate(blocks):
                own = slice(block.start, block.start + block.size)
                x[own] = self.J[t].T @ x[own]
            return self._backward(x, len(blocks))[self.analysis.place]
        end = blocks[-1]
        cut = self.analysis.size - self.analysis.multipliers
        for t, block in enumerate(blocks[:-1]):
            own = slice(block.start, block.start + block.size)
            x[own] = self.J[t].T @ x[own]
        x[end.start : cut] = self.last.root_transposed @ x[end.start : cut]
        x[cut:] = 0.0
        x = self._backward(x, len(blocks) - 1)
        correction = np.zeros_like(x)
        correction[cut:] = self.last.multipliers_for(self.last.C.T @ x[:cut])
        return (x + self._backward(correction, len(blocks) - 1))[self.analysis.place]


@dataclasses.dataclass(slots=True, eq=False)
class Constrained:
    """The last block under linear constraints.

    inverse           of [S, T; Tᵀ, −H]
    root_transposed   J with JJᵀ = (S + T H⁻¹ Tᵀ)⁻¹
    H_root            Cholesky factor of H
    C                 columns of the constraints, in the order of elimination
    """

    inverse: np.ndarray
    root_transposed: np.ndarray
    H_root: np.ndarray
    C: np.ndarray

    def multipliers_for(self, violation: np.ndarray) -> np.ndarray:
        """Return H⁻¹ times the violation of the constraints."""
        return lapack.dpotrs(self.H_root, violation, lower=1)[0]


def factorise(analysis: Analysis, values: np.ndarray) -> Factor:
    """Factorise the matrix with these values at the entries of the analysis."""
    J: list[np.ndarray] = []
    G: list[np.ndarray] = []
    updates: dict[int, np.ndarray] = {}
    log_det, nothing = 0.0, np.empty((0, 0))
    first, inner = None, values
    if analysis.first is not None:
        first = Eliminated.of(analysis.first, values)
        if not np.all(first.d > 0):
            return Factor(analysis, [], [], np.nan, False)
        log_det, inner = float(np.sum(np.log(first.d))), first.reduced(values)
    for t, block in enumerate(analysis.blocks):
        if analysis.multipliers and t == len(analysis.blocks) - 1:
            found = _with_constraints(analysis, values, J, G, log_det, assembled(analysis, t, inner, updates)[0])
            found.first = first
            return found
        F_ss, F_rs, F_rr = assembled(analysis, t, inner, updates)
        L, info = lapack.dpotrf(F_ss, lower=1, clean=1, overwrite_a=1)
        if info:
            return Factor(analysis, [], [], np.nan, False)
        log_det += 2.0 * np.sum(np.log(np.diagonal(L)))
        J.append(lapack.dtrtri(L, lower=1, overwrite_c=1)[0])
        if not len(block.rows):
            G.append(nothing)
            continue
        half = F_rs @ J[t].T
        updates[t] = minus_square(half, F_rr)
        G.append(half @ J[t])
    return Factor(analysis, J, G, float(log_det), bool(np.isfinite(log_det)), first=first)


def _with_constraints(
    analysis: Analysis, values: np.ndarray, J: list[np.ndarray], G: list[np.ndarray], log_det: float, F: np.ndarray
) -> Factor:
    """Eliminate the last block with the front F, which includes the multipliers."""
    k = analysis.multipliers
    cut = len(F) - k
    full = np.tril(F) + np.tril(F, -1).T
    S, T, H = full[:cut, :cut], full[:cut, cut:], -full[cut:, cut:]
    H_root, failed = lapack.dpotrf(H, lower=1, clean=1)
    if failed:
        return Factor(analysis, [], [], np.nan, False)
    HT = lapack.dpotrs(H_root, T.T, lower=1)[0]
    L, failed = lapack.dpotrf(S + T @ HT, lower=1, clean=1)
    if failed:
        return Factor(analysis, [], [], np.nan, False)
    log_det += 2.0 * (np.sum(np.log(np.diagonal(L))) + np.sum(np.log(np.diagonal(H_root))))
    root = lapack.dtrtri(L, lower=1)[0]
    inverse, H_inverse = np.empty_like(full), lapack.dpotrs(H_root, np.eye(k), lower=1)[0]
    inverse[:cut, :cut] = root.T @ root
    inverse[cut:, :cut] = HT @ inverse[:cut, :cut]
    inverse[:cut, cut:] = inverse[cut:, :cut].T
    inverse[cut:, cut:] = HT @ inverse[:cut, cut:] - H_inverse
    C = np.zeros((analysis.size - k, k))
    pi, pj = analysis.place[analysis.i], analysis.place[analysis.j]
    high, low = np.maximum(pi, pj), np.minimum(pi, pj)
    there = (high >= len(C)) & (low < len(C))
    C[low[there], high[there] - len(C)] = values[there]
    last = Constrained(inverse, root.T, H_root, C)
    return Factor(analysis, [*J, root], [*G, np.empty((0, 0))], float(log_det), bool(np.isfinite(log_det)), last)
