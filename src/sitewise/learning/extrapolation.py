"""Predict sites at new hyperparameters from the sites at hyperparameters that were evaluated before.

Sites are smooth functions of θ.  With the differences (δθ_j, δλ_j) to the nearest evaluated point (θ_0, λ_0),

    λ(θ) ≈ λ_0 + Σ_j c_j δλ_j,     c = argmin |θ − θ_0 − Σ_j c_j δθ_j|² + ridge · |c|²

The prediction is a start of inference and never a result: a bad prediction costs steps.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from sitewise.numerics.dense.symmetric import ridge_solution
from sitewise.sites import Sites

_MAX_POINTS = 8  # nearest points whose differences are combined
_RIDGE = 0.05  # in units of the mean squared length of the differences
_MAX_COMBINATION = 1.5  # Σ |c_j|: beyond it a prediction is an extrapolation that is not trusted
_MIN_KEPT = 0.2  # of the precision at the nearest point


@dataclasses.dataclass
class VisitedSites:
    """The points θ at which inference has settled, and their sites, on NumPy arrays."""

    vectors: list[np.ndarray] = dataclasses.field(default_factory=list)
    sites: list[Sites] = dataclasses.field(default_factory=list)

    def add(self, vector: np.ndarray, sites: Sites) -> None:
        self.vectors.append(np.asarray(vector))
        self.sites.append(sites)

    def at(self, vector: np.ndarray) -> Sites | None:
        """Return the predicted sites; None before the first point."""
        if not self.vectors:
            return None
        steps = np.array(self.vectors) - vector
        order = np.argsort(np.sum(steps**2, axis=1), kind="stable")[: _MAX_POINTS + 1]
        base, others = order[0], order[1:]
        moved = steps[others] - steps[base]  # from the nearest point to the others
        squares = np.sum(moved**2, axis=1)
        others, moved = others[squares > 0], moved[squares > 0]
        if not len(others) or not np.any(steps[base]):
            return self.sites[base]
        shares = ridge_solution(moved, -steps[base], _RIDGE * float(np.mean(squares)))
        shares *= min(1.0, _MAX_COMBINATION / max(float(np.sum(np.abs(shares))), 1e-300))
        first = self.sites[base]
        nat1 = first.nat1 + sum(c * (self.sites[j].nat1 - first.nat1) for c, j in zip(shares, others, strict=True))
        prec = first.prec + sum(c * (self.sites[j].prec - first.prec) for c, j in zip(shares, others, strict=True))
        return Sites(nat1, np.maximum(prec, _MIN_KEPT * first.prec))
