"""Laplacian kernel: a function of the scaled L1 distance Σ_k |x_k − x'_k|/ℓ_k, for thresholds and rules."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.spatial.distance import cdist

from sitewise.arrays.engine import Array, is_host
from sitewise.kernels.base import Pull
from sitewise.kernels.stationary import Matern12
from sitewise.types import module, replace

_BLOCK_ELEMENTS = 32768  # entries of a block of the matrix, whose temporaries then stay in the CPU cache
_MAX_COORDINATE = 1e150  # in lengthscales, so that no difference overflows


@module
class Laplacian(Matern12):
    """Laplacian kernel (L1 exponential, product of Matérn ½ kernels), variance · exp(−Σ_k |x_k − x'_k|/ℓ_k).

    It is the limit of averaging over infinitely many random partitions of the space into boxes (Balog et al. 2016, the
    Mondrian kernel): with cuts of column k at rate 1/ℓ_k, exp(−Σ_k |x_k − x'_k|/ℓ_k) is the probability that x and x'
    lie in the same box.  Functions that are constant on boxes, such as rules and trees, are therefore likely a priori.
    On one column it equals `Matern12`.

    References
    ----------
    M. Balog, B. Lakshminarayanan, Z. Ghahramani, D. M. Roy, Y. W. Teh: The Mondrian kernel. UAI 2016.
    """

    def pairs(self, A: Array, B: Array) -> Array:
        A, B = self._scaled(A, B)
        if is_host(A, B):
            return self.variance * np.exp(-_distances(A, B))

        def add(total: Array, column: tuple[Array, Array]) -> tuple[Array, None]:
            return total + jnp.abs(column[0][:, None] - column[1][None, :]), None

        # The backward pass recomputes the differences of a column instead of storing them.
        none = jnp.zeros((A.shape[0], B.shape[0]), A.dtype)
        correlation: Array = jnp.exp(-lax.scan(jax.checkpoint(add), none, (A.T, B.T))[0])
        return self.variance * correlation

    def pairs_with_pull(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, Pull]:
        A, B = self._scaled(A, B)
        distances = _distances(A, B)
        K = self.variance * np.exp(-distances)

        def pull(bar: np.ndarray) -> Laplacian:
            weights = bar * K
            # With t_k = |x_k − x'_k|/ℓ_k, ∂κ/∂ℓ_k = κ t_k/ℓ_k.
            shared = np.size(self.lengthscale) == 1
            terms = np.vdot(weights, distances) if shared else _weighted_terms(weights, A, B)
            by_lengthscale = np.reshape(terms / self.lengthscale, np.shape(self.lengthscale))
            return replace(self, lengthscale=by_lengthscale, variance=np.sum(weights) / self.variance)

        return K, pull

    def pairs_pull_rows(self, A: np.ndarray, B: np.ndarray, bar: np.ndarray) -> np.ndarray:
        """Return the cotangent of B: ∂κ_ij/∂b_jk = κ_ij sign(a_ik − b_jk)/ℓ_k."""
        weights = bar * self.pairs(A, B)
        columns = zip(A.T, B.T, strict=True)
        each = [np.sum(weights * np.sign(np.subtract.outer(a, b)), axis=0) for a, b in columns]
        return np.stack(each, axis=1) / self.lengthscale


def _distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return Σ_k |a_ik − b_jk| of rows in lengthscales."""
    A, B = (np.clip(X, -_MAX_COORDINATE, _MAX_COORDINATE) for X in (A, B))
    return np.asarray(cdist(A, B, "cityblock"))


def _weighted_terms(weights: np.ndarray, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return Σ_ij weights_ij |a_ik − b_jk| of every column k."""
    out = np.zeros(A.shape[1])
    for rows, stop, own in _blocks(weights, B is A):
        for k in range(A.shape[1]):
            apart = np.subtract.outer(A[rows, k], B[:stop, k])
            out[k] += np.vdot(own, np.abs(apart, out=apart))
    return out


def _blocks(weights: np.ndarray, same: bool) -> Iterator[tuple[slice, int, np.ndarray]]:
    """Yield the rows, the number of columns and the weights of each block; of a symmetric matrix, its lower half."""
    rows, columns = weights.shape
    size = max(1, _BLOCK_ELEMENTS // max(columns, 1))
    for start in range(0, rows, size):
        end = min(start + size, rows)
        own = weights[start:end, : end if same else columns]
        if same:
            own = np.array(own)
            own[:, :start] += weights[:start, start:end].T
        yield slice(start, end), own.shape[1], own
