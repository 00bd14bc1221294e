"""Hyperparameters integrated out, deterministically: a weighted set of models around the optimum.

The density of the unconstrained vector v (log θ for a positive θ) given the data is

    π(v) ∝ exp(evidence(v) + log p(v)),     p(v) with the Jacobian of θ(v); flat in v where θ has no prior,

with the evidence of the fit's own pair.  With the mode m and the negative Hessian U Λ Uᵀ there, v = m + U Λ^−½ z, and

    ∫ h(v) π(v) dv  ≈  Σ_k w_k r_k h(v_k) / Σ_k w_k r_k,     r_k = π(v_k) / N(z_k; 0, I),

where (z_k, w_k) is a rule for the standard normal density (`designs`).  Where π is Gaussian r is constant; where it is
not, the weights w_k r_k show it.  This is INLA's outer loop (Rue, Martino & Chopin 2009) with any evidence in the place
of Laplace's.  Predictions are mixtures of those of the nodes.

The fit maximises evidence + log p(θ), without the Jacobian.  One Newton step, (U Λ Uᵀ)⁻¹ times the derivative of the
difference, leads from there to the mode of π.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sitewise.data import Data
from sitewise.inference import Inference
from sitewise.inference.solve import solve
from sitewise.kernels.distances import same_rows
from sitewise.learning import designs
from sitewise.learning.base import SiteFit
from sitewise.learning.objective import Objective
from sitewise.model import Model
from sitewise.numerics.cholesky import eigen
from sitewise.runtime.engine import to_host
from sitewise.runtime.precision import working_precision
from sitewise.sites import Sites

DESIGNS = ("auto", "grid", "ccd", "laplace")
_ON_A_GRID = 2  # parameters
_DIRECTIONS = 8  # of more parameters, those in which they are least certain
_LOOSEST = 4.0  # largest standard deviation of log θ that a design reaches for
_STEP = 1e-4
# Below these the design is not to be trusted.
_LEAST_EFFECTIVE = 0.3
_MOST_OUTSIDE = 0.3
_MOST_FAILED = 0.02
_OUTERMOST = 0.7  # of the largest squared distance from the centre


class Node(NamedTuple):
    """A model with its sites, and the share of the posterior mass of θ that it stands for."""

    vector: np.ndarray
    model: Model
    sites: Sites
    log_density: float
    weight: float


@dataclasses.dataclass(frozen=True, eq=False)
class Integrated:
    """What the integral is made of.

    log_evidence   log ∫ exp(evidence + log p(v)) dv, in nats; with proper, normalised priors the evidence of the model
                   with θ integrated out
    effective      (Σ w r)² / Σ w r² over the rule, between 0 and 1: 1 where π is Gaussian
    outside        how much more weight the outermost nodes have than a Gaussian would give them; what lies beyond them
                   is missed
    failed         the share of a Gaussian at the nodes where inference did not settle; their weight here is 0
    directions     how many directions were integrated over, of how many
    """

    nodes: list[Node]
    design: str
    log_evidence: float
    effective: float
    outside: float
    failed: float
    directions: tuple[int, int]

    def __str__(self) -> str:
        some, of = self.directions
        over = f"{some} of {of} directions" if some < of else f"{of} hyperparameters"
        words = f"Integrated over {over}: {self.design} of {len(self.nodes)} nodes, {self.effective:.0%} effective."
        return " ".join([words, *self.problems])

    @property
    def problems(self) -> list[str]:
        """Why the integral is not to be trusted, in words; empty if nothing speaks against it."""
        found = []
        if self.effective < _LEAST_EFFECTIVE:
            found.append(
                f"The posterior of the hyperparameters is far from Gaussian: {self.effective:.0%} of the design is "
                "effective."
            )
        if self.outside > _MOST_OUTSIDE:
            found.append(
                f"{self.outside:.0%} of the mass is at the outermost nodes, beyond what a Gaussian has there, and more "
                "may lie beyond them: a prior on the hyperparameters, or method='mcmc', would tell."
            )
        if self.failed > _MOST_FAILED:
            found.append(f"Inference did not settle at nodes that would hold {self.failed:.0%} of a Gaussian.")
        return found


def integrate(fit: SiteFit, design: str = "auto", final: Inference | None = None) -> Integrated:
    """Nodes around the optimum of a fit.  It costs a gradient for every parameter, and one solution for each node.

    design   "grid" (up to two parameters), "ccd" (central composite), or "laplace" (the latter with a Gaussian in the
             place of π); "auto" is grid for one or two parameters and ccd for more.  Of more than eight parameters the
             directions are those in which they are least certain; the others stay at the mode
    final    inference of the sites that are returned, if not that of the fit
    """
    if design not in DESIGNS:
        raise ValueError(f"design must be {', '.join(map(repr, DESIGNS))}, got {design!r}.")
    curvature, problem = fit.curvature, fit.problem
    assert problem is not None  # else `curvature` has raised
    free = np.flatnonzero(curvature.free)
    model, data = to_host((fit.model, fit.data))
    with working_precision(), same_rows(data.X):
        here = _Density(problem, model, data, fit.sites, final)
        minus_hessian = -curvature.hessian[np.ix_(free, free)]
        if not np.all(np.isfinite(minus_hessian)):
            raise ValueError(
                "Inference does not settle next to the optimum, so that the hyperparameters cannot be integrated out "
                "there; use a prior or bounds, or another method."
            )
        values, U = eigen(minus_hessian)
        values = np.maximum(values, _LOOSEST**-2)
        centre = curvature.vector.copy()
        centre[free] += U @ ((U.T @ here.slope_of_volume(centre)[free]) / values)
        chosen = min(len(free), _DIRECTIONS)  # eigenvalues increase: the least certain come first
        spread = U[:, :chosen] / np.sqrt(values[:chosen])
        kind = ("grid" if chosen <= _ON_A_GRID else "ccd") if design == "auto" else design
        z, weight = _rule(kind, chosen)
        found = []
        for point in z:
            vector = centre.copy()
            vector[free] += spread @ point
            found.append((vector, *here.at(vector)))
    logs = np.array([log for *_, log in found])
    gaussian = -0.5 * np.sum(z**2, axis=1)
    ratio = np.where(np.isfinite(logs), logs, -np.inf) - gaussian
    if not np.isfinite(ratio).any():
        raise ValueError("Inference settled at no node around the optimum; use a prior or bounds, or another method.")
    volume = 0.5 * len(free) * np.log(2 * np.pi) - 0.5 * np.sum(np.log(values))
    total = float(logsumexp(ratio, b=weight))
    share = weight * np.exp(ratio - total)
    mean_square = float(logsumexp(2 * ratio, b=weight))
    outer = gaussian <= _OUTERMOST * np.min(gaussian)
    if kind == "laplace":
        share = np.where(np.isfinite(logs), weight, 0.0) / np.sum(weight[np.isfinite(logs)])
    nodes = [Node(v, m, s, float(log), float(w)) for (v, m, s, log), w in zip(found, share, strict=True)]
    return Integrated(
        nodes, kind, total + volume, float(np.exp(2 * total - mean_square)),
        float(np.sum(np.maximum(share - weight, 0.0)[outer])) if kind != "laplace" else 0.0,
        float(np.sum(weight[~np.isfinite(logs)])), (chosen, len(free)),
    )  # fmt: skip


def laplace_evidence(fit: SiteFit) -> float:
    """log ∫ π by a Gaussian at the optimum alone; NaN where it is no maximum, or inference fails next to it.

    The fit must have maximised the density of the vector (`jacobian`), or have flat priors.
    """
    curvature = fit.curvature
    free = np.flatnonzero(curvature.free)
    values, _ = eigen(-curvature.hessian[np.ix_(free, free)])
    values = np.maximum(values, _LOOSEST**-2)
    return fit.objective + 0.5 * len(free) * np.log(2 * np.pi) - 0.5 * float(np.sum(np.log(values)))


def _rule(kind: str, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    if dimensions == 0:
        return np.zeros((1, 0)), np.ones(1)
    if kind == "grid":
        if dimensions > _ON_A_GRID:
            raise ValueError(
                f"A grid is for up to {_ON_A_GRID} hyperparameters, and there are {dimensions}; use 'ccd'."
            )
        return designs.grid(dimensions)
    return designs.central_composite(dimensions)


@dataclasses.dataclass(frozen=True)
class _Density:
    """π at any v, with the model and the sites there."""

    problem: Objective
    model: Model
    data: Data
    sites: Sites
    final: Inference | None

    def at(self, vector: np.ndarray) -> tuple[Model, Sites, float]:
        model = to_host(self.problem.trainable.from_vector(self.model, vector))
        same = self.final is None or self.final == self.problem.inference
        found = solve(self.problem.inference, model, self.data, self.sites if same else None)
        log = float(self.problem.evidence(model, self.data, found.sites))
        log += float(self.problem.trainable.log_prior(vector, self.problem.priors))
        settled = found.outcome.settled
        if not same:
            assert self.final is not None
            found = solve(self.final, model, self.data, self.sites)
            settled &= found.outcome.settled
        sites = Sites(*(np.asarray(a) for a in found.sites))
        return model, sites, log if settled else -np.inf

    def slope_of_volume(self, vector: np.ndarray) -> np.ndarray:
        """The derivative of log p(v) − log p(θ(v)), by differences: it is the Jacobian's, which is smooth."""

        def difference(v: np.ndarray) -> float:
            whole = self.problem.trainable.log_prior(v, self.problem.priors)
            return float(whole) - float(self.problem.log_prior(v))

        steps = _STEP * np.eye(len(vector))
        return np.array([(difference(vector + s) - difference(vector - s)) / (2 * _STEP) for s in steps])
