"""Interpolation of values at scattered points of a few dimensions: a cubic spline, and local linear fits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist


class CubicSpline(NamedTuple):
    """s(x) = Σ_j w_j |x − x_j|³ + a₀ + aᵀx, with Σ w_j = 0 and Σ w_j x_j = 0."""

    points: np.ndarray
    weights: np.ndarray
    linear: np.ndarray

    def at(self, x: np.ndarray) -> np.ndarray:
        """Return s at the rows of x."""
        return (cdist(x, self.points) ** 3) @ self.weights + self.linear[0] + x @ self.linear[1:]


def cubic_spline(points: np.ndarray, values: np.ndarray, smoothing: float) -> CubicSpline:
    """Return the spline through the values, or near them if points nearly coincide; zero if there are too few points.

    `smoothing` is added to the diagonal of the matrix |x_i − x_j|³.
    """
    count, size = points.shape
    if count <= size:
        return CubicSpline(points, np.zeros(count), np.zeros(1 + size))
    linear = np.column_stack([np.ones(count), points])
    matrix = np.block(
        [[cdist(points, points) ** 3 + smoothing * np.eye(count), linear], [linear.T, np.zeros((1 + size, 1 + size))]]
    )
    found = np.linalg.solve(matrix, np.append(values, np.zeros(1 + size)))
    return CubicSpline(points, found[:count], found[count:])


def local_linear_shares(away: np.ndarray, distance2: float) -> np.ndarray:
    """Return the shares of the values at points in a weighted linear fit, which is evaluated at one place.

    Rows of `away` are points minus this place.  Weights are 1/(distance2 + |away|²).
    """
    design = np.column_stack([np.ones(len(away)), away])  # the value at the place is the constant of the fit
    weighted = design / (distance2 + np.sum(away**2, axis=1))[:, None]
    ridge = 1e-9 * np.eye(design.shape[1])  # points may lie on a line
    return np.linalg.solve(weighted.T @ design + ridge, weighted.T)[0]
