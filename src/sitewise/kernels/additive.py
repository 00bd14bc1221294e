"""Sums of effects of single columns and of pairs, identified: every effect has the mean 0 over the rows.

The process f ~ GP(0, κ) given ∫ f dμ = 0 has the kernel (Durrande et al. 2012)

    κ̃(x, x') = κ(x, x') − m(x) m(x') / M,     m(x) = ∫ κ(x, s) dμ(s),   M = ∬ κ(s, s') dμ(s) dμ(s')

and a product κ̃_i κ̃_j is a process whose mean over either column is 0, whatever the other is.  So in a sum of a
constant, main effects and pairs no part can take what belongs to another (orthogonal additive kernels: Lu, Boukouvalas
& Hensman, 2022).  μ is a discrete measure of each column here, by default the values of the training rows: it suits
every base kernel, columns of a few values included, and effects are averaged over the rows everywhere else too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from sitewise.checks import must_be, one_number
from sitewise.kernels.base import Kernel, Pull, check_parts
from sitewise.kernels.stationary import Matern52, Stationary
from sitewise.runtime.engine import Array, namespace, stop_gradient
from sitewise.types import ArrayField, fixed, module, positive, replace

_NODES = 32  # of a column with more values: as many quantiles


@module
class Centred(Kernel):
    """`base` given that the mean of f over `nodes` is 0; `weight` has their shares, which add up to 1.

    nodes   a table of the active columns, (nodes, columns)
    """

    base: Stationary = fixed()
    nodes: ArrayField = fixed()
    weight: ArrayField = fixed()

    def check(self, columns: int) -> None:
        super().check(columns)
        must_be(self.base, Stationary, "The base of Centred", "Matern52(), a stationary kernel of sitewise.kernels")
        self.base.check(self.seen(columns))
        count = len(np.atleast_1d(self.weight))
        if np.shape(self.weight) != (count,) or np.shape(self.nodes) != (count, self.seen(columns)):
            raise ValueError(
                f"Centred: nodes must be a table of {self.seen(columns)} columns and weight one share for each, got "
                f"the shapes {np.shape(self.nodes)} and {np.shape(self.weight)}."
            )

    @staticmethod
    def of(X: Array, base: Stationary, column: int, weight: Array | None = None) -> Centred:
        """With the values that a column has in the rows, by their weights: all of them, or some of their quantiles."""
        x = np.asarray(X, float)[:, column]
        nodes, place = np.unique(x, return_inverse=True)
        total = np.bincount(place, None if weight is None else np.asarray(weight, float))
        share = total / np.sum(total)
        if len(nodes) > _NODES:
            nodes = nodes[np.searchsorted(np.cumsum(share), (np.arange(_NODES) + 0.5) / _NODES)]
            share = np.full(_NODES, 1 / _NODES)
        return Centred(base, nodes[:, None], share, active_dims=(column,))

    def _means(self, A: Array) -> tuple[Array, Array]:
        """m at the rows, and M."""
        xp = namespace(A, self.nodes, self.base.lengthscale)
        # The measure is held: it is no parameter, and the host engine has no derivative in the inputs of a kernel.
        nodes, weight = stop_gradient((xp.asarray(self.nodes, A.dtype), xp.asarray(self.weight, A.dtype)))
        return self.base.matrix(A, nodes) @ weight, weight @ self.base.matrix(nodes) @ weight

    def pairs(self, A: Array, B: Array) -> Array:
        (left, whole), (right, _) = self._means(A), self._means(B)
        return self.base.matrix(A, B) - left[:, None] * right / whole

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        same = B is A
        nodes, w = np.asarray(self.nodes), np.asarray(self.weight)
        K, pull = self.base.matrix_with_pull(A, None if same else B)
        at_a, pull_a = self.base.matrix_with_pull(A, nodes)
        at_b, pull_b = (at_a, pull_a) if same else self.base.matrix_with_pull(B, nodes)
        at_nodes, pull_nodes = self.base.matrix_with_pull(nodes)
        left, right, whole = at_a @ w, at_b @ w, w @ at_nodes @ w

        def back(bar: np.ndarray) -> Centred:
            by_left, by_right = -(bar @ right) / whole, -(left @ bar) / whole
            by_whole = -(by_left @ left) / whole
            if same:
                rows = [pull_a(np.outer(by_left + by_right, w))]
            else:
                rows = [pull_a(np.outer(by_left, w)), pull_b(np.outer(by_right, w))]
            return replace(
                self, base=_sum([pull(bar), *rows, pull_nodes(by_whole * np.outer(w, w))]),
                nodes=np.zeros_like(nodes), weight=np.zeros_like(w),
            )  # fmt: skip

        return K - left[:, None] * right / whole, back

    def diag(self, A: Array) -> Array:
        mean, whole = self._means(A)
        return namespace(mean).maximum(self.base.variances(A) - mean**2 / whole, 0.0)


@module
class Additive(Kernel):
    """offset + Σ_j κ̃_j + interaction · Σ_{i<j} κ̃_i κ̃_j; without pairs if `interaction` is None.

    `effects` are the κ̃_j, each with its own variance and lengthscale; the variance of a pair is `interaction` times the
    product of those of its columns, so that a column without an effect has no pairs.  A matrix costs one matrix per
    column, the pairs included: Σ_{i<j} κ̃_i κ̃_j = ½ [(Σ κ̃_j)² − Σ κ̃_j²].
    """

    effects: tuple[Centred, ...] = ()
    offset: ArrayField = positive(default=1.0)
    interaction: ArrayField = positive(default=None)

    @staticmethod
    def of(
        X: Array, order: int = 2, columns: Sequence[int] | None = None,
        base: Callable[..., Stationary] = Matern52, weight: Array | None = None,
    ) -> Additive:  # fmt: skip
        """For the rows X: main effects of all or some columns (order 1), and their pairs (order 2)."""
        X = np.asarray(X, float)
        if order not in (1, 2) or isinstance(order, bool):
            raise ValueError(f"The order of an additive kernel is 1 (main effects) or 2 (and pairs), got {order!r}.")
        chosen = list(range(X.shape[1]) if columns is None else columns)
        spread = np.std(X[:, chosen], axis=0)
        starts = [base(s if s > 0 else 1.0, 1.0 / len(chosen)) for s in spread]
        parts = (Centred.of(X, start, column, weight) for start, column in zip(starts, chosen, strict=True))
        found = Additive(tuple(parts))
        return found if order == 1 else Additive(found.effects, interaction=0.5 * len(chosen))

    def check(self, columns: int) -> None:
        super().check(columns)
        check_parts(self, self.effects, self.seen(columns))
        one_number(self, "offset", *(["interaction"] if self.interaction is not None else []))
        for part in self.effects:
            must_be(part, Centred, "An effect of Additive", "Centred.of(X, Matern52(), 0)")

    def pairs(self, A: Array, B: Array) -> Array:
        return self._combined([part.matrix(A, B) for part in self.effects])

    def _combined(self, each: list[Any]) -> Array:
        total = sum(each[1:], each[0])
        if self.interaction is None:
            return self.offset + total
        squares = sum((z * z for z in each[1:]), each[0] * each[0])
        return self.offset + total + 0.5 * self.interaction * (total * total - squares)

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        found = [part.matrix_with_pull(A, None if B is A else B) for part in self.effects]
        each = [matrix for matrix, _ in found]

        def back(bar: np.ndarray) -> Additive:
            total, strength = sum(each[1:], each[0]), self.interaction
            bars = (bar if strength is None else bar * (1 + strength * (total - z)) for z in each)
            by_pairs = None
            if strength is not None:
                squares = sum((z * z for z in each[1:]), each[0] * each[0])
                by_pairs = 0.5 * np.sum(bar * (total * total - squares))
            effects = tuple(pull(one) for (_, pull), one in zip(found, bars, strict=True))
            return replace(self, effects=effects, offset=np.sum(bar), interaction=by_pairs)

        return self._combined(each), back

    def diag(self, A: Array) -> Array:
        return self._combined([part.variances(A) for part in self.effects])


def _sum(kernels: list[Any]) -> Any:
    """The sum of cotangents of one kernel."""
    return jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), *kernels)
