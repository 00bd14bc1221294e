"""Bound on the change of a chain's posterior before a cut when the sites after the cut change.

Let z be the last state before the cut.  Given z, all earlier states are independent of the rows after the cut.  The
divergence between the new and the old joint posterior of the states before the cut is therefore equal to the divergence
between the two posteriors of z, and bounds the divergence for the rows.  With P the covariance of z given the rows
before the cut, A the step over the cut, and r, N of that step (`filtering`):

    mean of z = m + P Aᵀr,    V = P − P Nₐ P,  Nₐ = AᵀN A,    V⁻¹P = (I − Nₐ P)⁻¹ = G
    2 KL ≈ Δmᵀ V⁻¹ Δm + ½ tr (V⁻¹ΔV)² = (AᵀΔr)ᵀ P G (AᵀΔr) + ½ tr (G ΔNₐ P)²

Only I − Nₐ P is inverted.
"""

from __future__ import annotations

import numpy as np


def moved(A: np.ndarray, P: np.ndarray, r: np.ndarray, N: np.ndarray, r_old: np.ndarray, N_old: np.ndarray) -> float:
    """Return √(2 KL) between the posteriors before the cut, for (r, N) and for (r_old, N_old) after it.

    It bounds the shift, in standard deviations, of every linear combination of the rows before the cut.
    """
    dr, N_new, N_before = A.T @ (r - r_old), A.T @ N @ A, A.T @ N_old @ A
    solved = np.linalg.solve(np.eye(len(P)) - N_new @ P, np.column_stack([dr, (N_new - N_before) @ P]))
    twice_kl = dr @ P @ solved[:, 0] + 0.5 * np.trace(solved[:, 1:] @ solved[:, 1:])
    return float(np.sqrt(np.abs(twice_kl)))
