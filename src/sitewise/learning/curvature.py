"""Standard errors of hyperparameters: the curvature of the objective at its maximum.

With H the Hessian of the objective in the unconstrained vector v (log θ for a positive θ), v is approximately normal
around the maximum with the covariance −H⁻¹ (R&W section 5.2).  H is computed by differences of the exact gradient; an
inexact gradient ("fixed" for most pairs) would give another matrix.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy import special

from sitewise.arrays.engine import on_host, to_host
from sitewise.arrays.spread import whole
from sitewise.data import Data
from sitewise.inference.start import padded_sites
from sitewise.learning.hessian import by_differences, prior_curvature
from sitewise.learning.objective import Objective, is_stationary_pair, profile
from sitewise.model import Model
from sitewise.numerics.dense.cholesky import cholesky
from sitewise.numerics.dense.symmetric import absolute_inverse
from sitewise.numerics.dense.triangular import lower_inverse
from sitewise.parameters import Trainable
from sitewise.process.precision import working_precision
from sitewise.sites import Sites
from sitewise.supports import Bounded, Positive, Real

_STEP = 1e-3  # of the vector: truncation and the gradient's error of about 1e-8 are then both below 1e-5
MAX_CENTRAL = 4  # entries; more have one-sided differences, which cost half and are off by about 1e-3
MIN_PRIOR_SHARE = 0.75  # of the curvature of an entry, from which the estimate of a search is used


@dataclasses.dataclass(frozen=True, eq=False)
class Curvature:
    """Standard errors of hyperparameters: the Hessian of the objective at the maximum, in the unconstrained vector.

    Attributes
    ----------
    trainable : Trainable
        The learned hyperparameters.
    vector : array of shape (n_entries,)
        Their unconstrained values.
    hessian : array of shape (n_entries, n_entries)
        One row and one column per entry of `trainable.labels`; NaN for entries that ended at a bound.
    free : array of shape (n_entries,)
        Which entries are not at a bound.
    """

    trainable: Trainable
    vector: np.ndarray
    hessian: np.ndarray
    free: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        """−H⁻¹; NaN for entries at a bound, and throughout if this is no maximum or inference failed next to it."""
        out = np.full(self.hessian.shape, np.nan)
        if not self.free.any():
            return out
        inner = np.ix_(self.free, self.free)
        half = lower_inverse(cholesky(-self.hessian[inner]))
        out[inner] = half.T @ half
        return out

    @property
    def standard_errors(self) -> dict[str, float]:
        """By label; of log θ for a positive parameter, which is about a share of θ."""
        errors = np.sqrt(np.diagonal(self.covariance))
        return dict(zip(self.trainable.labels, map(float, errors), strict=True))

    def intervals(self, level: float = 0.9) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return (low, high) of every parameter in its own units: marginal intervals.

        Parameters on a simplex or in an order, whose entries cannot move one by one, have none.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, got {level}.")
        reach = special.ndtri(0.5 + 0.5 * level) * np.sqrt(np.diagonal(self.covariance))
        with np.errstate(over="ignore"):  # no upper end where the data do not determine it
            ends = [self.trainable.constrained(self.vector + sign * reach) for sign in (-1, 1)]
        movable = [p.name for p in self.trainable.parameters if isinstance(p.support, Positive | Real | Bounded)]
        return {name: (ends[0][name], ends[1][name]) for name in movable}


def curvature(
    objective: Objective,
    model: Model,
    data: Data,
    sites: Sites | None,
    at_bound: tuple[str, ...] = (),
    max_central: int = MAX_CENTRAL,
) -> Curvature:
    """Compute the curvature at the θ of this model, by one or two evaluations of the objective per entry of θ.

    Inference starts from `sites`; entries whose label is in `at_bound` are held fixed.  Differences are central for up
    to `max_central` entries, else one-sided.
    """
    trainable = objective.trainable
    with working_precision():
        model = to_host(model)
        rows = to_host(data) if on_host(model, data) else data.to_bucket()
        start = padded_sites(model.likelihood, rows, sites)
        vector = np.asarray(trainable.to_vector(model))
        free = np.array([label not in at_bound for label in trainable.labels], bool)
        steps, central = np.full(len(vector), _STEP), bool(np.sum(free) <= max_central)
        hessian = by_differences(
            lambda at: _gradient(objective, model, rows, at, start), vector, steps, np.flatnonzero(free), central
        )
        hessian[:, ~free] = np.nan
    return Curvature(trainable, vector, 0.5 * (hessian + hessian.T), free)


class SearchEnd(NamedTuple):
    """The end of a search: the inverse of the negative Hessian as its ascent has estimated it, and the gradient.

    The gradient is None where it was computed on approximate sites.
    """

    covariance: np.ndarray
    gradient: np.ndarray | None


def completed(
    objective: Objective, model: Model, data: Data, sites: Sites | None, at_bound: tuple[str, ...], end: SearchEnd
) -> Curvature:
    """Compute the curvature from the estimate of a search and a few evaluations of the objective.

    The search estimates the Hessian well where the prior of θ determines it, because that part of its first guess is
    exact.  Rows and columns of the other entries are replaced by differences of the gradient.
    """
    trainable = objective.trainable
    with working_precision():
        model, rows = to_host((model, data))
        start = padded_sites(model.likelihood, rows, sites)
        vector = np.asarray(trainable.to_vector(model))
        free = np.array([label not in at_bound for label in trainable.labels], bool)
        hessian = -absolute_inverse(end.covariance, 0.0)
        known = prior_curvature(objective, vector) > MIN_PRIOR_SHARE * -np.diagonal(hessian)
        entries = np.flatnonzero(free & ~known)
        found = by_differences(
            lambda at: _gradient(objective, model, rows, at, start), vector, np.full(len(vector), _STEP), entries,
            here=end.gradient,
        )[entries]  # fmt: skip
        hessian[entries], hessian[:, entries] = found, found.T
        block = np.ix_(entries, entries)
        hessian[block] = 0.5 * (hessian[block] + hessian[block].T)
        hessian[~free], hessian[:, ~free] = np.nan, np.nan
    return Curvature(trainable, vector, hessian, free)


def _gradient(objective: Objective, model: Model, data: Data, vector: np.ndarray, sites: Sites) -> np.ndarray:
    """Return the exact gradient; NaN where inference does not converge, so that no wrong number is reported.

    Where the evidence is stationary in the sites, the gradient with fixed sites is exact and needs no adjoint, whose
    programs take seconds to compile.  Sites at a limit are not stationary.
    """
    stationary = objective.gradient == "fixed" and is_stationary_pair(
        objective.inference, objective.evidence, model.likelihood
    )
    found = whole(profile(objective, model, data, vector, sites)) if stationary else None
    if found is None or found.solution.stats.clipped:
        sharp = dataclasses.replace(objective, gradient="implicit")
        found = whole(profile(sharp, model, data, vector, sites))
    return found.gradient if found.solution.outcome.settled else np.full(len(vector), np.nan)
