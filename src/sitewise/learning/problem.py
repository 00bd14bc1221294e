"""One optimisation problem: maximise θ ↦ evidence(θ, λ*(θ)) for given rows, within bounds, from given sites.

A `Problem` is a value: `learning.search` searches it, `learning.stages` makes smaller ones of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import numpy as np

from sitewise import evidence as ev
from sitewise.arrays.engine import namespace, on_host, to_host
from sitewise.arrays.spread import agreed, is_spread
from sitewise.checks import at_least, shown
from sitewise.data import Data, bucket
from sitewise.evidence import Evidence
from sitewise.hyperpriors import HyperPrior
from sitewise.inference import VI, Inference, Solution
from sitewise.inference.loop import iterate
from sitewise.inference.solve import solve_by_fallbacks
from sitewise.inference.start import start_of
from sitewise.learning.objective import GRADIENTS, INPUTS, Evaluation, Objective, profile, pulls_on_host
from sitewise.model import Model
from sitewise.parameters import Groups, Trainable
from sitewise.process.device import on_cpu
from sitewise.process.precision import WORKING_DTYPE
from sitewise.sites import Sites

_TOL_PER_SITES_TOL = 0.1  # approximate sites leave an error of about their residual in the gradient


@dataclasses.dataclass(frozen=True)
class Pair:
    """An inference to solve at every θ and an evidence to maximise.

    gradient   how the evidence is differentiated (`learning.objective`)
    final      the inference of the returned sites; None: the inference used for learning
    """

    inference: Inference
    evidence: Evidence
    gradient: str = "implicit"
    final: Inference | None = None


@dataclasses.dataclass(frozen=True)
class NestedSettings:
    """The settings of a search for hyperparameters; `Nested` documents them."""

    inference: Inference = VI()
    evidence: Evidence = ev.ep
    gradient: str = "implicit"
    fixed: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    bounds: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    priors: Mapping[str, HyperPrior] = dataclasses.field(default_factory=dict)
    restarts: int = 0
    max_rounds: int = 200
    tol: float = 1e-6
    least_gain: float = 0.0
    name: str = "nested"
    final: Inference | None = None
    variants: Mapping[str, Pair] = dataclasses.field(default_factory=dict)
    tied: Groups = ()
    jacobian: bool = False
    learning_rows: int | None = None
    move_inputs: bool = False

    def __post_init__(self) -> None:
        if self.gradient not in (*GRADIENTS, "auto"):
            raise ValueError(f"gradient must be one of {', '.join(GRADIENTS)} or auto, got {self.gradient!r}.")
        for kind, name, given in ((Inference, "inference", self.inference), (Evidence, "evidence", self.evidence)):
            if not isinstance(given, kind):
                example = "VI()" if kind is Inference else "evidence.ep"
                raise ValueError(f"{name} must be an object such as {example}, got {shown(given)}.")
        at_least("restarts", self.restarts, 0)
        at_least("max_rounds", self.max_rounds, 1)
        if self.learning_rows is not None:
            at_least("learning_rows", self.learning_rows, 1)
        for name, number in (("tol", self.tol), ("least_gain", self.least_gain)):
            if not 0 <= number < np.inf:
                raise ValueError(f"{name} must be a finite number of at least 0, got {number!r}.")

    def pair(self, model: Model) -> Pair:
        """Return the inference and the evidence for a model, by the structure of its prior."""
        own = Pair(self.inference, self.evidence, self.gradient, self.final)
        return self.variants.get(model.prior.structure, own)

    def final_inference(self, model: Model) -> Inference:
        """Return the inference of the sites that a fit of this model returns."""
        pair = self.pair(model)
        return pair.final or pair.inference


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Maximise `objective` over the trained hyperparameters of `model` on `data`; make one with `Problem.of`.

    model, data   NumPy arrays for the host engine; data padded to a common size for the traced engine
    total         the number of rows, each counted with its weight
    limits        (low, high) of every entry of the vector of unconstrained hyperparameters
    units         step units of the ascent per entry: standard deviations of the columns for inducing inputs, else 1
    first_sites   where inference starts, unless sites of another θ are known
    """

    settings: NestedSettings
    model: Model
    data: Data
    pair: Pair
    objective: Objective
    total: float
    limits: np.ndarray
    units: np.ndarray
    first_sites: Sites
    on_host: bool

    @staticmethod
    def of(
        settings: NestedSettings, model: Model, data: Data, sites: Sites | None = None, size: int | None = None
    ) -> Problem:
        """Set up the problem; `size` is the padded number of rows on an accelerator."""
        trainable = Trainable.of(model, settings.fixed, settings.train, tied=settings.tied)
        host = pulls_on_host(model, trainable.names) and on_host(model, data, sites)
        pair, model_there = settings.pair(model), to_host(model)
        data_there = to_host(data) if host else data.to_bucket(bucket(data.rows) if size is None else size)
        # No site of two latent functions is held at a limit.
        stationary = "fixed" if model.likelihood.log_concave or model.likelihood.functions else "implicit"
        objective = Objective(
            pair.inference,
            pair.evidence,
            stationary if pair.gradient == "auto" else pair.gradient,
            trainable,
            trainable.priors(settings.priors),
            settings.jacobian,
        )
        return Problem(
            settings=settings,
            model=model_there,
            data=data_there,
            pair=pair,
            objective=objective,
            total=float(namespace(data_there.weight).sum(data_there.weight)),
            limits=trainable.limits(settings.bounds, model.prior.least(), model.prior.input_units(data.ranges())),
            units=_units(trainable, model_there),
            first_sites=start_of(pair.inference, model_there, data_there, sites),
            on_host=host,
        )

    @property
    def trainable(self) -> Trainable:
        return self.objective.trainable

    def with_sites_tol(self, tol: float | None) -> Problem:
        """Return the problem with inference solved to `tol` or its own tolerance, whichever is larger.

        Approximate sites are for pairs whose evidence is stationary in the sites (gradient "auto"), or whose error of
        first order is known (gradient "implicit"): there an error of the sites changes the evidence by its square.
        Other problems are returned as they are.
        """
        if tol is None or self.pair.gradient not in ("auto", "implicit"):
            return self
        inference = self.pair.inference
        approximate = dataclasses.replace(inference, tol=max(tol, inference.tolerance(WORKING_DTYPE)))
        return dataclasses.replace(self, objective=dataclasses.replace(self.objective, inference=approximate))

    @property
    def reachable_tol(self) -> float | None:
        """The gradient per row at which a search with approximate sites stops; None for the tolerance asked for."""
        sites_tol = self.pair.inference.tol
        if not self.settings.least_gain or sites_tol is None or self.pair.final is None:
            return None
        return max(self.settings.tol, _TOL_PER_SITES_TOL * sites_tol)

    @functools.cached_property
    def start(self) -> np.ndarray:
        """The vector of the model's own hyperparameters."""
        return np.asarray(self.trainable.to_vector(self.model))

    def restarts(self, seed: int) -> list[np.ndarray]:
        """Draw further starts around the first one, log-uniformly within a factor e²."""
        rng = np.random.default_rng(seed)
        moved = [self.start + rng.uniform(-2.0, 2.0, self.start.shape) for _ in range(self.settings.restarts)]
        return [np.clip(one, *self.limits.T) if len(one) else one for one in moved]

    def evaluate(self, vector: np.ndarray, sites: Sites) -> Evaluation:
        """Return the objective and its gradient at `vector`, with inference started from `sites`."""
        if not is_spread(self.data):
            return profile(self.objective, self.model, self.data, vector, sites)
        found = profile(self.objective, self.model, self.data, agreed(vector), sites)
        sites, code, stats = found.solution
        value, slope, code, stats = agreed((found.value, found.gradient, code, stats))
        return Evaluation(value, slope, Solution(sites, code, stats))

    def approximate_value(self, vector: np.ndarray, sites: Sites, tol: float) -> tuple[float, Solution]:
        """Return the objective without its gradient, on sites that solve inference to `tol`; on the host only.

        The objective is −inf where inference does not converge.
        """
        inference = dataclasses.replace(self.pair.inference, tol=tol)
        model = self.model_at(vector)
        mean_suffices = inference.mean_only and self.pair.evidence.name == ev.laplace.name
        end = iterate(inference, model.likelihood, model.prior.gram(self.data.X), self.data, sites, mean_suffices)
        if not end.solution.outcome.settled:
            return -np.inf, end.solution
        evidence = self.pair.evidence.on_marginals(model.likelihood, self.data, end.point.q, end.solution.sites)
        return float(evidence) + self.log_prior(vector), end.solution

    def model_at(self, vector: np.ndarray) -> Model:
        """Return the model with the hyperparameters of `vector`."""
        return jax.tree.map(np.asarray, self.trainable.from_vector(self.model, np.asarray(vector)))

    def log_prior(self, vector: np.ndarray) -> float:
        """Return the log density of the hyperpriors, 0 without any."""
        return float(self.objective.log_prior_with_slope(vector)[0])

    def solve_by_fallbacks(self, model: Model, failed: Solution) -> Solution:
        """Try the other ways to the sites, on the CPU where possible: they are rare and need programs of their own."""
        if not model.prior.host or is_spread(self.data):
            return solve_by_fallbacks(self.pair.inference, model, self.data, failed)
        with on_cpu():
            return solve_by_fallbacks(self.pair.inference, model, to_host(self.data), failed)

    def at_bound(self, vector: np.ndarray) -> tuple[str, ...]:
        """Return the labels of the entries that lie at one of their limits."""
        return self.trainable.at_bound(vector, self.limits)


def _units(trainable: Trainable, model: Model) -> np.ndarray:
    found = [np.ones(p.raw_size) for p in trainable.parameters]
    if INPUTS in trainable.names:
        Z = np.asarray(model.prior.inputs)
        spread = np.std(Z, axis=0)
        at = trainable.names.index(INPUTS)
        found[at] = np.ravel(np.broadcast_to(np.where(spread > 0, spread, 1.0), Z.shape))
    return np.concatenate(found) if found else np.zeros(0)
