"""Stationary kernel conditioned on zero mean over given inputs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from sitewise.arrays.engine import Array, namespace, stop_gradient
from sitewise.checks import must_be
from sitewise.kernels.base import Kernel, Pull
from sitewise.kernels.stationary import Stationary
from sitewise.types import ArrayField, fixed, module, replace


@module
class Centred(Kernel):
    """Kernel with zero mean over `nodes`: `base` conditioned on Σ_k weight_k f(node_k) = 0.

        κ(x, x') − m(x) m(x') / M,    m(x) = Σ_k weight_k κ(x, node_k),    M = Σ_k weight_k m(node_k)

    Parameters
    ----------
    base : Stationary
        The kernel without the condition.
    nodes : array of shape (n_nodes, n_columns)
        A table of the active columns.
    weight : array of shape (n_nodes,)
        The share of each node; the shares add up to 1.
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
                f"Centred: nodes must be a table of {self.seen(columns)} columns and weight must have one share per "
                f"node, got the shapes {np.shape(self.nodes)} and {np.shape(self.weight)}."
            )

    def _means(self, A: Array) -> tuple[Array, Array]:
        """Return m at the rows of A, and M."""
        xp = namespace(A, self.nodes, self.base.lengthscale)
        # Nodes and weights are held fixed: the host engine has no derivatives in the inputs of a kernel.
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

        def pull_all(bar: np.ndarray) -> Centred:
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

        return K - left[:, None] * right / whole, pull_all

    def diag(self, A: Array) -> Array:
        mean, whole = self._means(A)
        return namespace(mean).maximum(self.base.variances(A) - mean**2 / whole, 0.0)


def _sum(kernels: list[Any]) -> Any:
    """Return the sum of several cotangents of one kernel."""
    return jax.tree.map(lambda *leaves: sum(leaves[1:], leaves[0]), *kernels)
