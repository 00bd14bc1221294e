"""Linear and constant kernels."""

from __future__ import annotations

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.checks import one_number, one_per_column
from sitewise.kernels.base import Kernel, Pull, zeros
from sitewise.types import ArrayField, module, positive, replace


@module
class Linear(Kernel):
    """Linear kernel (Bayesian linear regression), Σ_k variance_k x_k x'_k.

    Parameters
    ----------
    variance : float or array of shape (n_columns,), default=1.0
        The prior variance of the slopes: one number for all columns, or one per column; learned.
    """

    variance: ArrayField = positive(default=1.0)

    def check(self, columns: int) -> None:
        super().check(columns)
        one_per_column(self, self.seen(columns), "variance")

    def pairs(self, A: Array, B: Array) -> Array:
        return (A * self.variance) @ B.T

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        def pull(bar: np.ndarray) -> Linear:
            by_column = np.sum(A * (bar @ B), axis=0)
            whole = np.sum(by_column) if np.size(self.variance) == 1 else by_column
            return replace(zeros(self), variance=np.reshape(whole, np.shape(self.variance)))

        return (A * self.variance) @ B.T, pull

    def diag(self, A: Array) -> Array:
        return (A * A * self.variance).sum(axis=1)


@module
class Constant(Kernel):
    """Constant kernel: one unknown offset (intercept) of this variance, shared by all rows.

    Parameters
    ----------
    variance : float, default=1.0
        The prior variance of the offset; learned.
    """

    variance: ArrayField = positive(default=1.0)

    def check(self, columns: int) -> None:
        super().check(columns)
        one_number(self, "variance")

    def pairs(self, A: Array, B: Array) -> Array:
        return self.variance * namespace(A, B).ones((A.shape[0], B.shape[0]), A.dtype)

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        return self.pairs(A, B), lambda bar: replace(
            zeros(self), variance=np.reshape(np.sum(bar), np.shape(self.variance))
        )

    def diag(self, A: Array) -> Array:
        return self.variance * namespace(A).ones(A.shape[0], A.dtype)
