"""The density π(v) ∝ exp(evidence + log p(v)) of the hyperparameters given the data, at any vector v."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from sitewise.arrays.engine import to_host
from sitewise.data import Data
from sitewise.inference import Inference
from sitewise.inference.solve import solve_with_posterior
from sitewise.inference.start import start_of
from sitewise.learning.objective import Objective
from sitewise.model import Model
from sitewise.priors import LatentPosterior
from sitewise.process.precision import WORKING_DTYPE
from sitewise.sites import Sites

FAR_NODE = 2.0  # in log θ from the mode: inference farther away starts from the likelihood's own sites
MAX_FAR_PARAMETERS = 4  # of more parameters a node is far in one direction only, and its sites are not


@dataclasses.dataclass(frozen=True)
class Density:
    """π at any v, with the model and the sites there."""

    problem: Objective
    model: Model
    data: Data
    sites: Sites
    final: Inference | None
    limits: np.ndarray | None
    sites_tol: float
    mode: np.ndarray

    @functools.cached_property
    def inference(self) -> Inference:
        """The inference of the problem, to the tolerance of nodes."""
        inference = self.problem.inference
        return dataclasses.replace(inference, tol=max(self.sites_tol, inference.tolerance(WORKING_DTYPE)))

    def at(self, vector: np.ndarray) -> tuple[Model, Sites, float, bool, LatentPosterior | None]:
        if self.limits is not None and np.any((vector < self.limits[:, 0]) | (vector > self.limits[:, 1])):
            return self.model, self.sites, -np.inf, False, None
        model = to_host(self.problem.trainable.from_vector(self.model, vector))
        same = self.final is None or self.final == self.problem.inference
        near = len(vector) > MAX_FAR_PARAMETERS or np.max(np.abs(vector - self.mode), initial=0.0) < FAR_NODE
        start = self.sites if same and near else start_of(self.problem.inference, model, self.data)
        found = solve_with_posterior(self.inference, model, self.data, start)
        if found.q is None:
            log = float(self.problem.evidence(model, self.data, found.solution.sites))
        else:
            evidence = self.problem.evidence
            log = float(evidence.on_marginals(model.likelihood, self.data, found.q, found.solution.sites))
        log += float(self._of_vector.log_prior_with_slope(vector)[0])
        settled = found.solution.outcome.settled
        if not same:
            assert self.final is not None
            found = solve_with_posterior(self.final, model, self.data, self.sites)
            settled &= found.solution.outcome.settled
        sites = Sites(*(np.asarray(a) for a in found.solution.sites))
        good = settled and bool(np.isfinite(log))
        return model, sites, log if good else -np.inf, not good, found.posterior

    @property
    def _of_vector(self) -> Objective:
        """The objective with the prior density of the vector instead of θ."""
        return dataclasses.replace(self.problem, jacobian=True)

    def slope_of_volume(self, vector: np.ndarray) -> np.ndarray:
        """Return the derivative of log p(v) − log p(θ(v)); zero if the fit has maximised the density of v."""
        slopes = [one.log_prior_with_slope(vector)[1] for one in (self._of_vector, self.problem)]
        return np.asarray(slopes[0]) - np.asarray(slopes[1])
