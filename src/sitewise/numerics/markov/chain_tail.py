"""How far the rows before a cut of a chain move, when what the rows after it say changes.

The states before the cut, given the last of them, z, do not depend on the rows after it.  So the divergence of the new
posterior of all of them from the old one, as one Gaussian, is that of the posteriors of z; that of the rows is no more.
With P the covariance of z given the rows before, A the step over the cut, and r, N of that step (`markov_sites`):

    mean of z = m + P Aᵀr,    V = P − P Nₐ P,  Nₐ = AᵀN A,    V⁻¹P = (I − Nₐ P)⁻¹ = G
    2 KL ≈ Δmᵀ V⁻¹ Δm + ½ tr (V⁻¹ΔV)² = (AᵀΔr)ᵀ P G (AᵀΔr) + ½ tr (G ΔNₐ P)²

of which nothing is inverted but I − Nₐ P.
"""

from __future__ import annotations

import numpy as np


def moved(A: np.ndarray, P: np.ndarray, r: np.ndarray, N: np.ndarray, r_old: np.ndarray, N_old: np.ndarray) -> float:
    """√(2 KL): the largest number of its standard deviations by which a combination of the rows before moves."""
    slope, now, before = A.T @ (r - r_old), A.T @ N @ A, A.T @ N_old @ A
    found = np.linalg.solve(np.eye(len(P)) - now @ P, np.column_stack([slope, (now - before) @ P]))
    square = slope @ P @ found[:, 0] + 0.5 * np.trace(found[:, 1:] @ found[:, 1:])
    return float(np.sqrt(np.abs(square)))
