"""Log-Gaussian Cox process: count points in the cells of a grid, with the area of a cell as exposure.

If points have the intensity exp f(x), the number of points in a cell of area a with centre x is approximately
Poisson(a · exp f(x)).  A finer grid improves the approximation, because f varies less within a cell (Møller,
Syversveen & Waagepetersen 1998).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class GridCells(NamedTuple):
    """Point pattern as counts per grid cell; the last axis varies fastest.

    Attributes
    ----------
    X : array of shape (n_cells, n_columns)
        Centre per cell.
    counts : array of shape (n_cells,)
        Number of points per cell.
    exposure : array of shape (n_cells,)
        Size (length, area or volume) per cell.
    """

    X: np.ndarray
    counts: np.ndarray
    exposure: np.ndarray


def gridded_points(points: ArrayLike, cells: int | Sequence[int], extent: Sequence[tuple[float, float]]) -> GridCells:
    """Count points per grid cell, for a log-Gaussian Cox process by likelihood="poisson" with exposure.

    Predictions at exposure 1 are the intensity.

    Parameters
    ----------
    points : array of shape (n_points, n_columns)
        Locations of the events, such as coordinates on a map; without events, an array of shape (0, n_columns).
    cells : int or sequence of int
        The number of cells along each axis, or one number for all axes.
    extent : sequence of tuples
        (low, high) of each axis: the observed area.  It must contain every point; an empty cell means that no event
        happened there.

    Returns
    -------
    cells : GridCells
        Centres, counts and sizes.

    Examples
    --------
    >>> from sitewise.estimators import gridded_points
    >>> cells = gridded_points([[0.1, 0.2], [0.9, 0.8], [0.8, 0.9]], cells=2, extent=[(0, 1), (0, 1)])
    >>> cells.counts.tolist(), cells.exposure.tolist()
    ([1.0, 0.0, 0.0, 2.0], [0.25, 0.25, 0.25, 0.25])
    """
    places = np.asarray(points, float)
    if places.ndim != 2 or places.shape[1] != len(extent):
        raise ValueError(f"points must have one column per axis of the extent, {len(extent)}; got {places.shape}.")
    numbers = [cells] * len(extent) if isinstance(cells, int) else list(cells)
    if len(numbers) != len(extent) or any(n < 1 for n in numbers):
        raise ValueError("cells must be one positive number, or one per axis.")
    if any(not low < high for low, high in extent):
        raise ValueError("extent must hold (low, high) with low < high per axis.")
    for axis, (low, high) in enumerate(extent):
        if not np.all((places[:, axis] >= low) & (places[:, axis] <= high)):
            raise ValueError(f"A point lies outside of the extent of axis {axis}, {low:g} to {high:g}; widen it.")
    edges = [np.linspace(low, high, n + 1) for n, (low, high) in zip(numbers, extent, strict=True)]
    count, _ = np.histogramdd(places, bins=edges)
    middles = np.meshgrid(*(0.5 * (e[1:] + e[:-1]) for e in edges), indexing="ij")
    size = float(np.prod([e[1] - e[0] for e in edges]))
    X = np.column_stack([middle.ravel() for middle in middles])
    return GridCells(X, count.ravel(), np.full(count.size, size))
