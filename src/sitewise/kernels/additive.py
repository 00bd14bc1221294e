"""Additive kernel: main effects and pairwise interactions of columns, each with mean 0 over the training rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays.engine import Array, is_host, namespace, stop_gradient
from sitewise.checks import must_be, one_number
from sitewise.kernels.base import Kernel, Pull
from sitewise.kernels.centred import Centred
from sitewise.kernels.one_column import Levels, correlations, correlations_and_slopes
from sitewise.kernels.stationary import Matern52, Stationary
from sitewise.types import ArrayField, fixed, module, positive, replace

_NODES = 32  # per column; a column with more distinct values is represented by this number of quantiles
_BLOCK_ELEMENTS = 16384  # entries of a block of the matrix, whose temporaries then stay in the CPU cache


@module
class Additive(Kernel):
    """Additive kernel (GAM, functional ANOVA) offset + Σ_j κ_j + interaction · Σ_{i<j} κ_i κ_j, with identified terms.

    κ_j is the kernel `base` on column j alone, conditioned on f having mean 0 over the rows (Durrande et al. 2012),

        κ_j(x, x') = σ_j² [κ(x, x') − m(x) m(x') / M],     m(x) = ∫ κ(x, s) dμ_j(s),   M = ∬ κ(s, s') dμ_j(s) dμ_j(s'),

    and a product κ_i κ_j describes functions whose mean over either column is 0 for every value of the other column.
    The terms are therefore identified: no term can represent another (orthogonal additive kernels: Lu, Boukouvalas &
    Hensman 2022).  μ_j is the distribution of column j over the rows, which suits columns of a few distinct values as
    well as continuous columns.  The pairs need no matrices of their own, because
    Σ_{i<j} κ_i κ_j = ½ [(Σ κ_j)² − Σ κ_j²].  `Additive.of` makes the kernel from rows.

    Parameters
    ----------
    base : Stationary
        The kernel of single columns.  Its lengthscale, in `units` of the columns, and its variance σ² are one number
        for all columns or one number per column.
    offset : float, default=1.0
        The variance of a constant; learned.
    interaction : float, default=None
        The factor of the pairs; learned.  None means no pairs.
    units : float or array of shape (n_columns,), default=1.0
        The units of the columns; held fixed.
    nodes : array of shape (n_nodes, n_columns), default=None
        Values that represent the distribution of each column.
    weight : array of shape (n_nodes, n_columns), default=None
        The share of each node; the shares of a column add up to 1.
    """

    base: Stationary = fixed()
    offset: ArrayField = positive(default=1.0)
    interaction: ArrayField = positive(default=None)
    units: ArrayField = fixed(default=1.0)
    nodes: ArrayField = fixed(default=None)
    weight: ArrayField = fixed(default=None)

    @staticmethod
    def of(
        X: Array,
        order: int = 2,
        columns: Sequence[int] | None = None,
        base: Stationary | None = None,
        weight: Array | None = None,
    ) -> Additive:
        """Return the kernel for the rows X: main effects of columns, and their pairs.

        Parameters
        ----------
        X : array of shape (n_rows, n_columns)
            The training rows.
        order : int, default=2
            1 for main effects, 2 for main effects and pairs.
        columns : sequence of int, default=None
            The columns with effects; None for all columns.
        base : Stationary, default=None
            The kernel of single columns, with its lengthscale in standard deviations of the columns; None is a
            Matérn 5/2 kernel.
        weight : array of shape (n_rows,), default=None
            The weight of each row; None gives all rows weight 1.
        """
        if order not in (1, 2) or isinstance(order, bool):
            raise ValueError(f"order must be 1 (main effects) or 2 (main effects and pairs), got {order!r}.")
        X = np.asarray(X, float)
        X = X if columns is None else X[:, list(columns)]
        count, spread = X.shape[1], np.std(X, axis=0)
        measures = [_measure(column, weight) for column in X.T]
        return Additive(
            Matern52(2.0, 4.0 / count) if base is None else base,
            interaction=None if order == 1 else np.float64(0.5),  # type: ignore[arg-type]
            units=np.where(spread > 0, spread, 1.0),
            nodes=np.stack([nodes for nodes, _ in measures], axis=1),
            weight=np.stack([weight for _, weight in measures], axis=1),
            active_dims=None if columns is None else tuple(columns),
        )

    def check(self, columns: int) -> None:
        super().check(columns)
        must_be(self.base, Stationary, "The base of Additive", "Matern52(), a stationary kernel of sitewise.kernels")
        if type(self.base).slope is Stationary.slope:
            raise ValueError(
                f"Additive: {type(self.base).__name__} cannot be its base; RBF and the Matérn kernels can."
            )
        one_number(self, "offset", *(["interaction"] if self.interaction is not None else []))
        seen = self.seen(columns)
        if np.ndim(self.nodes) != 2 or np.shape(self.nodes)[1] != seen or np.shape(self.weight) != np.shape(self.nodes):
            raise ValueError(
                f"Additive: nodes and weight must be tables of {seen} columns; Additive.of(X) makes them from rows."
            )
        for name, value in (("lengthscale", self.base.lengthscale), ("variance", self.base.variance)):
            if np.shape(value) not in ((), (seen,)):
                raise ValueError(
                    f"Additive: the {name} of the base must be one number or one for each of the {seen} columns, got "
                    f"the shape {np.shape(value)}."
                )

    @property
    def lengthscale(self) -> Array:
        """The lengthscale ℓ_j of every column, in the units of the data."""
        return self.base.lengthscale * self.units * np.ones(np.shape(self.nodes)[1])

    @property
    def variance(self) -> Array:
        """The variance σ_j² of every column."""
        return self.base.variance * np.ones(np.shape(self.nodes)[1])

    @property
    def effects(self) -> tuple[Centred, ...]:
        """The main effects κ_j as separate kernels, on the active columns of this kernel."""
        return tuple(
            Centred(
                replace(self.base, lengthscale=self.lengthscale[j], variance=self.variance[j]),
                self.nodes[:, [j]],
                self.weight[:, j],
                active_dims=(j,),
            )
            for j in range(np.shape(self.nodes)[1])
        )

    def pairs(self, A: Array, B: Array) -> Array:
        if is_host(A, B, *jax.tree.leaves(self)):
            return self.pairs_with_pull(A, B)[0]
        nodes, weight = (stop_gradient(jnp.asarray(v, A.dtype)) for v in (self.nodes, self.weight))
        each = (A.T, B.T, nodes.T, weight.T, jnp.asarray(self.lengthscale), jnp.asarray(self.variance))

        def add(sums: tuple[Array, Array], column: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
            a, b, s, w, length, variance = column

            def shape(x: Array, y: Array) -> Array:
                return self.base.shape(((x[:, None] - y[None, :]) / length) ** 2)

            left, right, whole = shape(a, s) @ w, shape(b, s) @ w, w @ shape(s, s) @ w
            one = variance * (shape(a, b) - left[:, None] * right / whole)
            return (sums[0] + one, sums[1] + one * one), None

        none = jnp.zeros((A.shape[0], B.shape[0]), A.dtype)
        (total, squares), _ = lax.scan(jax.checkpoint(add), (none, none), each)
        return self._combined(total, squares)

    def _combined(self, total: Array, squares: Array) -> Array:
        """Return the kernel, given Σ κ_j and Σ κ_j²."""
        pairs = 0.0 if self.interaction is None else 0.5 * self.interaction * (total * total - squares)
        return self.offset + total + pairs

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        same = B is A
        columns = [self._column(A, B, j) for j in range(A.shape[1])]
        K = np.empty((len(A), len(B)))
        for rows, stop in _blocks(len(A), len(B), same):
            total = np.zeros((len(A[rows]), stop))
            squares = np.zeros_like(total)
            for column in columns:
                one = column.values(rows, stop)
                total += one
                squares += one * one
            K[rows, :stop] = self._combined(total, squares)
            if same:
                K[: rows.start, rows] = K[rows, : rows.start].T

        def pull(bar: np.ndarray) -> Additive:
            by_length, by_variance = np.zeros(len(columns)), np.zeros(len(columns))
            by_pairs = 0.0
            for rows, stop in _blocks(len(A), len(B), same):
                here = np.array(bar[rows, :stop])
                if same:
                    here[:, : rows.start] += bar[: rows.start, rows].T
                each = [column.values_and_slopes(rows, stop) for column in columns]
                total = np.sum([one for one, _ in each], axis=0)
                for j, (column, (one, slopes)) in enumerate(zip(columns, each, strict=True)):
                    by_one = here
                    if self.interaction is not None:
                        by_one = total - one
                        by_one *= here
                        by_pairs += 0.5 * np.vdot(by_one, one)
                        by_one *= self.interaction
                        by_one += here
                    by_variance[j] += np.vdot(by_one, one) / column.variance
                    by_length[j] += column.slope(rows, stop, by_one, slopes)
            by_own = by_length / self.lengthscale * self.units
            shared = np.ndim(self.base.lengthscale) == 0, np.ndim(self.base.variance) == 0
            by_base = replace(
                self.base,
                lengthscale=np.sum(by_own) if shared[0] else by_own,
                variance=np.sum(by_variance) if shared[1] else by_variance,
            )
            return replace(
                self,
                base=by_base,
                offset=np.sum(bar),
                interaction=None if self.interaction is None else by_pairs,
                units=by_length / self.units if np.ndim(self.units) else np.sum(by_length) / self.units,
                nodes=np.zeros_like(self.nodes),
                weight=np.zeros_like(self.weight),
            )

        return K, pull

    def _column(self, A: np.ndarray, B: np.ndarray, j: int) -> _Column:
        """Return κ_j between A and B, ready to be computed in blocks."""
        s, w, length = self.nodes[:, j] / self.lengthscale[j], self.weight[:, j], self.lengthscale[j]
        a = A[:, j] / length
        b = a if B is A else B[:, j] / length
        whole, levels = _mean(self.base, s, s, w), Levels.of(self.base, a, b)
        if levels is None:
            left = _mean(self.base, a, s, w)
            right = left if b is a else _mean(self.base, b, s, w)
        else:
            m, slopes = _mean(self.base, levels.values, s, w)
            left, right = ((m[at], slopes[at]) for at in (levels.a, levels.b))
        return _Column(self.base, a, b, levels, self.variance[j], left, right, (w @ whole[0], w @ whole[1]))

    def diag(self, A: Array) -> Array:
        xp = namespace(A, *jax.tree.leaves(self))
        nodes, weight = (stop_gradient(xp.asarray(v, A.dtype)) for v in (self.nodes, self.weight))

        def means(X: Array) -> Array:
            apart = (X[:, None, :] - nodes[None, :, :]) / self.lengthscale
            return xp.sum(self.base.shape(apart**2) * weight, axis=1)

        each = self.variance * xp.maximum(1 - means(A) ** 2 / xp.sum(means(nodes) * weight, axis=0), 0.0)
        return self._combined(xp.sum(each, axis=1), xp.sum(each * each, axis=1))


class _Column(NamedTuple):
    """One κ_j between two tables, computed in blocks.

    `a` and `b` are in lengthscales; `levels` is for columns of few values.  `left`, `right` and `whole` are m at the
    rows of A, m at the rows of B, and M, each with its derivative in log ℓ.
    """

    base: Stationary
    a: np.ndarray
    b: np.ndarray
    levels: Levels | None
    variance: float
    left: tuple[np.ndarray, np.ndarray]
    right: tuple[np.ndarray, np.ndarray]
    whole: tuple[float, float]

    def values(self, rows: slice, stop: int) -> np.ndarray:
        """Return κ_j of a block: these rows, and the columns before `stop`."""
        if self.levels is not None:
            return self._centred(self.levels.block(self.levels.table, rows, stop), rows, stop)
        return self._centred(correlations(self.base, self.a[rows], self.b[:stop]), rows, stop)

    def values_and_slopes(self, rows: slice, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return κ_j of a block, and the derivatives of the correlations in log ℓ."""
        if self.levels is not None:
            found, slopes = (self.levels.block(table, rows, stop) for table in (self.levels.table, self.levels.slopes))
        else:
            found, slopes = correlations_and_slopes(self.base, self.a[rows], self.b[:stop])
        return self._centred(found, rows, stop), slopes

    def slope(self, rows: slice, stop: int, bar: np.ndarray, slopes: np.ndarray) -> float:
        """Return Σ bar · ∂κ_j / ∂log ℓ of a block, given the derivatives of the correlations."""
        (m, dm), (n, dn), (M, dM) = (self.left[0][rows], self.left[1][rows]), self.right, self.whole
        right, slope_right = bar @ n[:stop], bar @ dn[:stop]
        means = (dm @ right + m @ slope_right) / M - (m @ right) * dM / M**2
        return float(self.variance * (np.vdot(bar, slopes) - means))

    def _centred(self, found: np.ndarray, rows: slice, stop: int) -> np.ndarray:
        found -= np.multiply.outer(self.left[0][rows] / self.whole[0], self.right[0][:stop])
        found *= self.variance
        return found


def _mean(base: Stationary, x: np.ndarray, s: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return m at the values x, and its derivative in log ℓ; x and the nodes s are in lengthscales."""
    found, slopes = correlations_and_slopes(base, x, s)
    return found @ w, slopes @ w


def _blocks(rows: int, columns: int, same: bool) -> Iterator[tuple[slice, int]]:
    """Yield the rows and the number of columns of each block; of a symmetric matrix, blocks end at the diagonal."""
    size = max(1, _BLOCK_ELEMENTS // max(columns, 1))
    for start in range(0, rows, size):
        end = min(start + size, rows)
        yield slice(start, end), end if same else columns


def _measure(column: np.ndarray, weight: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """Return `_NODES` values of a column and their shares.

    A column with more distinct values is represented by quantiles.  With fewer, unused places have the share 0.
    """
    nodes, place = np.unique(column, return_inverse=True)
    total = np.bincount(np.ravel(place), None if weight is None else np.asarray(weight, float))
    share = total / np.sum(total)
    if len(nodes) > _NODES:
        at = np.searchsorted(np.cumsum(share), (np.arange(_NODES) + 0.5) / _NODES)
        return nodes[at], np.full(_NODES, 1 / _NODES)
    unused = _NODES - len(nodes)
    return np.pad(nodes, (0, unused), mode="edge"), np.pad(share, (0, unused))
