"""Natural cubic splines with given knots, in a basis in which the roughness ∫f″² is a sum of squares.

With knots u_1 < … < u_K, h_k = u_{k+1} − u_k and γ the second derivatives at the inner knots, a natural cubic spline
with values v at the knots has Rγ = Dv, where (Green & Silverman 1994, section 2.1)

    D[k] = (1/h_k, −1/h_k − 1/h_{k+1}, 1/h_{k+1}),    R tridiagonal: (h_k + h_{k+1})/3, and h_{k+1}/6 beside it

and ∫f″² = vᵀ S v, S = Dᵀ R⁻¹ D.  S = Σ_j λ_j e_j e_jᵀ has rank K − 2.  The basis functions have the values e_j/√(c λ_j)
at the knots: ∫f″² of Σ_j w_j φ_j is Σ_j w_j²/c, and with w ~ N(0, I) the variance at the knots is 1 on average.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sitewise.arrays.engine import Array, namespace


class SplineBasis(NamedTuple):
    """Basis functions φ_1 … φ_{K−2} by values and second derivatives at the knots, both (K, K − 2); rough last.

    They are orthogonal to constants and straight lines at the knots.
    """

    knots: np.ndarray
    values: np.ndarray
    curvatures: np.ndarray

    @staticmethod
    def of(knots: np.ndarray) -> SplineBasis:
        """Return the basis of at least three increasing knots."""
        unit = (knots[-1] - knots[0]) / (len(knots) - 1)  # eigenvalues near 1
        h, inner = np.diff(knots) / unit, len(knots) - 2
        D, R, every = np.zeros((inner, inner + 2)), np.zeros((inner, inner)), np.arange(inner)
        D[every, every], D[every, every + 1], D[every, every + 2] = 1 / h[:-1], -1 / h[:-1] - 1 / h[1:], 1 / h[1:]
        R[every, every] = (h[:-1] + h[1:]) / 3
        R[every[1:], every[:-1]] = R[every[:-1], every[1:]] = h[1:-1] / 6
        second = np.linalg.solve(R, D)
        roughness, axes = np.linalg.eigh(D.T @ second)
        values = axes[:, 2:] / np.sqrt(roughness[2:])
        values /= np.sqrt(np.mean(np.sum(values**2, axis=1)))
        curvatures = np.zeros_like(values)
        curvatures[1:-1] = second @ values
        return SplineBasis(knots, values, curvatures / unit**2)

    def at(self, x: Array) -> Array:
        """Return the basis functions at the points x, (n, K − 2); straight lines beyond the knots."""
        xp, u = namespace(x), self.knots
        k = xp.clip(xp.searchsorted(xp.asarray(u), x) - 1, 0, len(u) - 2)
        u, values, curvatures = (xp.asarray(a) for a in self)
        h, inside = u[k + 1] - u[k], xp.clip(x, u[0], u[-1])
        left, right = (u[k + 1] - inside) / h, (inside - u[k]) / h
        bend = h**2 / 6
        out = left[:, None] * values[k] + right[:, None] * values[k + 1]
        out = out + (bend * (left**3 - left))[:, None] * curvatures[k]
        out = out + (bend * (right**3 - right))[:, None] * curvatures[k + 1]
        slope = (values[k + 1] - values[k]) / h[:, None]
        slope = slope + (h / 6 * (1 - 3 * left**2))[:, None] * curvatures[k]
        slope = slope + (h / 6 * (3 * right**2 - 1))[:, None] * curvatures[k + 1]
        return out + (x - inside)[:, None] * slope
