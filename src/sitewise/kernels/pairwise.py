"""Kernel of pairwise comparisons: the latent value of a pair of items is the difference of their utilities."""

from __future__ import annotations

import jax
import numpy as np

from sitewise.arrays.engine import Array, is_host, namespace
from sitewise.kernels.base import Kernel, Pull, check_parts
from sitewise.types import fixed, module, replace

_BLOCK_ROWS = 32  # the diagonal is read from covariance matrices of this number of rows


@module
class Pairwise(Kernel):
    """Kernel of pairwise comparisons (preference learning), g(a, b) = f(a) − f(b), where f has the kernel `base`:

        κ((a, b), (a', b')) = κ(a, a') − κ(a, b') − κ(b, a') + κ(b, b')

    A row holds the columns of item a, then the columns of item b.  g(a, b) = −g(b, a), g(a, a) = 0, and g does not
    change if a constant is added to f.  With y = 1 where a was preferred and a two-class likelihood, this is a model of
    preferences.  The choice of one among k items is k − 1 comparisons (`duels.best_of`).  `Posterior.utility` predicts
    the utility f of single items.

    Parameters
    ----------
    base : Kernel
        The kernel of the utility f.
    """

    base: Kernel = fixed()

    def check(self, columns: int) -> None:
        super().check(columns)
        if self.seen(columns) % 2:
            raise ValueError(
                "Pairwise: a row holds the columns of one item, then the same columns of the other item; give an even "
                f"number of columns, got {self.seen(columns)}."
            )
        check_parts(self, (self.base,), self.seen(columns) // 2)

    @staticmethod
    def both(A: Array) -> Array:
        """Return the first items of all rows, then the second items of all rows."""
        half = A.shape[1] // 2
        return namespace(A).concatenate([A[:, :half], A[:, half:]])

    def check_rows(self, X: np.ndarray) -> None:
        self.base.check_rows(self.both(self.active_columns(X)))

    def pairs(self, A: Array, B: Array) -> Array:
        return _differences(_differences(self.base.matrix(self.both(A), self.both(B))).T).T

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        first = self.both(A)
        matrix, pull = self.base.matrix_with_pull(first, None if B is A else self.both(B))
        signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
        return (
            _differences(_differences(matrix).T).T,
            lambda bar: replace(self, base=pull(np.kron(signs, bar))),
        )

    def diag(self, A: Array) -> Array:
        """Return κ(a, a) + κ(b, b) − 2 κ(a, b) of every row."""
        rows, both = A.shape[0], self.both(A)
        first, second, own = both[:rows], both[rows:], self.base.variances(both)
        if is_host(A, *jax.tree.leaves(self)):
            blocks = [slice(at, at + _BLOCK_ROWS) for at in range(0, rows, _BLOCK_ROWS)]
            cross = np.concatenate([np.diagonal(self.base.matrix(first[at], second[at])) for at in blocks])
        else:
            cross = jax.vmap(lambda a, b: self.base.matrix(a[None], b[None])[0, 0])(first, second)
        return namespace(cross, own).maximum(own[:rows] + own[rows:] - 2 * cross, 0.0)


def _differences(K: Array) -> Array:
    """Return the first half of the rows minus the second half."""
    half = K.shape[0] // 2
    return K[:half] - K[half:]


@module
class Items(Kernel):
    """Kernel of the utility f at single items, given pairwise comparisons (for `Posterior.utility`)."""

    duels: Pairwise = fixed()

    def pairs(self, A: Array, B: Array) -> Array:
        return self.duels.base.matrix(A, B)

    def cross(self, X: Array, rows: Array) -> Array:
        """Return the covariances of f at the items X with the differences of f in the comparisons."""
        return _differences(self.duels.base.matrix(X, Pairwise.both(self.duels.active_columns(rows))).T).T

    def diag(self, A: Array) -> Array:
        return self.duels.base.variances(A)
