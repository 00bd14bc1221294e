"""A function of places on a map by Vecchia's approximation: every place given its nearest earlier places.

With N(i) the neighbours of place i among the places before it, in an order from coarse to fine,

    x_i | x_N(i) ~ N(a_iᵀ x_N(i), d_i),    a_i = K_NN⁻¹ k_Ni,    d_i = k_ii − k_iNᵀ a_i
    Q = Σ_i b_i b_iᵀ / d_i,    b_i = e_i − Σ_{j∈N(i)} a_ij e_j,    log|Q| = −Σ log d_i

If all earlier places are neighbours, this is the exact Gaussian process.  The covariance of a place
with itself is larger by JITTER (a nugget).

**New places** have neighbours among the training places, f = aᵀ x_N + e.  The residuals e of several new places have
the covariances that they have in the exact process, so that close or equal new places agree.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import numpy as np
from scipy.spatial import cKDTree

from sitewise.arrays.engine import Array, namespace
from sitewise.checks import at_least, must_be
from sitewise.kernels.base import Kernel, check_parts
from sitewise.kernels.stationary import Matern32
from sitewise.kernels.units import Units, input_units
from sitewise.numerics.dense.small_systems import conditionals, pull_conditionals
from sitewise.numerics.sparse.neighbours import coarse_to_fine, earlier_neighbours, nearest
from sitewise.numerics.sparse.pairs import distinct_pairs
from sitewise.parts.base import Layout, Loads, Part, starting_kernel
from sitewise.parts.neighbour_covariances import JITTER, covariances
from sitewise.types import fixed, module, replace, static

EARTH_RADIUS = 6371.0  # km
UNDETERMINED = 10 * JITTER  # share of the variance below which the derivative by d is left out
PIECE_ROWS = 4096  # places whose covariances are in memory at a time
SUM_ROWS = 32768  # places whose entries of Q are added at a time: each addition passes over all entries


@module
class Map(Part):
    """Function of places on a map (spatial Gaussian process): Vecchia's approximation with nearest neighbours.

    Time is about O(n^1.5) for n places in the plane, and memory O(n log n).  Rows may repeat places.

    Parameters
    ----------
    columns : int, str or tuple, default=()
        The columns of the coordinates: usually two.
    kernel : Kernel, default=None
        The covariance function of the coordinates; None is `Matern32()`.  One lengthscale per column gives an
        anisotropic function.
    neighbours : int, default=20
        The number of neighbours.  With as many as there are other places, the Gaussian process is exact, for new
        places as well.
    sphere : bool, default=False
        Whether the two columns are longitude and latitude in degrees.  The distance is then the chord through the
        Earth, and the lengthscale is in km.
    """

    kernel: Kernel = fixed(default=None)
    neighbours: int = static(default=20)
    sphere: bool = static(default=False)

    local: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.kernel is None:
            object.__setattr__(self, "kernel", Matern32())
        must_be(self.kernel, Kernel, "The kernel of a Map", "Matern32(), a kernel of sitewise.kernels")
        at_least("Map: neighbours", self.neighbours, 1)
        super().__post_init__()
        if self.sphere and len(self.used) != 2:
            raise ValueError("Map: sphere=True takes two columns, longitude and latitude in degrees.")

    def check(self, columns: int) -> None:
        if not self.used:
            raise ValueError("Map needs the columns of the coordinates, as in Map((0, 1)).")
        super().check(columns)
        check_parts(self, (self.kernel,), 3 if self.sphere else len(self.used))

    def check_rows(self, X: np.ndarray) -> None:
        A = self.active_columns(X)
        if self.sphere and np.any(np.abs(A[:, 1]) > 90):
            raise ValueError(
                "Map: sphere=True takes longitude first and latitude second, in degrees; a latitude is beyond 90."
            )
        super().check_rows(X)

    def at(self, A: Array) -> Array:
        """Return the coordinates in which the kernel works: in km on the sphere."""
        if not self.sphere:
            return A
        xp, (east, north) = namespace(A), np.pi / 180 * A.T
        flat = xp.cos(north)
        return EARTH_RADIUS * xp.stack([flat * xp.cos(east), flat * xp.sin(east), xp.sin(north)], axis=1)

    def units(self, ranges: np.ndarray, path: str) -> Units:
        seen = np.full(3, np.max(ranges) * np.pi / 180 * EARTH_RADIUS) if self.sphere else ranges
        return input_units(self.kernel, seen, f"{path}.kernel")

    def pairs(self, A: Array, B: Array) -> Array:
        same = (A[:, None, :] == B[None, :, :]).all(axis=-1)
        return self.kernel.matrix(self.at(A), self.at(B)) * (1 + JITTER * same)

    def diag(self, A: Array) -> Array:
        return self.kernel.variances(self.at(A)) * (1 + JITTER)

    def started(self, A: np.ndarray, variance: float) -> Map:
        return replace(self, kernel=starting_kernel(self.kernel, np.asarray(self.at(A)), variance))

    def exact_for(self, rows: float) -> bool:
        return self.neighbours >= rows - 1

    def layout(self, A: np.ndarray) -> Layout:
        return VecchiaLayout(self, A)


class VecchiaLayout(Layout):
    """One variable per distinct place, in an order from coarse to fine."""

    positions: np.ndarray

    def __init__(self, part: Map, A: np.ndarray) -> None:
        distinct, place = np.unique(A, axis=0, return_inverse=True)
        at = np.asarray(part.at(distinct))
        order = coarse_to_fine(at)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        self.distinct, self.positions = distinct[order], at[order]
        self.size = len(order)
        self.index, self.weight = rank[place.reshape(-1)][:, None], np.ones((len(A), 1))
        self.near = earlier_neighbours(self.positions, part.neighbours)
        self._entries()
        self.tree = cKDTree(self.positions)

    def _entries(self) -> None:
        """Set the entries of Q, and the entry of every pair of {i} ∪ N(i); absent neighbours stand for i itself."""
        own = np.arange(self.size)[:, None]
        self.group = np.concatenate([own, np.where(self.near >= 0, self.near, own)], axis=1)
        self.a, self.b = np.tril_indices(self.group.shape[1])
        group = self.group.astype(np.int32)
        self.i, self.j, entry = distinct_pairs(group[:, self.a].ravel(), group[:, self.b].ravel(), self.size)
        self.entry = entry.reshape(self.size, -1)

    def conditionals(self, part: Map) -> tuple[np.ndarray, np.ndarray]:
        """Return a, (places, neighbours), and d."""
        found = [self._conditionals(part, rows)[:2] for rows in _pieces(self.size)]
        return np.concatenate([a for a, _ in found]), np.concatenate([d for _, d in found])

    def _conditionals(self, part: Map, rows: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Any]:
        """Return a, d, K and prior variances of these places, and the pullback of their covariances."""
        near, has = self.near[rows], self.near[rows] >= 0
        (K, k, var), pull = covariances(part.kernel, self.positions[rows], self.positions[np.maximum(near, 0)], has)
        return *conditionals(K, k, var), K, var, pull

    def precision(self, part: Map) -> tuple[np.ndarray, float]:
        a, d = self.conditionals(part)
        b = np.concatenate([np.ones((self.size, 1)), -a], axis=1)
        values = np.zeros(len(self.i))
        for rows in _pieces(self.size, SUM_ROWS):
            each = b[rows][:, self.a] * b[rows][:, self.b] / d[rows, None]
            values += np.bincount(self.entry[rows].ravel(), each.ravel(), len(values))
        return values, -float(np.sum(np.log(d)))

    def pull(self, part: Map, bar: np.ndarray, log_det: float) -> Map:
        """Use that the value of a pair of i is b_k b_l / d: b̄_k = Σ_l bar_kl b_l / d, with twice the diagonal.

        If d is little more than the nugget, the rows do not determine the residual: d̄ d = O(w d), with w the precision
        of a site, is left out.  As a difference of entries of Σ it would be lost in their rounding errors.
        """
        total = [np.zeros(np.shape(leaf)) for leaf in jax.tree.leaves(part.kernel)]
        for rows in _pieces(self.size):
            a, d, K, var, pull_covariances = self._conditionals(part, rows)
            b = np.concatenate([np.ones((len(d), 1)), -a], axis=1)
            square = np.zeros((*b.shape, b.shape[1]))
            square[:, self.a, self.b] = bar[self.entry[rows]]
            square += np.swapaxes(square, 1, 2)
            b_bar = np.einsum("nkl,nl->nk", square, b) / d[:, None]
            d_bar = -0.5 * np.sum(b_bar * b, axis=1) / d - log_det / d
            d_bar[d <= UNDETERMINED * var] = 0.0
            K_bar, k_bar = pull_conditionals(K, a, -b_bar[:, 1:] * (self.near[rows] >= 0), d_bar)
            for whole, each in zip(total, pull_covariances(K_bar, k_bar, d_bar), strict=True):
                whole += each
        return replace(part, kernel=jax.tree.unflatten(jax.tree.structure(part.kernel), total))

    def _new(self, part: Map, A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return neighbours, a and d of new places; a training place is its own neighbour, with d = 0."""
        at, count = np.asarray(part.at(A)), self.size if part.exact_for(self.size) else part.neighbours
        near = nearest(self.tree, at, count)
        found = []
        for rows in _pieces(len(A)):
            has = np.ones(near[rows].shape, bool)
            found.append(conditionals(*covariances(part.kernel, at[rows], self.positions[near[rows]], has)[0]))
        a, d = np.concatenate([a for a, _ in found]), np.concatenate([d for _, d in found])
        known = np.flatnonzero(np.all(self.distinct[near[:, 0]] == A, axis=1))
        a[known], d[known] = 0.0, 0.0
        a[known, 0] = 1.0
        return near, a, d

    def loads(self, part: Map, A: np.ndarray) -> Loads:
        return Loads(*self._new(part, A))

    def residuals(self, part: Map, A: np.ndarray) -> np.ndarray:
        near, a, d = self._new(part, A)
        places, index = np.unique(near, return_inverse=True)
        W = np.zeros((len(A), len(places)))
        np.add.at(W, (np.arange(len(A))[:, None], index.reshape(near.shape)), a)
        old = self.distinct[places]
        cross = np.asarray(part.pairs(A, old))
        moved = W @ (np.asarray(part.pairs(old, old)) @ W.T) - cross @ W.T
        out = np.asarray(part.pairs(A, A)) + moved - W @ cross.T
        out = 0.5 * (out + out.T)
        known = d == 0.0
        out[known], out[:, known] = 0.0, 0.0
        out[np.diag_indices(len(A))] = d
        return out


def _pieces(rows: int, length: int = PIECE_ROWS) -> list[slice]:
    return [slice(at, at + length) for at in range(0, max(rows, 1), length)]
