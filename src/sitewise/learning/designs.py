"""Points and weights for integrals against a standard normal density in a few dimensions.

A rule replaces ∫ h(z) N(z; 0, I) dz by Σ_k w_k h(z_k), Σ_k w_k = 1.

    grid   for one dimension 5 Gauss–Hermite points, exact for polynomials of degree 9; for two 12 points of degree 7
           (Stroud 1971, E₂^{r²} 7-1): 4 on the axes and 8 on the diagonals
    ccd    the centre with w_0 = 1 − 1/f², and n points at the distance f√p from it with w = 1/(n f²): those along the
           axes, and for p ≤ 5 corners of a cube (a fraction of them that keeps pairs of axes apart).  Exact for
           polynomials of degree 3, and for the variances, as Σ z zᵀ is a multiple of I for axes and for corners.
           Without corners the rule is as exact, and knows less of how π bends between the axes
"""

from __future__ import annotations

import itertools

import numpy as np

_RADIUS = 1.1  # f: a little beyond the sphere on which a normal vector lies
_MAX_CORNER_DIMENSIONS = 5


def grid(dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (count, dimensions) and weights, for one or two dimensions."""
    if dimensions == 1:
        at, weight = np.polynomial.hermite_e.hermegauss(5)
        return at[:, None], weight / np.sum(weight)
    axes = np.sqrt(6.0) * np.concatenate([np.eye(2), -np.eye(2)])
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=2)))
    root = np.sqrt(5.0)
    inner, outer = (np.sqrt((9 - sign * 3 * root) / 4) * signs for sign in (1, -1))
    weights = np.repeat([1 / 36, (5 + 2 * root) / 45, (5 - 2 * root) / 45], 4)
    return np.concatenate([axes, inner, outer]), weights


def central_composite(dimensions: int, corners: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (count, dimensions) and weights; the first node is the centre."""
    axes = np.concatenate([np.eye(dimensions), -np.eye(dimensions)]) * _RADIUS * np.sqrt(dimensions)
    outer = np.concatenate([axes, _RADIUS * _corners(dimensions)]) if corners else axes
    weight = 1 / (len(outer) * _RADIUS**2)
    nodes = np.concatenate([np.zeros((1, dimensions)), outer])
    return nodes, np.concatenate([[1 - 1 / _RADIUS**2], np.full(len(outer), weight)])


def _corners(dimensions: int) -> np.ndarray:
    """Corners of the cube [−1, 1]^p; of five dimensions those whose last sign is the product of the others."""
    if not 2 <= dimensions <= _MAX_CORNER_DIMENSIONS:
        return np.zeros((0, dimensions))
    free = min(dimensions, 4)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=free)))
    return signs if free == dimensions else np.column_stack([signs, np.prod(signs, axis=1)])
