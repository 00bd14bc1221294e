"""Kernel of monotone transforms of the columns: normal scores learned from the training rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from sitewise.arrays.engine import Array, is_host, stop_gradient
from sitewise.kernels.base import Kernel, Pull, check_parts
from sitewise.types import ArrayField, fixed, module, replace

MAX_SCORE = 3.0
MIN_VALUES = 6  # a column with fewer distinct values is only standardised
KNOTS = 64  # per column; a column with more distinct values is represented by this number of quantiles
MARGIN = 10.0  # ranges by which standardised columns may leave the range of the training rows


@module
class NormalScores(Kernel):
    """Kernel `base` of transformed columns, κ(t(x), t(x')), with t_j(x_j) = Φ⁻¹(share of training rows below x_j).

    t_j interpolates linearly between `knots`, and is constant beyond the outermost knots: skewed columns, and columns
    with extreme values, become standard normal.  A column with fewer than six distinct values is only standardised.
    The transform is data of the kernel, so that it is stored with the model.  `NormalScores.of` makes it from rows.

    Parameters
    ----------
    base : Kernel
        The kernel of the transformed columns.
    knots : array of shape (n_knots, n_columns)
        Values of each column in increasing order.
    scores : array of shape (n_knots, n_columns)
        t_j at the knots.
    """

    base: Kernel = fixed()
    knots: ArrayField = fixed()
    scores: ArrayField = fixed()

    @staticmethod
    def of(X: Array, base: Kernel, weight: Array | None = None) -> NormalScores:
        """Return the kernel for the rows X.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            The training rows.
        base : Kernel
            The kernel of the transformed columns.
        weight : array of shape (n_rows,), default=None
            The weight of each row; None gives all rows weight 1.
        """
        each = [_transform(column, weight) for column in np.asarray(X, float).T]
        knots, scores = (np.stack(columns, axis=1) for columns in zip(*each, strict=True))
        return NormalScores(base, knots, scores)

    def check(self, columns: int) -> None:
        super().check(columns)
        seen = self.seen(columns)
        check_parts(self, (self.base,), seen)
        if np.ndim(self.knots) != 2 or np.shape(self.knots)[1] != seen or np.shape(self.scores) != np.shape(self.knots):
            raise ValueError(
                f"NormalScores: knots and scores must be tables of {seen} columns; NormalScores.of(X, kernel) makes "
                "them from rows."
            )

    def check_rows(self, X: np.ndarray) -> None:
        self.base.check_rows(np.asarray(self.transform(self.active_columns(X))))

    def transform(self, A: Array) -> Array:
        """Return t of the active columns."""
        if is_host(A, *jax.tree.leaves(self)):
            columns = zip(A.T, self.knots.T, self.scores.T, strict=True)
            return np.stack([np.interp(x, knots, scores) for x, knots, scores in columns], axis=1)
        knots, scores = (stop_gradient(jnp.asarray(v, A.dtype)) for v in (self.knots, self.scores))
        return jax.vmap(jnp.interp, in_axes=1, out_axes=1)(A, knots, scores)

    def pairs(self, A: Array, B: Array) -> Array:
        first = self.transform(A)
        return self.base.matrix(first, first if B is A else self.transform(B))

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        matrix, pull = self.base.matrix_with_pull(self.transform(A), None if B is A else self.transform(B))
        none = {name: np.zeros_like(getattr(self, name)) for name in ("knots", "scores")}
        return matrix, lambda bar: replace(self, base=pull(bar), **none)

    def diag(self, A: Array) -> Array:
        return self.base.variances(self.transform(A))


def _transform(column: np.ndarray, weight: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """Return `KNOTS` values of a column and their scores; the last knot is repeated if there are fewer values."""
    values, place = np.unique(column, return_inverse=True)
    total = np.bincount(np.ravel(place), None if weight is None else np.asarray(weight, float))
    if len(values) < MIN_VALUES:
        mean = np.average(values, weights=total)
        spread = float(np.sqrt(np.average((values - mean) ** 2, weights=total)))
        ends = mean + (MARGIN * np.ptp(values) + 1.0) * np.array([-1.0, 1.0])
        scores = (ends - mean) / (spread if spread > 0 else 1.0)
        return tuple(np.pad(a, (0, KNOTS - 2), mode="edge") for a in (ends, scores))  # type: ignore[return-value]
    below = np.cumsum(total) - 0.5 * total
    scores = ndtri(below / np.sum(total))
    inside = np.abs(scores) <= MAX_SCORE
    values, scores = values[inside], scores[inside]
    if len(values) > KNOTS:
        at = np.interp(np.linspace(scores[0], scores[-1], KNOTS), scores, np.arange(len(values)))
        at = np.unique(np.round(at).astype(int))
        values, scores = values[at], scores[at]
    unused = KNOTS - len(values)
    return tuple(np.pad(a, (0, unused), mode="edge") for a in (values, scores))  # type: ignore[return-value]
