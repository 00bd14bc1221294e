"""Additive kernel: main effects and pairwise interactions of columns, each with mean 0 over the training rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays.engine import Array, is_host, namespace, stop_gradient
from sitewise.checks import must_be, one_number
from sitewise.kernels.base import Kernel, Pull
from sitewise.kernels.centred import Centred
from sitewise.kernels.centred_column import CentredColumn, centred_column
from sitewise.kernels.stationary import Matern52, Stationary
from sitewise.types import ArrayField, fixed, module, positive, replace

_NODES = 32  # per column; a column with more distinct values is represented by this number of quantiles
_BLOCK_ELEMENTS = 32768  # entries of a block of the matrix, whose temporaries then stay in the CPU cache


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
                one *= one
                squares += one
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
                each = [column.values(rows, stop) for column in columns]
                # ∂/∂κ_j of Σ here · (Σ κ_j + interaction · Σ_{i<j} κ_i κ_j) is `weight` − interaction · here · κ_j.
                weight = here
                if self.interaction is not None:
                    total = np.sum(each, axis=0)
                    weight = (1 + self.interaction * total) * here
                    total *= total
                    by_pairs += 0.5 * np.vdot(here, total)
                for j, (column, one) in enumerate(zip(columns, each, strict=True)):
                    slopes = column.slopes(rows, stop)
                    by_variance[j] += np.vdot(weight, one)
                    by_length[j] += np.vdot(weight, slopes)
                    if self.interaction is not None:
                        own = here * one
                        squared = np.vdot(own, one)
                        by_pairs -= 0.5 * squared
                        by_variance[j] -= self.interaction * squared
                        by_length[j] -= self.interaction * np.vdot(own, slopes)
            by_own = by_length / self.lengthscale * self.units
            by_variance /= self.variance
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

    def _column(self, A: np.ndarray, B: np.ndarray, j: int) -> CentredColumn:
        """Return κ_j between A and B, ready to be computed in blocks."""
        length = self.lengthscale[j]
        a = A[:, j] / length
        b = a if B is A else B[:, j] / length
        return centred_column(self.base, self.variance[j], a, b, self.nodes[:, j] / length, self.weight[:, j])

    def diag(self, A: Array) -> Array:
        xp = namespace(A, *jax.tree.leaves(self))
        nodes, weight = (stop_gradient(xp.asarray(v, A.dtype)) for v in (self.nodes, self.weight))

        def means(X: Array) -> Array:
            apart = (X[:, None, :] - nodes[None, :, :]) / self.lengthscale
            return xp.sum(self.base.shape(apart**2) * weight, axis=1)

        each = self.variance * xp.maximum(1 - means(A) ** 2 / xp.sum(means(nodes) * weight, axis=0), 0.0)
        return self._combined(xp.sum(each, axis=1), xp.sum(each * each, axis=1))


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
