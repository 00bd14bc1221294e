"""Integrate over the hyperparameters deterministically: a weighted set of models around the optimum.

The density of the unconstrained vector v (log θ for a positive θ) given the data is

    π(v) ∝ exp(evidence(v) + log p(v)),     p(v) with the Jacobian of θ(v); flat in v where θ has no prior,

within the bounds of the search, with the evidence of the fit's own pair.  With the mode m and the negative Hessian
U Λ Uᵀ there, v = m + U Λ^−½ z.  There are two kinds of designs, both INLA's (Rue, Martino & Chopin 2009) with any
evidence in the place of Laplace's:

    rule      ∫ h(v) π(v) dv  ≈  Σ_k w_k r_k h(v_k) / Σ_k w_k r_k,     r_k = π(v_k) / N(z_k; 0, I),
              where (z_k, w_k) is a rule for the standard normal density (`designs`).  Few nodes; exact where π is
              Gaussian, too narrow where π is skewed
    lattice   equal weights in z on the points h ℤ-vectors of one parity, the trapezoidal rule: exact up to terms of
              order exp(−π²/h²) where π is Gaussian, and accurate for any smooth π.  The points are those that are
              reached from the mode while π, or π s with the prior variance s of f, may be at most 5 + p/4 nats below
              its largest value.  The variance of f is an integral of about π s: for labels, whose π falls slowly with
              s, points with little mass contribute much of it

Vectors of integers that are all even or all odd form a body-centred lattice.  In three dimensions it needs 1.4 and in
four 2 times fewer points than a cubic lattice of the same accuracy.  Where log π is concave along a line,

    log π(z + d)  ≤  2 log π(z) − log π(z − d)

(and the same of π s), and a neighbour whose bound is too deep is not visited.

The fit maximises evidence + log p(θ), without the Jacobian.  One Newton step, (U Λ Uᵀ)⁻¹ times the derivative of the
difference, leads from there to the mode of π.  Predictions are mixtures of those of the nodes.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from sitewise.arrays.engine import to_host
from sitewise.data import Data
from sitewise.inference import Inference
from sitewise.kernels.distances import same_rows
from sitewise.learning import designs
from sitewise.learning.curvature import MIN_PRIOR_SHARE
from sitewise.learning.density import Density
from sitewise.learning.fit import Fit
from sitewise.learning.hessian import prior_curvature
from sitewise.model import Model
from sitewise.numerics.dense.cholesky import eigen
from sitewise.priors import LatentPosterior
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

DESIGNS = ("fine", "coarse", "star", "grid", "ccd", "laplace", "lattice")
MAX_GRID_PARAMETERS = 2
MAX_LATTICE_PARAMETERS = 4
MAX_LATTICE_ROWS = 500  # of three and four parameters: above, the many nodes of a "fine" lattice take too long
MAX_DIRECTIONS = 8  # of more parameters, the directions in which they are least certain
MAX_SD = 4.0  # largest standard deviation of log θ that a design covers
# Residuals of the sites of a node: its log density is accurate to about 3e-3 nats in "star" and "coarse", else to 3e-5.
QUICK_SITES_TOL, NODE_SITES_TOL = 1e-2, 1e-3
# Limits of the diagnostics, beyond which the design should not be trusted.
MIN_EFFECTIVE = 0.3
MAX_OUTSIDE = 0.3
MAX_UNVISITED = 0.02  # mass next to a lattice that broke off
MAX_FAILED = 0.02
MAX_RISE = 5.0  # nats by which π may be higher at a node than at the centre
OUTER_SHARE = 0.7  # of the largest squared distance from the centre
MIN_GRID_EFFECTIVE = 0.6  # a coarse grid that is less effective gives way to a lattice
LATTICE_STEP, MAX_LATTICE_POINTS = 1.06, 600
LATTICE_DEPTH, DEPTH_PER_PARAMETER = 5.0, 0.25  # nats


class Node(NamedTuple):
    """A model with its sites, and the share of the posterior mass of θ that it stands for.

    posterior   q(f) from the factor of inference; None on an accelerator
    """

    vector: np.ndarray
    model: Model
    sites: Sites
    log_density: float
    weight: float
    posterior: LatentPosterior | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Integrated:
    """The nodes of an integral over the hyperparameters, and its diagnostics.

    Attributes
    ----------
    nodes : list of Node
        Models with their sites and shares of the posterior mass of θ.
    design : str
        The design of the nodes.
    log_evidence : float
        log ∫ exp(evidence + log p(v)) dv, in nats; with proper, normalised priors the evidence of the model with θ
        integrated out.
    effective : float
        (Σ w r)² / Σ w r² over the rule, between 0 and 1: 1 where π is Gaussian; on a lattice the share of its points
        that would carry as much if they were equal.
    outside : float
        How much more weight the outermost nodes have than a Gaussian would give them, or a bound on the mass next to a
        lattice that broke off; the mass beyond is missed.
    failed : float
        The share of a Gaussian (of the points, on a lattice) at the nodes where inference did not settle; their weight
        here is 0.
    directions : tuple of two int
        How many directions were integrated over, of how many.
    rise : float
        How much higher log π is at the best node than at the centre, in nats.  A lattice breaks off at MAX_RISE.
    """

    nodes: list[Node]
    design: str
    log_evidence: float
    effective: float
    outside: float
    failed: float
    directions: tuple[int, int]
    rise: float

    def trimmed(self, share: float) -> Integrated:
        """Return the heaviest nodes only, which stand for all but at most this share of the mass."""
        heaviest = sorted(self.nodes, key=lambda node: -node.weight)
        before = np.cumsum([0.0, *(node.weight for node in heaviest)])[:-1]
        kept = [node for node, mass in zip(heaviest, before, strict=True) if mass < 1 - share]
        total = sum(node.weight for node in kept)
        return dataclasses.replace(self, nodes=[node._replace(weight=node.weight / total) for node in kept])

    def __str__(self) -> str:
        some, of = self.directions
        over = f"{some} of {of} directions" if some < of else f"{of} hyperparameters"
        effective = "" if self.design == "lattice" else f", {self.effective:.0%} effective"
        words = f"Integrated over {over}: {self.design} of {len(self.nodes)} nodes{effective}."
        return " ".join([words, *self.problems])

    @property
    def problems(self) -> list[str]:
        """Return why the integral is not reliable; empty if no problem is found."""
        found = []
        if self.design != "lattice" and self.effective < MIN_EFFECTIVE:
            found.append(
                f"The posterior of the hyperparameters is far from Gaussian: {self.effective:.0%} of the design is "
                "effective."
            )
        if self.outside > (MAX_UNVISITED if self.design == "lattice" else MAX_OUTSIDE):
            found.append(
                f"{self.outside:.0%} of the weight lies at the edge of the design, so that the integral may be "
                "inaccurate; set priors on the hyperparameters, or use method='mcmc'."
            )
        if self.failed > MAX_FAILED:
            found.append(f"Inference did not settle at {self.failed:.0%} of the nodes, as the design weights them.")
        if self.rise > MAX_RISE:
            found.append(
                "Other hyperparameters are more probable than the optimum that was found, by more than "
                f"{MAX_RISE:.0f} nats; try restarts, more rounds of learning, or priors."
            )
        return found


def integrate(
    fit: Fit, design: str = "fine", final: Inference | None = None, max_points: int | None = None
) -> Integrated:
    """Integrate over the hyperparameters: nodes around the optimum of a fit, each with its weight.

    Takes one gradient per parameter and one inference per node.  Of more than eight parameters the directions are those
    in which they are least certain; the others stay at the mode.

    Parameters
    ----------
    fit : Fit
        The result of `Nested`.
    design : str, default="fine"
        The design of the nodes:

        - "lattice": up to four parameters
        - "grid": a product rule, up to two parameters
        - "ccd": central composite design
        - "star": central composite design without corners, in the directions of which the prior contributes at most
          three quarters of the curvature of log π.  The others stay at the mode
        - "laplace": central composite design with a Gaussian in the place of π
        - "fine": a lattice for up to two parameters, and for up to four with at most MAX_LATTICE_ROWS rows, else "ccd"
        - "coarse": "ccd" for three parameters and more, else "grid", or "lattice" if π is far from Gaussian
    final : Inference, default=None
        Inference of the sites that are returned; None for the inference of the fit.
    max_points : int, default=None
        The points after which a lattice breaks off; None for MAX_LATTICE_POINTS.

    Returns
    -------
    integrated : Integrated
        Nodes and diagnostics.
    """
    if design not in DESIGNS:
        raise ValueError(f"design must be {', '.join(map(repr, DESIGNS))}, got {design!r}.")
    _require_all_rows(fit)
    quick = design in ("star", "coarse")
    curvature, problem = fit.quick_curvature if quick else fit.curvature, fit.problem
    assert problem is not None  # else `curvature` has raised
    free = np.flatnonzero(curvature.free)
    model, data = to_host((fit.model, fit.data))
    with working_precision(), same_rows(data.X):
        minus_hessian = -curvature.hessian[np.ix_(free, free)]
        if not np.all(np.isfinite(minus_hessian)):
            raise ValueError(
                "Inference does not converge next to the optimum, so that the hyperparameters cannot be integrated out "
                "there; use a prior or bounds, or another method."
            )
        values, U = eigen(minus_hessian)
        values = np.maximum(values, MAX_SD**-2)
        centre = curvature.vector.copy()
        tol = QUICK_SITES_TOL if quick else NODE_SITES_TOL
        here = Density(problem, model, data, fit.sites, final, fit.limits, tol, centre)
        centre[free] += U @ ((U.T @ here.slope_of_volume(centre)[free]) / values)
        # Eigenvalues increase: the least certain directions come first.
        directions = np.arange(min(len(free), MAX_DIRECTIONS))
        if design == "star":  # the other directions are as certain as their prior, and stay at the mode
            share = U.T**2 @ prior_curvature(problem, curvature.vector)[free] / values
            directions = np.flatnonzero(share < MIN_PRIOR_SHARE)[:MAX_DIRECTIONS]
        chosen = len(directions)
        axes = np.zeros((len(centre), chosen))
        axes[free] = U[:, directions] / np.sqrt(values[directions])
        log_volume = -0.5 * float(np.sum(np.log(values)))

        def at(z: np.ndarray) -> _Point:
            return _Point(centre + axes @ z, *here.at(centre + axes @ z))

        def heights(point: _Point) -> np.ndarray:
            return point.log_density + np.array([0.0, _log_scale(point.model, data)])

        kind = _kind(design, chosen, data.rows)
        if kind == "lattice":
            return _on_lattice(at, chosen, log_volume, heights, max_points or MAX_LATTICE_POINTS)
        found = _by_rule(kind, at, chosen, len(free), log_volume)
        if design == "coarse" and kind == "grid" and found.effective < MIN_GRID_EFFECTIVE:
            return _on_lattice(at, chosen, log_volume, heights, max_points or MAX_LATTICE_POINTS)
        return found


def _kind(design: str, dimensions: int, rows: int) -> str:
    """Return the lattice or rule that a design stands for."""
    if design == "coarse":
        return "grid" if dimensions <= MAX_GRID_PARAMETERS else "ccd"
    if design == "fine":
        small = dimensions <= MAX_LATTICE_PARAMETERS and rows <= MAX_LATTICE_ROWS
        return "lattice" if dimensions <= MAX_GRID_PARAMETERS or small else "ccd"
    return design


class _Point(NamedTuple):
    """`log_density` is −inf beyond the bounds of the search, and where inference failed."""

    vector: np.ndarray
    model: Model
    sites: Sites
    log_density: float
    failed: bool
    posterior: LatentPosterior | None = None


def _by_rule(
    kind: str, at: Callable[[np.ndarray], _Point], dimensions: int, free: int, log_volume: float
) -> Integrated:
    z, weight = _rule(kind, dimensions)
    found = [at(point) for point in z]
    logs = np.array([point.log_density for point in found])
    gaussian = -0.5 * np.sum(z**2, axis=1)
    ratio = logs - gaussian
    if not np.isfinite(ratio).any():
        raise ValueError("Inference converged at no node around the optimum; use a prior or bounds, or another method.")
    total = float(logsumexp(ratio, b=weight))
    share = weight * np.exp(ratio - total)
    mean_square = float(logsumexp(2 * ratio, b=weight))
    outer = gaussian <= OUTER_SHARE * np.min(gaussian)
    if kind == "laplace":
        share = np.where(np.isfinite(logs), weight, 0.0) / np.sum(weight[np.isfinite(logs)])
    return Integrated(
        [Node(*point[:4], float(w), point.posterior) for point, w in zip(found, share, strict=True)], kind,
        total + 0.5 * free * np.log(2 * np.pi) + log_volume, float(np.exp(2 * total - mean_square)),
        float(np.sum(np.maximum(share - weight, 0.0)[outer])) if kind != "laplace" else 0.0,
        float(np.sum(weight[[point.failed for point in found]])), (dimensions, free),
        float(np.max(logs) - centre) if np.isfinite(centre := logs[np.argmax(gaussian)]) else 0.0,
    )  # fmt: skip


def _log_scale(model: Model, data: Data) -> float:
    """Return log s, s the mean prior variance of f at the rows."""
    kernels, X = model.prior.kernels, model.prior.kernel_columns(np.asarray(data.X))
    each = kernels if isinstance(kernels, list) else [kernels]
    return float(np.log(np.mean([np.mean(kernel.variances(X)) for kernel in each])))


def _on_lattice(
    at: Callable[[np.ndarray], _Point],
    dimensions: int,
    log_volume: float,
    heights: Callable[[_Point], np.ndarray],
    max_points: int,
) -> Integrated:
    """Visit all points one of whose `heights` (log π, log π s) may be within the depth of its largest value.

    They are visited in the order of their bounds, so that a lattice that ends early has the best.
    """
    if dimensions > MAX_LATTICE_PARAMETERS:
        raise ValueError(
            f"A lattice is for up to {MAX_LATTICE_PARAMETERS} hyperparameters, and there are {dimensions}; use 'ccd'."
        )
    depth = LATTICE_DEPTH + DEPTH_PER_PARAMETER * dimensions
    ways = list(itertools.product((-1, 1), repeat=dimensions)) if dimensions else []
    found: dict[tuple[int, ...], _Point] = {}
    known: dict[tuple[int, ...], np.ndarray] = {}  # their heights
    bounds: dict[tuple[int, ...], np.ndarray] = {}  # on the heights of their neighbours
    waiting = [(-np.inf, (0,) * dimensions)]
    best = np.full(2, -np.inf)
    rise = 0.0
    while waiting and len(found) < max_points and rise <= MAX_RISE:
        _, place = heapq.heappop(waiting)
        if place in found or (place in bounds and np.all(bounds[place] < best - depth)):
            continue
        found[place] = point = at(LATTICE_STEP * np.array(place, dtype=float))
        known[place] = here = heights(point)
        best = np.maximum(best, here)
        centre = known[(0,) * dimensions][0]
        rise = float(best[0] - centre) if np.isfinite(centre) else 0.0
        for way in ways if np.isfinite(point.log_density) else []:
            bound = here + np.minimum(here - known.get(_moved(place, way, -1), here), 0.0)
            ahead = _moved(place, way, 1)
            bounds[ahead] = np.maximum(bounds.get(ahead, bound), bound)
            heapq.heappush(waiting, (-float(np.max(bound - best)), ahead))
    if not np.isfinite(best[0]):
        raise ValueError("Inference converged at no node around the optimum; use a prior or bounds, or another method.")
    logs = np.array([point.log_density for point in found.values()])
    total = float(logsumexp(logs))
    share = np.exp(logs - total)
    left = [bound for place, bound in bounds.items() if place not in found and np.any(bound >= best - depth)]
    visited = logsumexp(np.array(list(known.values())), axis=0)
    unvisited = float(np.max(np.sum(np.exp(np.array(left) - visited), axis=0))) if left else 0.0
    cell = dimensions * np.log(LATTICE_STEP) + max(dimensions - 1, 0) * np.log(2)
    return Integrated(
        [Node(*point[:4], float(w), point.posterior) for point, w in zip(found.values(), share, strict=True)],
        "lattice", total + cell + log_volume, float(1 / (len(share) * np.sum(share**2))),
        float(unvisited / (1 + unvisited)),
        float(np.mean([point.failed for point in found.values()])), (dimensions, dimensions), rise,
    )  # fmt: skip


def _moved(place: tuple[int, ...], way: tuple[int, ...], times: int) -> tuple[int, ...]:
    return tuple(i + times * j for i, j in zip(place, way, strict=True))


def _require_all_rows(fit: Fit) -> None:
    if fit.learned_from is not None:
        raise ValueError(
            f"The hyperparameters were learned from {fit.learned_from.rows} of the {fit.data.rows} rows, and the "
            "integral needs the optimum for all rows; train with all rows."
        )


def _rule(kind: str, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    if dimensions == 0:
        return np.zeros((1, 0)), np.ones(1)
    if kind == "grid":
        if dimensions > MAX_GRID_PARAMETERS:
            raise ValueError(
                f"A grid is for up to {MAX_GRID_PARAMETERS} hyperparameters, and there are {dimensions}; use 'ccd'."
            )
        return designs.grid(dimensions)
    return designs.central_composite(dimensions, corners=kind != "star")
