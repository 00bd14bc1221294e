"""Kernel of a categorical column: random intercepts of groups, or outputs of a multi-output model."""

from __future__ import annotations

import numpy as np

from sitewise.arrays.engine import Array, namespace
from sitewise.checks import at_least, known
from sitewise.kernels.base import Kernel, Pull, zeros
from sitewise.types import ArrayField, module, positive, real, replace, static


@module
class Index(Kernel):
    """Kernel of a categorical column: random effects (random intercepts) of groups, or several outputs.

    The covariance of two levels is B[x, x'] with B = W Wᵀ + diag(κ), where x is the level of a row: the number in
    `column`.  A product with another kernel gives every level a separate function (varying slopes,
    coregionalisation).  A sum of such products combines functions of several lengthscales.  A product of two Index
    kernels has a level for every pair of levels.  In a product only the product of the scale of B and the other
    kernel's variance is identified: hold one of them fixed.

    Parameters
    ----------
    column : int, default=0
        The number of the column, among the active columns, whose values are the levels.
    rank : int, default=0
        The number of columns of W.  With rank 0, B = κ I: every level has an independent offset of variance `kappa` (a
        random intercept).  Any number is a level, and a new level has the prior of the known levels.  With rank ≥ 1 the
        levels are 0 … `levels` − 1.  Any other number is a new level: independent of the known levels and of other new
        levels, with the mean of the diagonal of B as its variance.
    levels : int, default=None
        The number of levels; needed for rank ≥ 1.
    kappa : float or array of shape (levels,), default=1.0
        The variance κ of the independent offsets; learned.
    loadings : array of shape (levels, rank), default=None
        W, for rank ≥ 1; learned.
    """

    column: int = static(default=0)
    rank: int = static(default=0)
    levels: int | None = static(default=None)
    kappa: ArrayField = positive(default=1.0)
    loadings: ArrayField = real(default=None)

    def __post_init__(self) -> None:
        at_least("Index: column", self.column, 0)
        object.__setattr__(self, "active_dims", (self.column,))
        if at_least("Index: rank", self.rank, 0) and self.loadings is None:
            if self.levels is None:
                raise ValueError("Index: a rank above 0 needs the number of levels, as in Index(2, rank=1, levels=5).")
            object.__setattr__(
                self, "loadings", _starting_loadings(at_least("Index: levels", self.levels, 1), self.rank)
            )
        super().__post_init__()

    def check(self, columns: int) -> None:
        super().check(columns)
        shapes = [()] if self.loadings is None else [(), (self.levels,)]
        if np.shape(self.kappa) not in shapes:
            raise ValueError(
                f"Index: kappa must be one number{'' if self.loadings is None else ', or one per level'}, got the "
                f"shape {np.shape(self.kappa)}."
            )
        if self.rank and np.shape(self.loadings) != (self.levels, self.rank):
            raise ValueError(
                f"Index: loadings must have the shape {(self.levels, self.rank)} (levels, rank), got "
                f"{np.shape(self.loadings)}."
            )

    def level_dims(self, columns: int) -> tuple[int, ...]:
        return tuple(range(columns))

    def check_rows(self, X: np.ndarray) -> None:
        super().check_rows(X)
        if self.rank and known(X) and not np.all(np.isin(X[:, self.column], np.arange(self.levels or 0))):
            odd = next(v for v in X[:, self.column] if v not in range(self.levels or 0))
            raise ValueError(
                f"Index: column {self.column} must hold the levels 0 to {(self.levels or 0) - 1}, but a row has "
                f"{odd:g}; number the levels, do not scale the column, or give another number of levels."
            )

    @property
    def matrix_of_levels(self) -> np.ndarray:
        """The matrix B, for a rank of at least 1."""
        W = np.asarray(self.loadings)
        return W @ W.T + np.diag(np.broadcast_to(self.kappa, len(W)))

    def _known(self, level: Array) -> tuple[Array, Array]:
        """Return each row's index in W (clipped), and whether its level is known."""
        place = namespace(level).clip(level, 0, len(self.loadings) - 1).astype(int)
        return place, place == level

    def _of_rows(self, level: Array) -> tuple[Array, Array]:
        """Return each row's loadings (0 for a new level), and the variance shared only with rows of the same level."""
        xp = namespace(level, self.kappa, self.loadings)
        (place, old), W = self._known(level), xp.asarray(self.loadings)
        kappa = xp.broadcast_to(xp.asarray(self.kappa), (len(W),))
        new = xp.mean(kappa) + xp.sum(W**2) / len(W)
        return W[place] * old[:, None], xp.where(old, kappa[place], new)

    def pairs(self, A: Array, B: Array) -> Array:
        same = (A[:, :1] == B[:, 0]).astype(A.dtype)
        if self.loadings is None:
            return self.kappa * same
        (left, own), (right, _) = self._of_rows(A[:, 0]), self._of_rows(B[:, 0])
        return left @ right.T + same * own[:, None]

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        same = A[:, :1] == B[:, 0]
        if self.loadings is None:
            return self.kappa * same, lambda bar: replace(self, kappa=np.reshape(np.sum(bar[same]), ()))
        (i, old), (j, too) = self._known(A[:, 0]), self._known(B[:, 0])
        levels, W = len(self.loadings), self.loadings

        def pull(bar: np.ndarray) -> Index:
            # Sums of `bar` over the pairs of rows of every pair of levels; the derivative in W depends on them alone.
            by_pair = np.zeros((levels, levels))
            np.add.at(by_pair, (i[:, None], j), bar * (old[:, None] & too))
            own = np.sum(bar * same, axis=1)
            by_kappa, new = np.bincount(i, own * old, levels), np.sum(own[~old])
            whole = by_kappa + new / levels  # the variance of a new level is the mean of the diagonal
            return replace(
                zeros(self),
                loadings=(by_pair + by_pair.T) @ W + 2 * new / levels * W,
                kappa=np.reshape(np.sum(by_kappa) + new, ()) if np.ndim(self.kappa) == 0 else whole,
            )

        return self.pairs(A, B), pull

    def diag(self, A: Array) -> Array:
        if self.loadings is None:
            return self.kappa * namespace(A).ones(A.shape[0], A.dtype)
        loadings, own = self._of_rows(A[:, 0])
        return own + (loadings**2).sum(axis=1)


def _starting_loadings(levels: int, rank: int) -> np.ndarray:
    """Return starting loadings: a constant column, then cosine waves.  (At W = 0 the derivative would vanish.)"""
    waves = np.cos(np.pi * (np.arange(levels)[:, None] + 0.5) * np.arange(rank) / levels)
    return waves / np.sqrt(rank)
