"""An order of places from coarse to fine, and the nearest earlier places of every place (Vecchia's approximation)."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

MAX_CELL_COLUMNS = 20  # coordinates that are halved
TIED = 1e-12  # relative difference of squared distances that are equal up to rounding
MAX_HALVINGS = 40  # of halvings of a cell; beyond them places are closer than rounding


def coarse_to_fine(places: np.ndarray) -> np.ndarray:
    """Return an order in which every first part of the places covers the region evenly.

    Level by level, the cells of a grid are halved in every direction, and each cell that holds no place of an earlier
    level adds its place nearest to the centre.  This is close to the maximin order, in O(n log n).
    """
    low, extent = places.min(axis=0), max(float(np.max(np.ptp(places, axis=0))), np.finfo(float).tiny)
    unit = ((places - low) / extent)[:, :MAX_CELL_COLUMNS]
    left, order = np.arange(len(places)), []
    taken, cell = np.zeros(len(places), bool), np.zeros(len(places), np.int64)
    halves = 2 ** np.arange(unit.shape[1])
    for level in range(MAX_HALVINGS):
        cells = np.minimum((unit * 2**level).astype(np.int64), 2**level - 1)
        cell = np.unique(cell * (2 * halves[-1]) + cells % 2 @ halves, return_inverse=True)[1].reshape(-1)
        filled = np.zeros(cell.max(initial=0) + 1, bool)
        filled[cell[taken]] = True
        open_ = left[~filled[cell[left]]]
        away = np.sum((unit[open_] * 2**level - cells[open_] - 0.5) ** 2, axis=1)
        by_cell = np.lexsort((away, cell[open_]))
        ranked = open_[by_cell]
        first = np.ones(len(ranked), bool)
        first[1:] = cell[ranked[1:]] != cell[ranked[:-1]]
        order.append(ranked[first])
        taken[ranked[first]] = True
        left = left[~taken[left]]
        if not len(left):
            break
    return np.concatenate([*order, left])


def earlier_neighbours(places: np.ndarray, count: int) -> np.ndarray:
    """Return the `count` nearest earlier places of every place, in the order given; −1 where there are fewer.

    Exact: candidates come from trees over the first part of the places, whose length doubles.
    """
    n = len(places)
    found = np.full((n, count), -1)
    for i in range(1, min(count + 1, n)):
        found[i, :i] = np.arange(i)
    begin = count + 1
    while begin < n:
        end = min(2 * begin, n)
        tree, asked, left = cKDTree(places[:end]), 2 * count + 8, np.arange(begin, end)
        while len(left):
            near = tree.query(places[left], k=min(asked, end))[1]
            earlier = near < left[:, None]
            enough = earlier.sum(axis=1) >= count
            ranked = np.argsort(~earlier[enough], axis=1, kind="stable")[:, :count]
            found[left[enough]] = np.take_along_axis(near[enough], ranked, axis=1)
            left, asked = left[~enough], 2 * asked
        begin = end
    return found


def nearest(tree: cKDTree, at: np.ndarray, count: int) -> np.ndarray:
    """Return the `count` places of the tree nearest to every point, the first of equally near places first.

    The tree returns equally near places, as of a grid, in an order of its own; distances are computed again.
    """
    places = np.asarray(tree.data)
    found, left, asked = np.empty((len(at), count), np.int64), np.arange(len(at)), min(2 * count + 8, tree.n)
    while len(left):
        near = np.sort(tree.query(at[left], k=np.arange(1, asked + 1))[1], axis=1)
        away = sum((places[near, j] - at[left, j, None]) ** 2 for j in range(at.shape[1]))
        ranked = np.argsort(away, axis=1, kind="stable")
        found[left] = np.take_along_axis(near, ranked, axis=1)[:, :count]
        sorted_ = np.take_along_axis(away, ranked, axis=1)
        open_ = sorted_[:, -1] <= sorted_[:, count - 1] * (1 + TIED)  # further places may be as near
        left, asked = left[open_ & (asked < tree.n)], min(2 * asked, tree.n)
    return found
