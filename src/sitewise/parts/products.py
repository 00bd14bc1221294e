"""A separable function of several columns (space–time, space-varying effects): the product of two parts' covariances.

The variables are pairs of a variable of either part.  With the loads w, w′ of a row, its prior variances k, k′ and the
variances e, e′ of its residuals,

    Q = Q₁ ⊗ Q₂,    log|Q| = n₂ log|Q₁| + n₁ log|Q₂|,    f = (w ⊗ w′)ᵀ x + N(0, e k′ + (k − e) e′)

If the variables of the first part sum to zero in c sets, then n₁ − c replaces n₁, and there are c sets of sums for each
variable of the second part.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

import numpy as np

from sitewise.arrays.engine import Array
from sitewise.kernels.units import Units
from sitewise.parts.base import Columns, Layout, Loads, Part
from sitewise.types import fixed, module, replace, static

MAX_ENTRIES = 20_000_000  # of Q: about 2 GB of memory


@module
class Product(Part):
    """Separable function, with the product of the covariances of two parts, as in space–time processes.

    A map times a series is a separable space–time process, areas or levels times a series are trends that are
    correlated between neighbouring areas or independent per level, and a map times `Linear` is a linear effect that
    varies in space.  Variables are all pairs of a place and a time, whether there are rows or not.

    Only the product of the two variances is determined: hold one of them by
    `Hyperparameters(fixed="kernel.parts.0.parts.1.kernel.variance")`.

    Parameters
    ----------
    parts : tuple of Part, default=()
        The two parts, as in `Product((Map((0, 1)), Series(2)))`.
    columns : tuple, default=()
        None are used; the parts have columns.
    """

    columns: Columns = static(default=(), kw_only=True)
    parts: tuple[Part, ...] = fixed(default=())

    def __post_init__(self) -> None:
        each = self.parts
        if not isinstance(each, tuple | list) or len(each) != 2 or not all(isinstance(part, Part) for part in each):
            raise ValueError("Product takes a pair of parts, as in Product((Map((0, 1)), Series(2))).")
        if self.columns != ():
            raise ValueError("Product takes no columns; give columns to its two parts.")
        object.__setattr__(self, "parts", tuple(each))
        super().__post_init__()
        object.__setattr__(self, "active_dims", None)  # the parts choose their columns

    @property
    def used(self) -> tuple[int | str, ...]:
        return tuple(dict.fromkeys(column for part in self.parts for column in part.used))

    @property
    def local(self) -> bool:  # type: ignore[override]
        return any(part.local for part in self.parts)

    def check(self, columns: int) -> None:
        super().check(columns)
        for part in self.parts:
            part.check(columns)

    def with_numbers(self, names: Sequence[str], columns: int) -> Product:
        return replace(self, parts=tuple(part.with_numbers(names, columns) for part in self.parts))

    def units(self, ranges: np.ndarray, path: str) -> Units:
        found: Units = {}
        for k, part in enumerate(self.parts):
            found |= part.units(part.active_columns(ranges[None])[0], f"{path}.parts.{k}")
        return found

    def started(self, A: np.ndarray, variance: float) -> Product:
        each = zip(self.parts, (variance, 1.0), strict=True)
        return replace(self, parts=tuple(part.started(part.active_columns(A), own) for part, own in each))

    def doubt(self, A: np.ndarray) -> str:
        return next(filter(None, (part.doubt(part.active_columns(A)) for part in self.parts)), "")

    def level_dims(self, columns: int) -> tuple[int, ...]:
        every = np.arange(columns)[None]
        dims = [part.active_columns(every)[0][list(part.level_dims(part.seen(columns)))] for part in self.parts]
        return tuple(int(dim) for dim in np.concatenate(dims))

    def exact_for(self, rows: float) -> bool:
        return all(part.exact_for(rows) for part in self.parts)

    def pairs(self, A: Array, B: Array) -> Array:
        return functools.reduce(operator.mul, (part.matrix(A, B) for part in self.parts))

    def diag(self, A: Array) -> Array:
        return functools.reduce(operator.mul, (part.variances(A) for part in self.parts))

    def layout(self, A: np.ndarray) -> Layout:
        return ProductLayout(self, A)


class ProductLayout(Layout):
    """Pairs of variables: number i n₂ + i′ for the variables i and i′ of the two parts."""

    def __init__(self, part: Product, A: np.ndarray) -> None:
        one, other = self.layouts = [each.layout_with_fixed_loads(each.active_columns(A)) for each in part.parts]
        if len(one.sums) and len(other.sums):
            raise ValueError("Product: the effects of both parts sum to zero; use Area in one of them.")
        self.size = one.size * other.size
        self.off = [np.flatnonzero(layout.i != layout.j) for layout in self.layouts]
        entries = len(one.i) * len(other.i) + len(self.off[0]) * len(self.off[1])
        if entries > MAX_ENTRIES:
            names = " and ".join(type(each).__name__ for each in part.parts)
            raise ValueError(
                f"The product of {names} has {one.size:,} × {other.size:,} variables and {entries:,} entries of the "
                f"precision, more than {MAX_ENTRIES:,}; round places or times, use fewer neighbours, or a sum of parts."
            )
        first, second = self.off
        self.i = np.concatenate([self._pairs(one.i, other.i), self._pairs(one.i[first], other.j[second])])
        self.j = np.concatenate([self._pairs(one.j, other.j), self._pairs(one.j[first], other.i[second])])
        self.index = (one.index[:, :, None] * other.size + other.index[:, None, :]).reshape(len(A), -1)
        self.weight = _products(one.weight, other.weight)
        all_one, all_other = np.arange(one.size), np.arange(other.size)
        self.sums = [self._pairs(members, all_other[k : k + 1]) for k in all_other for members in one.sums]
        self.sums += [self._pairs(all_one[k : k + 1], members) for k in all_one for members in other.sums]
        # A variable per set of sums is eliminated last.  Variables on which all rows load are local in a product.
        self.border = self._pairs(one.border, all_other) if len(one.sums) else np.empty(0, np.int64)
        if len(other.sums):
            self.border = self._pairs(all_one, other.border)
        self.positions = self._positions()

    def _pairs(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Return the numbers of all pairs of these variables; the variable of the first part changes slowest."""
        return (np.asarray(one)[:, None] * self.layouts[1].size + np.asarray(other)).ravel()

    def _positions(self) -> np.ndarray | None:
        """Return coordinates in which neighbouring variables are about 1 apart, or None if a part has none."""
        found = [layout.positions for layout in self.layouts]
        if any(at is None for at in found):
            return None
        scaled = [
            at / max(np.max(np.ptp(at, axis=0)), np.finfo(float).tiny) * len(at) ** (1 / at.shape[1])
            for at in found
            if at is not None
        ]
        one, other = scaled
        return np.concatenate([np.repeat(one, len(other), axis=0), np.tile(other, (len(one), 1))], axis=1)

    def _ranks(self) -> list[int]:
        """Return the number of free directions of the variables of each part."""
        return [layout.size - len(layout.sums) for layout in self.layouts]

    def precision(self, part: Product) -> tuple[np.ndarray, float]:
        found = [layout.precision(each) for layout, each in zip(self.layouts, part.parts, strict=True)]
        (v, log_det), (w, other_log_det) = found
        first, second = self.off
        values = np.concatenate([np.outer(v, w).ravel(), np.outer(v[first], w[second]).ravel()])
        return values, self._ranks()[1] * log_det + self._ranks()[0] * other_log_det

    def pull(self, part: Product, bar: np.ndarray, log_det: float) -> Product:
        v, w = (layout.precision(each)[0] for layout, each in zip(self.layouts, part.parts, strict=True))
        first, second = self.off
        whole, crossed = bar[: v.size * w.size].reshape(v.size, w.size), bar[v.size * w.size :]
        crossed = crossed.reshape(len(first), len(second))
        bars = whole @ w, v @ whole
        bars[0][first] += crossed @ w[second]
        bars[1][second] += v[first] @ crossed
        each = zip(self.layouts, part.parts, bars, reversed(self._ranks()), strict=True)
        return replace(part, parts=tuple(layout.pull(one, own, rank * log_det) for layout, one, own, rank in each))

    def loads(self, part: Product, A: np.ndarray) -> Loads:
        one, other = (
            layout.loads(each, each.active_columns(A)) for layout, each in zip(self.layouts, part.parts, strict=True)
        )
        index = one.variable[:, :, None] * self.layouts[1].size + other.variable[:, None, :]
        var, other_var = (np.asarray(each.variances(A)) for each in part.parts)
        residual = one.residual * other_var + np.maximum(var - one.residual, 0.0) * other.residual
        return Loads(index.reshape(len(A), -1), _products(one.weight, other.weight), residual)

    def residuals(self, part: Product, A: np.ndarray) -> np.ndarray:
        R, S = (
            layout.residuals(each, each.active_columns(A))
            for layout, each in zip(self.layouts, part.parts, strict=True)
        )
        K, L = (np.asarray(each.matrix(A)) for each in part.parts)
        return R * L + (K - R) * S


def _products(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the products of all pairs of loads per row."""
    return np.asarray(one[:, :, None] * other[:, None, :]).reshape(len(one), -1)
