"""The variables, loads and sparse pattern of all parts together, for given training rows.

x stacks the variables of all parts, and the multipliers of their constraints.  A row has f_i = μ_i + a_iᵀ x, and with
sites of precisions w the posterior precision is P = Q + Aᵀ W A.  The pattern of P holds every pair of variables on
which a row loads, so that the variances a_iᵀ P⁻¹ a_i need entries of P⁻¹ on this pattern only.  Variables on which all
rows load (`Layout.dense`) are columns X of a dense matrix: their entries are the products AᵀWX and XᵀWX.  With one
function per row loads may depend on θ (`Layout.moving`); the pattern does not.

With two functions per row, f and g, every part belongs to one of them, and A stacks the loads of f on the loads of g.
The sites act along f, g and f + g (`numerics.dense.directions`): a row has a block W_i of precisions, which couples the
variables of both functions.  Precisions, means and variances then have the directions on their first axis, (3, n).
"""

from __future__ import annotations

import copy
import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp

from sitewise.kernels import Kernel, Sum
from sitewise.numerics.dense.directions import along, blocks_of_precisions, combined, directions
from sitewise.numerics.sparse.analysis import Analysis
from sitewise.numerics.sparse.pairs import distinct_pairs
from sitewise.parts.base import Layout, Part

MAX_KEPT = 3  # assemblies of the last tables
HUB_FACTOR = 10.0  # a variable that touches more than this many times √p others is eliminated last
MAX_HUBS = 256
LEAST_VARIANCE = 1e-20  # of a function that is known at a row, such as a linear effect without an intercept at 0
# Independent variables with at most MAX_FIRST_NEIGHBOURS neighbours each are eliminated first, if they are half of all
# variables and together make at most MAX_FIRST_PAIRS pairs of neighbours.
MAX_FIRST_NEIGHBOURS, MAX_FIRST_PAIRS = 256, 10_000_000


def parts_of(kernel: Kernel) -> tuple[Any, ...]:
    """Return the parts of a sum."""
    return kernel.parts if isinstance(kernel, Sum) else (kernel,)


class Assembly:
    """All parts at given training rows; only loads that are moving depend on hyperparameters.

    of                 the number of the function per part; all 0 if there is one function
    columns            kind and columns per part
    layouts, offsets   of the parts, and where their variables begin
    analysis           of the pattern of P
    A                  sparse loads of the rows, without dense columns, (functions · rows, variables)
    index, weight      the same as (rows, loads), and `loads_of` the columns of each part
    X, dense           dense columns, (functions · rows, columns), and their variables
    """

    def __init__(self, parts: Sequence[Part], X: np.ndarray, of: Sequence[int] = ()) -> None:
        self.rows = len(X)
        self.of = np.array(of if len(of) else [0] * len(parts), np.int64)
        self.functions = 1 + int(np.max(self.of))
        self.directions = directions(self.functions)
        self.shape = (self.rows,) if self.functions == 1 else (len(self.directions), self.rows)
        self.columns = [(type(part), part.used) for part in parts]
        self.layouts: list[Layout] = [
            part.layout(part.active_columns(X))
            if self.functions == 1
            else part.layout_with_fixed_loads(part.active_columns(X))
            for part in parts
        ]
        self.moving = any(layout.moving for layout in self.layouts)
        self.offsets = np.cumsum([0] + [layout.size for layout in self.layouts])
        self.variables = int(self.offsets[-1])
        each = list(zip(self.layouts, self.offsets[:-1], strict=True))
        self.dense = _joined([at + np.arange(layout.size) for layout, at in each if layout.dense])
        columns = [layout.weight for layout in self.layouts if layout.dense]
        X = np.concatenate([np.empty((self.rows, 0)), *columns], axis=1)
        of_column = self._per_column(dense=True)
        self.X = np.concatenate([X * (of_column == one) for one in range(self.functions)]) if self.functions > 1 else X
        self.index, self.weight = self._sparse_loads()
        widths = [0 if layout.dense else layout.weight.shape[1] for layout in self.layouts]
        self.loads_of = [slice(end - width, end) for end, width in zip(np.cumsum(widths), widths, strict=True)]
        of_load = self._per_column(dense=False)
        own = [of_load == one for one in range(self.functions)]
        each_A = [_loads_matrix(self.index[:, of], self.weight[:, of], self.variables) for of in own]
        self.A = sp.vstack(each_A, format="csr") if self.functions > 1 else each_A[0]
        self._pattern(each, of_load)

    def _per_column(self, *, dense: bool) -> np.ndarray:
        """Return the number of the function per column of loads, of the parts that are dense or are not."""
        kept = [(of, layout) for of, layout in zip(self.of, self.layouts, strict=True) if layout.dense == dense]
        return _joined([np.full(layout.weight.shape[1], of) for of, layout in kept])

    def _sparse_loads(self) -> tuple[np.ndarray, np.ndarray]:
        """Return variables and weights of the parts that are not dense, side by side."""
        kept = [
            (one.index + at, one.weight) for one, at in zip(self.layouts, self.offsets, strict=False) if not one.dense
        ]
        index = np.concatenate([np.empty((self.rows, 0), np.int64), *(index for index, _ in kept)], axis=1)
        return index, np.concatenate([np.empty((self.rows, 0)), *(weight for _, weight in kept)], axis=1)

    def loaded(self, parts: Sequence[Part]) -> Assembly:
        """Return the assembly with the loads at the hyperparameters of these parts."""
        if not self.moving:
            return self
        out = copy.copy(self)
        each = zip(self.layouts, parts, self.loads_of, strict=True)
        out.weight = self.weight.copy()
        for layout, part, own in each:
            if layout.moving:
                out.weight[:, own] = layout.weights(part)
        out.A = _loads_matrix(out.index, out.weight, out.variables)
        return out

    def _pattern(self, each: list[tuple[Layout, int]], of_load: np.ndarray) -> None:
        """Find the entries of P, and where the entries of Q, of AᵀWA, of AᵀWX and of XᵀWX are among them.

        `shared` has the product of the loads of direction k on the functions of a pair of columns, (directions, pairs).
        """
        size = self.variables
        a, b = np.tril_indices(self.index.shape[1])
        self.shared = self.directions[:, of_load[a]] * self.directions[:, of_load[b]]
        pair = self.index[:, a], self.index[:, b]
        touched = np.unique(self.index)
        low = np.tril_indices(len(self.dense))
        sums = [(at + members, layout) for layout, at in each for members in layout.sums]
        multipliers = size + np.arange(len(sums))
        groups = [
            *((layout.i + at, layout.j + at) for layout, at in each),
            pair,
            (np.repeat(touched, len(self.dense)), np.tile(self.dense, len(touched))),
            (self.dense[low[0]], self.dense[low[1]]),
            *((np.full(len(members), m), members) for m, (members, _) in zip(multipliers, sums, strict=True)),
            (multipliers, multipliers),
        ]
        whole = size + len(sums)
        one, other = (_joined([np.ravel(ends[side]) for ends in groups]) for side in range(2))
        i, j, place = distinct_pairs(one, other, whole)
        cuts = np.split(place.astype(np.int64), np.cumsum([np.size(ends[0]) for ends in groups])[:-1])
        self.own = cuts[: len(each)]
        self.pairs, self.crossed, self.among = cuts[len(each) : len(each) + 3]
        self.constraints = _joined(cuts[len(each) + 3 : -1])
        self.a, self.b, self.touched, self.low = a, b, touched, low
        self.diagonal = np.flatnonzero((i == j) & (i < size))
        self.twice = np.where(i == j, 1.0, 2.0)  # an entry off the diagonal stands for two
        border = _joined([self.dense, *(at + layout.border for layout, at in each if not layout.dense)])
        border = np.union1d(border, _hubs(i, j, whole, border, multipliers))
        positions = self._positions(each, whole, i, j)
        first = self._first(each, whole, i, j, border) if positions is None else None
        self.analysis = Analysis.of(whole, i, j, positions, border, multipliers, first=first)

    def _positions(self, each: list[tuple[Layout, int]], whole: int, i: np.ndarray, j: np.ndarray) -> np.ndarray | None:
        """Return coordinates of all variables, if parts of the same columns have them and the others are next to them.

        A variable without coordinates gets the mean of those of its neighbours in the graph.
        """
        placed = [k for k, (layout, _) in enumerate(each) if layout.positions is not None]
        given = [(np.asarray(each[k][0].positions), each[k][1]) for k in placed]
        if len({(self.columns[k], positions.shape[1]) for k, (positions, _) in zip(placed, given, strict=True)}) != 1:
            return None
        out = np.full((whole, given[0][0].shape[1]), np.nan)
        for positions, at in given:
            out[at : at + len(positions)] = positions
        for _ in range(2):
            missing = np.isnan(out[:, 0])
            if not missing.any():
                break
            graph = sp.csr_matrix((np.ones(2 * len(i)), (np.r_[i, j], np.r_[j, i])), (whole, whole))[missing]
            count = graph @ (~missing).astype(float)
            means = (graph @ np.where(missing[:, None], 0.0, out)) / np.maximum(count, 1.0)[:, None]
            out[missing] = np.where(count[:, None] > 0, means, np.nan)
        last = np.isnan(out[:, 0])
        if np.any(last & (np.arange(whole) < self.variables)):
            return None
        out[last] = 0.0
        return out

    def _first(
        self, each: list[tuple[Layout, int]], whole: int, i: np.ndarray, j: np.ndarray, border: np.ndarray
    ) -> np.ndarray | None:
        """Return the independent variables to be eliminated first: the levels of the largest group."""
        groups = [(layout.size, at) for layout, at in each if _is_group(layout)]
        if not groups:
            return None
        size, at = max(groups, key=lambda group: group[0])
        degree = np.bincount(i, minlength=whole) + np.bincount(j, minlength=whole) - 2
        found = np.setdiff1d(at + np.arange(size), border)
        found = found[degree[found] <= MAX_FIRST_NEIGHBOURS]
        few = np.sum(degree[found] ** 2) <= 2 * MAX_FIRST_PAIRS
        return found if few and 2 * len(found) >= self.variables - len(border) else None

    def prior_entries(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Return the entries of Q on the pattern of P, with ones for the constraints."""
        out = np.zeros(len(self.analysis.i))
        for place, each in zip(self.own, values, strict=True):
            out[place] += each
        out[self.constraints] = 1.0
        return out

    def site_entries(self, w: np.ndarray) -> np.ndarray:
        """Return the entries of AᵀWA, dense columns included, given the precisions w of the sites."""
        w = w.reshape(len(self.directions), self.rows)
        each = (w.T @ self.shared) * self.weight[:, self.a] * self.weight[:, self.b]
        out = np.bincount(self.pairs, each.ravel(), len(self.analysis.i)).astype(float, copy=False)
        if len(self.dense):
            X = self.X.reshape(self.functions, self.rows, -1)
            WX = np.einsum("nlm,mnd->lnd", blocks_of_precisions(w), X).reshape(self.X.shape)
            out[self.crossed] += (self.A.T @ WX)[self.touched].ravel()
            out[self.among] += (self.X.T @ WX)[self.low]
        return out

    def forms(self, entries: np.ndarray) -> np.ndarray:
        """Return aᵀ S a per site, with the loads a of what it acts on, given the entries of S on the pattern."""
        twice = np.where(self.a == self.b, 1.0, 2.0)
        each = twice * self.weight[:, self.a] * self.weight[:, self.b]
        out = self.shared @ (each * entries[self.pairs].reshape(each.shape)).T
        if len(self.dense):
            square = np.zeros((len(self.dense), len(self.dense)))
            square[self.low] = entries[self.among]
            square = square + np.tril(square, -1).T
            shape, D = (self.functions, self.rows, -1), self.directions
            left = (2 * (self.A @ self._crossed(entries)) + self.X @ square).reshape(shape)
            out += np.einsum("kl,km,lnd,mnd->kn", D, D, left, self.X.reshape(shape), optimize=True)
        return out.reshape(self.shape)

    def _crossed(self, entries: np.ndarray) -> np.ndarray:
        """Return the entries between the variables and the dense ones, (variables, dense)."""
        out = np.zeros((self.variables, len(self.dense)))
        out[self.touched] = entries[self.crossed].reshape(len(self.touched), len(self.dense))
        return out

    def products(self, entries: np.ndarray) -> np.ndarray:
        """Return S a_i per row at the variables on which the row loads, (rows, loads), for one function per row."""
        square = np.zeros((self.rows, *2 * self.weight.shape[1:]))
        square[:, self.a, self.b] = square[:, self.b, self.a] = entries[self.pairs].reshape(self.rows, -1)
        out = np.einsum("nkl,nl->nk", square, self.weight)
        if len(self.dense):
            out += np.einsum("nkd,nd->nk", self._crossed(entries)[self.index], self.X)
        return out

    def floored(self, var: np.ndarray) -> np.ndarray:
        """Return the variances along the directions; the variance of every function is raised to LEAST_VARIANCE."""
        each = var.reshape(len(self.directions), self.rows)
        short = np.maximum(LEAST_VARIANCE - each[: self.functions], 0.0)
        return (each + self.directions**2 @ short).reshape(self.shape)

    def times(self, x: np.ndarray) -> np.ndarray:
        """Return A x of what the sites act on."""
        found = self.A @ x[: self.variables] + self.X @ x[self.dense]
        return along(found.reshape(self.functions, self.rows)).reshape(self.shape)

    def transposed_times(self, b: np.ndarray) -> np.ndarray:
        """Return Aᵀ b, with zeros for the multipliers."""
        b = combined(b.reshape(len(self.directions), self.rows)).ravel()
        out = np.zeros(self.analysis.size)
        out[: self.variables] = self.A.T @ b
        out[self.dense] += self.X.T @ b
        return out

    def matrix_times(self, entries: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return S x of the symmetric matrix with these entries."""
        i, j, off = self.analysis.i, self.analysis.j, self.twice > 1
        out = np.bincount(i, entries * x[j], self.analysis.size)
        return out + np.bincount(j[off], (entries * x[i])[off], self.analysis.size)


def _is_group(layout: Layout) -> bool:
    """Return whether the variables are independent, with one of them per row."""
    return not layout.dense and not layout.sums and layout.index.shape[1] == 1 and len(layout.i) == layout.size


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def _loads_matrix(index: np.ndarray, weight: np.ndarray, variables: int) -> sp.csr_matrix:
    rows, k = index.shape
    return sp.csr_matrix((weight.ravel(), index.ravel(), np.arange(rows + 1) * k), (rows, variables))


def _hubs(i: np.ndarray, j: np.ndarray, whole: int, border: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
    """Return variables with too many neighbours for a sparse factor, which they would fill."""
    inner = np.ones(whole, bool)
    inner[border] = inner[multipliers] = False
    between = inner[i] & inner[j]
    degree = np.bincount(i[between], minlength=whole) + np.bincount(j[between], minlength=whole)
    found = np.flatnonzero(degree > HUB_FACTOR * np.sqrt(max(np.sum(inner), 100)))
    return found if len(found) <= MAX_HUBS else np.empty(0, np.int64)


_kept: OrderedDict[Hashable, Assembly] = OrderedDict()


def assembly_of(parts: Sequence[Part], X: np.ndarray, of: tuple[int, ...] = ()) -> Assembly:
    """Return the assembly of these parts and rows; the last ones are kept, because a search asks for them again.

    It depends on the settings of the parts, which are in the structure of their tree, and not on their numbers.  `of`
    has the number of the function per part, if there are several functions.
    """
    form: Hashable = jax.tree.structure(tuple(parts))
    key = form, of, X.shape, hashlib.blake2b(np.ascontiguousarray(X, float).data).digest()
    found = _kept.get(key)
    if found is None:
        found = Assembly(parts, X, of)
    # Not `move_to_end`: a fit in another thread may have removed the key.
    _kept.pop(key, None)
    _kept[key] = found
    while len(_kept) > MAX_KEPT:
        _kept.popitem(last=False)
    return found
