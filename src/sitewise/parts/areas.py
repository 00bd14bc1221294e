"""Effects of areas with neighbours: intrinsic conditional autoregression (ICAR) and its mixture with noise (BYM2).

R = D − W is the Laplacian of the graph.  In a connected component the structured effect u has the density
∝ exp(−½ c uᵀRu) on Σu = 0, with c such that the geometric mean of its variances is 1.  An area without neighbours has
u ~ N(0, 1).  (Riebler et al. 2016; Freni-Sterrantino et al. 2018 for several components.)

    "icar"   f = √variance · u
    "bym2"   f = √variance · (√(1 − share) v + √share u),    v ~ N(0, I)

The variables are the two summands, so that Q = diag(I/(variance (1 − share)), cR/(variance share)).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sitewise.arrays.engine import Array, namespace
from sitewise.checks import known, one_number
from sitewise.numerics.sparse.analysis import Analysis
from sitewise.numerics.sparse.factor import Factor, factorise
from sitewise.numerics.sparse.selected import inverse_on_pattern
from sitewise.parts.base import Layout, Loads, Part
from sitewise.types import ArrayField, bounded, module, positive, replace, static

MODELS = ("bym2", "icar")


@dataclasses.dataclass(frozen=True)
class Graph:
    """Which areas are neighbours.

    Parameters
    ----------
    areas : int
        The number of areas, which are numbered from 0.
    edges : tuple of tuple of int
        The pairs of neighbours, each pair once.
    """

    areas: int
    edges: tuple[tuple[int, int], ...]

    @staticmethod
    def of(value: Any) -> Graph:
        """Return the graph of an adjacency matrix (NumPy or SciPy sparse), or of a dictionary of neighbours."""
        if isinstance(value, Graph):
            return value
        if isinstance(value, dict):
            return Graph._of_pairs(len(value), ((i, j) for i, near in value.items() for j in near))
        matrix = sp.coo_matrix(value) if sp.issparse(value) or np.ndim(value) == 2 else None
        if matrix is None or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                "Area: graph must be a square adjacency matrix, or a dictionary with the list of neighbours of every "
                f"area from 0; got {type(value).__name__}."
            )
        there = matrix.data != 0
        return Graph._of_pairs(matrix.shape[0], zip(matrix.row[there], matrix.col[there], strict=True))

    @staticmethod
    def _of_pairs(areas: int, pairs: Iterable[tuple[Any, Any]]) -> Graph:
        edges = {(min(int(i), int(j)), max(int(i), int(j))) for i, j in pairs if i != j}
        if any(i < 0 or j >= areas for i, j in edges):
            raise ValueError(f"Area: the neighbours of {areas} areas must be numbered from 0 to {areas - 1}.")
        return Graph(areas, tuple(sorted(edges)))

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.areas, self.edges))

    @functools.cached_property
    def field(self) -> Field:
        """The scaled intrinsic field on this graph."""
        return Field(self)


class Field:
    """The intrinsic field u of a graph, scaled per component.

    i, j, values   entries of cR, each pair once, the diagonal first
    sums           the components of several areas, whose effects sum to zero
    pins           one area of each of these components
    rank           number of free directions of u
    log_det        log|cR| as in `numerics.sparse.factor`
    """

    def __init__(self, graph: Graph) -> None:
        n = graph.areas
        edges = np.array(graph.edges, np.int64).reshape(-1, 2)
        self.n, own = n, np.arange(n)
        self.i, self.j = np.concatenate([own, edges[:, 1]]), np.concatenate([own, edges[:, 0]])
        links = sp.coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (n, n))
        component = connected_components(links, directed=False)[1] if n else np.empty(0, int)
        members = [np.flatnonzero(component == c) for c in range(component.max(initial=-1) + 1)]
        self.sums = [m for m in members if len(m) > 1]
        self.pins = np.array([m[0] for m in self.sums], np.int64)
        self.rank = n - len(self.sums)
        degree = np.bincount(edges.ravel(), minlength=n).astype(float)
        alone = degree == 0
        values = np.concatenate([np.where(alone, 1.0, degree), np.full(len(edges), -1.0)])
        var = inverse_on_pattern(self._factor(values))[:n]
        scale = np.ones(n)
        for m in self.sums:
            scale[m] = np.exp(np.mean(np.log(var[m])))
        self.values = values * scale[self.i]
        self.factor = self._factor(self.values)
        self.log_det = self.factor.log_det

    def _factor(self, values: np.ndarray) -> Factor:
        k = len(self.sums)
        multipliers = self.n + np.arange(k)
        members = np.concatenate([*self.sums, np.empty(0, np.int64)]).astype(np.int64)
        which = np.repeat(multipliers, [len(m) for m in self.sums]) if k else members
        analysis = Analysis.of(
            self.n + k,
            np.concatenate([self.i, which, multipliers]),
            np.concatenate([self.j, members, multipliers]),
            border=self.pins,
            multipliers=multipliers,
        )
        return factorise(analysis, np.concatenate([values, np.ones(len(members)), np.zeros(k)]))

    @functools.cached_property
    def covariance(self) -> np.ndarray:
        """The dense covariance matrix of u."""
        right = np.zeros((self.n + len(self.sums), self.n))
        right[: self.n] = np.eye(self.n)
        return self.factor.solve(right)[: self.n]


@module
class Area(Part):
    """Effects of areas (disease mapping): neighbouring areas have similar effects, by ICAR or BYM2.

    Effects of a connected component sum to zero (ICAR), so that an intercept is identified.  Areas without
    observations are smoothed from their neighbours.  A new row with another number than those of the graph has an
    independent effect.

    Parameters
    ----------
    columns : int or str, default=()
        The column with the number of the area, from 0.
    graph : array, sparse matrix, dict or Graph, default=None
        The neighbours, which must be given: an adjacency matrix, or a dictionary with the list of neighbours of every
        area.
    model : str, default="bym2"
        "bym2": structured and independent effects, in the shares `share` and 1 − `share`.  "icar": structured effects.
    variance : float, default=1.0
        The variance of the effects, about the same in all graphs; learned.
    share : float, default=0.5
        The share of the structured effects in the variance, for "bym2"; learned.
    """

    graph: Graph = static(default=None)
    model: str = static(default="bym2")
    variance: ArrayField = positive(default=1.0)
    share: ArrayField = bounded(0.0, 1.0, default=0.5)

    def __post_init__(self) -> None:
        if self.graph is None:
            raise ValueError("Area needs the graph of neighbours: an adjacency matrix or a dictionary of lists.")
        object.__setattr__(self, "graph", Graph.of(self.graph))
        if self.model not in MODELS:
            raise ValueError(f"Area: model must be one of {', '.join(MODELS)}, got {self.model!r}.")
        if not self.mixes:
            object.__setattr__(self, "share", None)  # not a parameter of this model
        super().__post_init__()

    @property
    def mixes(self) -> bool:
        """Whether there are independent effects besides the structured ones."""
        return self.model == "bym2"

    def check(self, columns: int) -> None:
        if len(self.used) != 1:
            raise ValueError("Area needs the column with the number of the area, as in Area(0, graph).")
        super().check(columns)
        one_number(self, "variance")
        if self.mixes:
            one_number(self, "share")

    def level_dims(self, columns: int) -> tuple[int, ...]:
        return (0,)

    def check_rows(self, X: np.ndarray) -> None:
        super().check_rows(X)
        A = self.active_columns(X)
        old = self.found(A)[1]
        if known(X) and not np.all(old):
            raise ValueError(
                f"Area: the graph has the areas 0 to {self.graph.areas - 1}, but a row has {A[~old, 0][0]:g}; number "
                "the areas as in the graph."
            )

    def _shares(self) -> tuple[Array, Array]:
        """Return the variances of the independent and of the structured effects."""
        if not self.mixes:
            return 0.0 * self.variance, self.variance
        return self.variance * (1 - self.share), self.variance * self.share

    def found(self, A: Array) -> tuple[Array, Array]:
        """Return the area per row, clipped, and whether the graph has it."""
        xp = namespace(A)
        place = xp.clip(A[:, 0], 0, self.graph.areas - 1).astype(int)
        return place, place == A[:, 0]

    def pairs(self, A: Array, B: Array) -> Array:
        xp, (own, structured) = namespace(A, B), self._shares()
        (a, old), (b, too) = self.found(A), self.found(B)
        same = A[:, :1] == B[:, 0]
        u = xp.asarray(self.graph.field.covariance)[a][:, b]
        return own * same + structured * xp.where(old[:, None] & too, u, same)

    def diag(self, A: Array) -> Array:
        xp, (own, structured), (place, old) = namespace(A), self._shares(), self.found(A)
        u = xp.asarray(np.diagonal(self.graph.field.covariance))[place]
        return own + structured * xp.where(old, u, 1.0)

    def layout(self, A: np.ndarray) -> Layout:
        return AreaLayout(self, A)


class AreaLayout(Layout):
    """Structured effects u of all areas, and for BYM2 independent effects v after them."""

    def __init__(self, part: Area, A: np.ndarray) -> None:
        field = part.graph.field
        self.field, self.n = field, field.n
        self.size = 2 * field.n if part.mixes else field.n
        own = np.arange(field.n, self.size)
        self.i, self.j = np.concatenate([field.i, own]), np.concatenate([field.j, own])
        self.border, self.sums = field.pins, field.sums
        self.index, self.weight, _ = self.loads(part, A)

    def precision(self, part: Area) -> tuple[np.ndarray, float]:
        own, structured = part._shares()
        values = [self.field.values / structured]
        log_det = self.field.log_det - self.field.rank * float(np.log(structured))
        if part.mixes:
            values.append(np.full(self.n, 1.0 / own))
            log_det -= self.n * float(np.log(own))
        return np.concatenate(values), log_det

    def pull(self, part: Area, bar: np.ndarray, log_det: float) -> Area:
        own, structured = part._shares()
        cut = len(self.field.values)
        by_structured = -(bar[:cut] @ self.field.values) / structured**2 - log_det * self.field.rank / structured
        if not part.mixes:
            return replace(part, variance=np.asarray(by_structured))
        by_own = -np.sum(bar[cut:]) / own**2 - log_det * self.n / own
        return replace(
            part,
            variance=np.asarray(by_structured * part.share + by_own * (1 - part.share)),
            share=np.asarray(part.variance * (by_structured - by_own)),
        )

    def loads(self, part: Area, A: np.ndarray) -> Loads:
        place, old = part.found(A)
        index = (np.stack([place, place + self.n]) if part.mixes else place[None]).T
        weight = np.broadcast_to(old[:, None].astype(float), index.shape)
        return Loads(index, weight, np.where(old, 0.0, part.variance))

    def residuals(self, part: Area, A: np.ndarray) -> np.ndarray:
        new = ~part.found(A)[1]
        return part.variance * (A[:, :1] == A[:, 0]) * new[:, None] * new
