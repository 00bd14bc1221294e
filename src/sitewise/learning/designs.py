"""Points and weights for integrals against a standard normal density in a few dimensions.

A rule replaces ∫ h(z) N(z; 0, I) dz by Σ_k w_k h(z_k), Σ_k w_k = 1.

    grid   Gauss–Hermite points in every dimension: exact for polynomials of degree 9 in each of one or two (n = 5)
    ccd    the centre with w_0 = 1 − 1/f², and n points at the distance f√p from it with w = 1/(n f²): those along the
           axes, and for p ≤ 5 corners of a cube (a fraction of them that keeps pairs of axes apart).  Exact for
           polynomials of degree 3, and for the variances, as Σ z zᵀ is a multiple of I for axes and for corners
"""

from __future__ import annotations

import itertools

import numpy as np

_FAR = 1.1  # f: a little beyond the sphere on which a normal vector lies
_MOST_CORNERS = 5


def grid(dimensions: int, points: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (count, dimensions) and weights."""
    at, weight = np.polynomial.hermite_e.hermegauss(points)
    weight = weight / np.sum(weight)
    nodes = np.array(list(itertools.product(at, repeat=dimensions)))
    weights = np.array([np.prod(w) for w in itertools.product(weight, repeat=dimensions)])
    return nodes, weights


def central_composite(dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (count, dimensions) and weights; the first node is the centre."""
    axes = np.concatenate([np.eye(dimensions), -np.eye(dimensions)]) * _FAR * np.sqrt(dimensions)
    outer = np.concatenate([axes, _FAR * _corners(dimensions)])
    weight = 1 / (len(outer) * _FAR**2)
    nodes = np.concatenate([np.zeros((1, dimensions)), outer])
    return nodes, np.concatenate([[1 - 1 / _FAR**2], np.full(len(outer), weight)])


def _corners(dimensions: int) -> np.ndarray:
    """Corners of the cube [−1, 1]^p; of five dimensions those whose last sign is the product of the others."""
    if not 2 <= dimensions <= _MOST_CORNERS:
        return np.zeros((0, dimensions))
    free = min(dimensions, 4)
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=free)))
    return signs if free == dimensions else np.column_stack([signs, np.prod(signs, axis=1)])
