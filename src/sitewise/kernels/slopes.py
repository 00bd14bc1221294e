"""Kernel of a function and its partial derivatives: rows that observe f, and rows that observe ∂f."""

from __future__ import annotations

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.checks import must_be, one_number
from sitewise.kernels.base import Kernel
from sitewise.kernels.stationary import RBF
from sitewise.types import ArrayField, fixed, module, positive


@module
class Slopes(Kernel):
    """Kernel of a function and its slopes, for monotone functions: the covariance of f and c·∂f, with an RBF for f.

    The last active column marks the kind of each row: 0 for f at the other columns, j + 1 for c ∂f/∂x_j there.  With
    k = κ(x, x') and u = (x − x')/ℓ²,

        cov(f, f') = k,   cov(∂_i f, f') = −u_i k,   cov(f, ∂_j f') = u_j k
        cov(∂_i f, ∂_j f') = (δ_ij/ℓ_i² − u_i u_j) k

    With a probit likelihood, a label 1 at a row of kind j + 1 states that f increases in column j there: the label
    has the probability Φ(c s) at a slope s.  `monotone.rows` makes such rows.

    Parameters
    ----------
    base : RBF
        The kernel of f.
    sharpness : float, default=10.0
        c; the larger it is, the sharper is the statement that f increases.  Held fixed unless trained by name.
    """

    base: RBF = fixed()
    sharpness: ArrayField = positive(default=10.0, train=False)

    def check(self, columns: int) -> None:
        super().check(columns)
        must_be(self.base, RBF, "The base of Slopes", "RBF(), whose functions have slopes everywhere")
        if self.base.active_dims is not None:
            raise ValueError(
                "Slopes: give active_dims to Slopes itself, not to its base; the last of them marks values and slopes."
            )
        if self.seen(columns) < 2:
            raise ValueError(
                "Slopes needs input columns and a last column that is 0 for values and 1, 2, … for slopes."
            )
        self.base.check(self.seen(columns) - 1)
        one_number(self, "sharpness")

    def check_rows(self, X: np.ndarray) -> None:
        A = self.active_columns(X)
        odd = A[~np.isin(A[:, -1], np.arange(A.shape[1])), -1]
        if len(odd):
            raise ValueError(
                f"Slopes: the last column must be 0 for a value, or 1 to {A.shape[1] - 1} for the slope in an input "
                f"column; a row has {odd[0]:g}."
            )

    def _slope_columns(self, A: Array) -> Array:
        """Return a matrix (rows, inputs) with c at the column whose slope a row observes, and 0 elsewhere."""
        xp, inputs = namespace(A, self.sharpness), A.shape[1] - 1
        return self.sharpness * (A[:, -1:] == xp.arange(1, inputs + 1)).astype(A.dtype)

    def _lengths(self, A: Array) -> Array:
        """Return the lengthscale ℓ of every input column."""
        length: Array = self.base.lengthscale
        xp = namespace(length)
        return xp.broadcast_to(xp.asarray(length), (A.shape[1] - 1,))

    def pairs(self, A: Array, B: Array) -> Array:
        a, b, left, right = A[:, :-1], B[:, :-1], self._slope_columns(A), self._slope_columns(B)
        k = self.base.matrix(a, b)
        xp = namespace(k, left, right)
        value_a, value_b = (A[:, -1] == 0).astype(A.dtype), (B[:, -1] == 0).astype(A.dtype)
        square = self._lengths(A) ** 2
        # Σ_i left_i u_i and Σ_j right_j u_j of every pair, by products of matrices.
        by_left = ((left * a) / square).sum(axis=1)[:, None] - (left / square) @ b.T
        by_right = a @ (right / square).T - ((right * b) / square).sum(axis=1)
        both = (left / square) @ right.T - by_left * by_right
        one = xp.outer(value_a, value_b) - by_left * value_b + value_a[:, None] * by_right
        return k * (one + both)

    def diag(self, A: Array) -> Array:
        slopes = self._slope_columns(A) / self._lengths(A)
        return self.base.variances(A[:, :-1]) * ((A[:, -1] == 0) + (slopes**2).sum(axis=1))
