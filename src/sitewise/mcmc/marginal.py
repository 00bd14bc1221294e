"""Unbiased estimates of p(θ | y) by importance sampling or annealing, with draws of f (pseudo-marginal MCMC).

At θ, draws from q_θ = prior × sites are weighted (`importance_sampling`), or annealed to the posterior of f (`ais`)
where their weights are too uneven.  The sites are interpolated, or EP's.  With the weights w_j,

    p̂(θ) = p(θ) Z_q(θ) (1/J) Σ_j w_j,     E p̂(θ) = p(θ) p(y | θ),     and  f = f_j with probability ∝ w_j.

A Metropolis chain of θ leaves p(θ, f | y) invariant if it uses p̂ in place of p and keeps the estimate of its current
θ, because the random numbers of p̂ are part of the state (Andrieu, Doucet & Holenstein 2010).  This holds for any q_θ
and any temperatures that do not depend on the weights.  Better q_θ and temperatures reduce the noise of log p̂ and
increase the acceptance rate: about 70 % for a standard deviation of 0.5.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from sitewise import evidence
from sitewise.arrays import programs
from sitewise.arrays.engine import to_host
from sitewise.data import Data
from sitewise.evidence import Evidence
from sitewise.hyperpriors import HyperPrior
from sitewise.inference import EP, VI, Inference, Solution
from sitewise.inference.loop import iterate
from sitewise.inference.start import first_sites
from sitewise.mcmc import ais, importance_sampling
from sitewise.mcmc.emulator import Emulator
from sitewise.mcmc.reference import Target, reference
from sitewise.model import Model
from sitewise.numerics.dense.triangular import lower_solve
from sitewise.parameters import Trainable
from sitewise.sites import Sites

# The estimates are unbiased for any sites, and approximate sites are nearly as good as converged sites.
_APPROXIMATE_EP = EP(tol=1e-4, max_steps=20)
_APPROXIMATE_VI = VI(tol=1e-3, max_steps=30)
_ANNEALED = ais.Annealing(chains=16, reverse=False)
PILOTS = 16  # number of θ at which temperatures are set; any other θ takes the temperatures of the nearest pilot
_FIRST_STEPS = 4
_MAX_STEPS = 512
_MIN_ESS = 5.0  # (Σw)²/Σw² of 16 weights, for which the log of their mean has a standard deviation of about 0.4
_NEIGHBOURS = 4  # neighbouring pilots; a pilot has at least their median number of steps, as its own number is noisy


class Weighed(NamedTuple):
    """An estimate: log p̂(θ), the log weights of its chains, and the whitened latent values of its chains."""

    vector: np.ndarray
    log_density: float
    log_w: np.ndarray
    z: np.ndarray

    def pick(self, rng: np.random.Generator) -> np.ndarray:
        """Return the latent values of one chain, drawn in proportion to the weights."""
        share = np.exp(self.log_w - logsumexp(self.log_w))
        return self.z[rng.choice(len(share), p=share / np.sum(share))]


class Schedule(NamedTuple):
    """Temperatures at the pilots θ (`vectors`): number of steps and their spacing (`knots`).

    `by_ep` says at which pilots EP is run, because interpolated sites do not suffice.
    """

    vectors: np.ndarray
    knots: np.ndarray
    steps: np.ndarray
    by_ep: np.ndarray


@functools.partial(programs.jit, static_argnums=0)
def _pilot(
    settings: ais.Annealing, model: Model, data: Data, sites: Sites, key: jax.Array, steps: jax.Array
) -> jax.Array:
    return ais.pilot_knots(settings, key, Target(reference(model, data, sites), model.likelihood, data), steps)


@functools.partial(programs.jit, static_argnums=0)
def _anneal(
    settings: ais.Annealing,
    model: Model,
    data: Data,
    sites: Sites,
    key: jax.Array,
    knots: jax.Array,
    steps: jax.Array,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return log Z_q, the log weights, and the whitened latent values (chains, rows)."""
    ref = reference(model, data, sites)
    state, log_w, _ = ais.forward(settings, key, Target(ref, model.likelihood, data), knots, steps)
    return ref.log_z, log_w, lower_solve(ref.prior_root, state.position - ref.prior_mean[:, None]).T


@dataclasses.dataclass(frozen=True)
class Marginal:
    """p(θ | y) of a model with one latent function; `data` are NumPy arrays, `padded` for compiled programs."""

    trainable: Trainable
    priors: tuple[tuple[str, HyperPrior], ...]
    model: Model
    data: Data
    padded: Data
    limits: np.ndarray

    def log_prior(self, vector: np.ndarray) -> float:
        """Return the log prior density of the vector; −∞ outside its limits."""
        if np.any(vector < self.limits[:, 0]) or np.any(vector > self.limits[:, 1]):
            return -np.inf
        return float(self.trainable.log_prior(vector, self.priors))

    def at(self, vector: np.ndarray) -> Model:
        return to_host(self.trainable.from_vector(self.model, vector))

    def sites(self, model: Model, start: Sites | None) -> tuple[Sites, Evidence]:
        """Return EP's sites, or VI's sites if EP does not converge, and the evidence to compute at these sites."""
        gram, first = model.prior.gram(self.data.X), start or first_sites(model.likelihood, self.data)

        def run(method: Inference, first: Sites) -> Solution:
            return iterate(method, model.likelihood, gram, self.data, first, True).solution

        found = run(_APPROXIMATE_EP, first)
        if found.outcome.settled:
            return found.sites, evidence.ep
        by_vi = run(_APPROXIMATE_VI, first)
        again = run(_APPROXIMATE_EP, by_vi.sites)
        return (again.sites, evidence.ep) if again.outcome.settled else (by_vi.sites, evidence.elbo)

    def approximate(self, vector: np.ndarray, start: Sites | None) -> tuple[float, Sites]:
        """Return log p(θ) Z(θ) by EP, or by VI if EP does not converge, and the sites."""
        model = self.at(vector)
        sites, read = self.sites(model, start)
        value = float(read(model, self.data, sites)) + self.log_prior(vector)
        return value if np.isfinite(value) else -np.inf, sites

    def _sites_for(self, emulator: Emulator, model: Model, vector: np.ndarray, by_ep: bool) -> Sites:
        """Return the exact sites of a Gaussian likelihood, else interpolated sites of the nodes, or EP's sites.

        Both are a function of θ, as `estimate` needs.  Interpolated sites cost no factorisation.
        """
        if model.likelihood.conjugate:
            return first_sites(model.likelihood, self.data)
        sites = emulator.sites_at(vector)
        return self.sites(model, sites)[0] if by_ep else sites

    def _for_programs(self, model: Model, sites: Sites) -> tuple[Model, Data, Sites]:
        missing = self.padded.rows - self.data.rows
        return model, self.padded, Sites(*(np.pad(a, (0, missing)) for a in sites))

    def _run(
        self, key: jax.Array, model: Model, sites: Sites, knots: np.ndarray, steps: int
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return log Z_q, log weights and whitened latent values of all chains; one step is importance sampling."""
        if steps > 1:
            found = _anneal(_ANNEALED, *self._for_programs(model, sites), key, knots, steps)
            log_z, log_w, z = (np.asarray(a) for a in found)
        else:
            rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
            drawn = importance_sampling.draw(rng, model, self.data, sites, _ANNEALED.chains)
            log_z, log_w = np.asarray(drawn.log_z), drawn.log_w
            z = np.pad(drawn.z, ((0, 0), (0, self.padded.rows - self.data.rows)))
        return float(log_z), np.where(np.isfinite(log_w), log_w, -np.inf), z

    def temperatures(self, key: jax.Array, emulator: Emulator, vectors: np.ndarray) -> Schedule:
        """Return the temperatures at each row θ of `vectors`, with enough steps for an ESS of `_MIN_ESS`."""
        models = [self.at(vector) for vector in vectors]
        given = [(m, self._sites_for(emulator, m, v, False)) for m, v in zip(models, vectors, strict=True)]
        keys = jax.random.split(key, len(given))
        knots = np.linspace(0.0, np.ones(len(given)), ais.KNOTS).T  # irrelevant for one step
        steps, by_ep = np.ones(len(given), int), np.zeros(len(given), bool)

        def effective(i: int) -> float:
            own = jax.random.fold_in(keys[i], steps[i])
            return float(ais.effective(jnp.asarray(self._run(own, *given[i], knots[i], steps[i])[1])))

        def insufficient(among: Iterable[int]) -> list[int]:
            return [i for i in among if steps[i] < _MAX_STEPS and not effective(i) > _MIN_ESS]

        for i in (short := insufficient(range(len(given)))):
            by_ep[i] = True
            given[i] = models[i], self._sites_for(emulator, models[i], vectors[i], True)
        short = insufficient(short)
        if short:
            knots = np.array(
                [
                    _pilot(_ANNEALED, *self._for_programs(*parts), k, _ANNEALED.pilot)
                    for parts, k in zip(given, keys, strict=True)
                ]
            )
            steps[short] = _FIRST_STEPS
        while short := insufficient(short):
            steps[short] += steps[short] // 2
        x = emulator.standard(vectors)
        near = np.argsort(cdist(x, x), axis=1)[:, 1 : 1 + _NEIGHBOURS]
        steps = np.maximum(steps, np.median(steps[near], axis=1).astype(int))
        return Schedule(vectors, knots, steps, by_ep | (steps > 1))

    def estimate(self, key: jax.Array, emulator: Emulator, schedule: Schedule, vector: np.ndarray) -> Weighed:
        """Estimate log p̂ at θ."""
        x = emulator.standard(vector[None]) - emulator.standard(schedule.vectors)
        nearest = int(np.argmin(np.sum(x**2, axis=1)))
        model = self.at(vector)
        sites = self._sites_for(emulator, model, vector, bool(schedule.by_ep[nearest]))
        log_z, log_w, z = self._run(key, model, sites, schedule.knots[nearest], schedule.steps[nearest])
        value = self.log_prior(vector) + log_z + float(logsumexp(log_w)) - np.log(len(log_w))
        return Weighed(vector, value if np.isfinite(value) else -np.inf, log_w, z)
