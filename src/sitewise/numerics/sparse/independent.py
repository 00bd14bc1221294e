"""Elimination of independent variables before all others: the larger of two crossed groups, such as students.

Let s be variables without entries between each other, with the diagonal D = P_ss and few entries C = P_sr each.  Then

    P_rr − Cᵀ D⁻¹ C      is left of the matrix (the reduced matrix),     log|P| = Σ log d + log|reduced matrix|
    Σ_sr = −D⁻¹ C Σ_rr,     Σ_ss = D⁻¹ − D⁻¹ C Σ_rs     on the pattern

Sums run over pairs of entries in the same row of C.  Pairs, and where they are in the reduced matrix, are found once
per pattern, so that a factorisation adds all updates in one pass and makes no dense front of these variables.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp

from sitewise.numerics.sparse.pairs import distinct_pairs


@dataclasses.dataclass(slots=True, eq=False)
class Independent:
    """Independent variables of a matrix with given entries, and the pattern of the reduced matrix.

    variables     the independent variables, in the order of elimination
    diagonal      their entries on the diagonal
    entry         entries of C by rows: numbers among the entries of the matrix
    row, column   row in C, and variable, of each of them
    kept, where   entries of the matrix among the other variables, and their numbers in the reduced matrix
    one, other    pairs of entries of C in the same row, each pair once, one ≤ other
    target        number of the pair's entry in the reduced matrix
    i, j          entries of the reduced matrix
    """

    variables: np.ndarray
    diagonal: np.ndarray
    entry: np.ndarray
    row: np.ndarray
    column: np.ndarray
    kept: np.ndarray
    where: np.ndarray
    one: np.ndarray
    other: np.ndarray
    target: np.ndarray
    i: np.ndarray
    j: np.ndarray

    @staticmethod
    def of(size: int, i: np.ndarray, j: np.ndarray, variables: np.ndarray) -> Independent:
        number = np.full(size, -1)
        number[variables] = np.arange(len(variables))
        a, b = number[i] >= 0, number[j] >= 0
        within = np.flatnonzero(a & b)
        if np.any(i[within] != j[within]):
            raise ValueError("Variables that are eliminated first must have no entries between each other.")
        diagonal = within[np.argsort(number[i[within]])]
        crossed = np.flatnonzero(a ^ b)
        row = number[np.where(a, i, j)[crossed]]
        by_row = np.argsort(row, kind="stable")
        entry, row = crossed[by_row], row[by_row]
        column = np.where(a[entry], j[entry], i[entry])
        # The number of entries of the row from each entry on.
        count = np.cumsum(np.bincount(row, minlength=len(variables)))[row] - np.arange(len(row))
        one = np.repeat(np.arange(len(row)), count)
        other = one + np.arange(len(one)) - np.repeat(np.cumsum(count) - count, count)
        kept = np.flatnonzero(~a & ~b)
        ends = np.concatenate([i[kept], column[one]]), np.concatenate([j[kept], column[other]])
        left_i, left_j, place = distinct_pairs(*ends, size)
        where, target = place[: len(kept)], place[len(kept) :]
        return Independent(
            np.asarray(variables), diagonal, entry, row, column, kept, where, one, other, target,
            left_i, left_j,
        )  # fmt: skip

    def reduced(self, values: np.ndarray, d: np.ndarray, C: np.ndarray) -> np.ndarray:
        """Return the entries of the reduced matrix; d and C are the values of D and C."""
        scaled = C / d[self.row]
        out = -_sums(self.target, scaled[self.one] * C[self.other], len(self.i))
        out[self.where] += values[self.kept]
        return out

    def reduced_dot(
        self, values: np.ndarray, parts: tuple[np.ndarray, np.ndarray], dots: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """Return the derivative of `reduced` in the direction with these values and dots = (ḋ, Ċ)."""
        (d, C), (d_dot, C_dot) = parts, dots
        scaled = C / d[self.row]
        moved = (C_dot - scaled * d_dot[self.row]) / d[self.row]
        each = moved[self.one] * C[self.other] + scaled[self.one] * C_dot[self.other]
        out = -_sums(self.target, each, len(self.i))
        out[self.where] += values[self.kept]
        return out

    def times(self, C: np.ndarray, S: np.ndarray) -> np.ndarray:
        """Return the entries of C S on the pattern of C, for a symmetric S with these entries of the reduced matrix."""
        at, off = S[self.target], self.one != self.other
        out = _sums(self.one, C[self.other] * at, len(C))
        return out + _sums(self.other, off * C[self.one] * at, len(C))

    def row_sums(self, values: np.ndarray) -> np.ndarray:
        """Return sums over the rows of C."""
        return _sums(self.row, values, len(self.variables))


def _sums(at: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(at, values, size).astype(float, copy=False)  # of no values it returns integers


@dataclasses.dataclass(slots=True, eq=False)
class Eliminated:
    """The values of D and C of a factorised matrix."""

    pattern: Independent
    d: np.ndarray
    C: np.ndarray

    @staticmethod
    def of(pattern: Independent, values: np.ndarray) -> Eliminated:
        return Eliminated(pattern, values[pattern.diagonal], values[pattern.entry])

    @property
    def size(self) -> int:
        return len(self.d)

    def reduced(self, values: np.ndarray) -> np.ndarray:
        """Return the entries of the reduced matrix."""
        return self.pattern.reduced(values, self.d, self.C)

    def reduced_dot(self, direction: np.ndarray) -> np.ndarray:
        """Return the derivative of the reduced matrix."""
        dots = direction[self.pattern.diagonal], direction[self.pattern.entry]
        return self.pattern.reduced_dot(direction, (self.d, self.C), dots)

    def matrix(self, place: np.ndarray) -> sp.csr_matrix:
        """Return C with its columns by the place of the variables."""
        at = self.pattern
        ends = np.concatenate([[0], np.cumsum(np.bincount(at.row, minlength=self.size))])
        return sp.csr_matrix((self.C, place[at.column], ends), (self.size, len(place)))

    def inverse(self, S: np.ndarray, entries: int) -> np.ndarray:
        """Return the entries of Σ, given its entries S on the pattern of the reduced matrix."""
        at, out = self.pattern, np.empty(entries)
        out[at.kept] = S[at.where]
        crossed = -at.times(self.C, S) / self.d[at.row]
        out[at.entry] = crossed
        out[at.diagonal] = (1.0 - at.row_sums(self.C * crossed)) / self.d
        return out

    def inverse_dot(self, S: np.ndarray, S_dot: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return the derivative of `inverse` in the direction with these values."""
        at, out = self.pattern, np.empty(len(direction))
        d_dot, C_dot = direction[at.diagonal], direction[at.entry]
        out[at.kept] = S_dot[at.where]
        crossed = -at.times(self.C, S) / self.d[at.row]
        moved = at.times(C_dot, S) + at.times(self.C, S_dot) + d_dot[at.row] * crossed
        crossed_dot = -moved / self.d[at.row]
        out[at.entry] = crossed_dot
        own = (1.0 - at.row_sums(self.C * crossed)) / self.d
        out[at.diagonal] = -(at.row_sums(C_dot * crossed + self.C * crossed_dot) + d_dot * own) / self.d
        return out
