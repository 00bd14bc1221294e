"""MCMC sampling from the posterior of hyperparameters and latent values.

    samples = sample(model, data, priors={"kernel.lengthscale": LogNormal(0, 1)})
    print(samples.summary());  samples.log_density(X_new, y_new)

First a spline of EP's evidence is learned around its mode (`emulator`).  Then chains propose θ by walks on the spline
and accept θ by an unbiased estimate of p(θ | y), which also yields draws of the latent values (`marginal`).  Positive
parameters without a prior are log-uniform within their bounds, as in the paper.
"""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np

from sitewise import evidence
from sitewise.arrays.engine import to_host
from sitewise.checks import at_least
from sitewise.data import Data
from sitewise.hyperpriors import HyperPrior
from sitewise.inference import EP
from sitewise.kernels.distances import same_rows
from sitewise.learning.nested import Nested
from sitewise.mcmc import emulator
from sitewise.mcmc.marginal import PILOTS, Marginal
from sitewise.mcmc.samples import HyperSamples
from sitewise.model import Model, check
from sitewise.parameters import Groups, Trainable
from sitewise.process.precision import working_precision
from sitewise.sites import Sites

_MAX_RHAT = 1.05  # above which chains are continued if effective draws are asked for
_UNKNOWN_SD = 2.0  # initial standard deviation of unconstrained parameters without curvature at the mode


def sample(
    model: Model,
    data: Data,
    *,
    priors: Mapping[str, HyperPrior] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed: tuple[str, ...] = (),
    train: tuple[str, ...] = (),
    tied: Groups = (),
    chains: int = 4,
    warmup: int = 25,
    draws: int = 250,
    thin: int = 1,
    min_ess: float | None = None,
    max_draws: int = 5000,
    seed: int = 0,
    callback: Callable[[int, int], None] | None = None,
) -> HyperSamples:
    """Draw hyperparameters and latent function from the posterior p(θ, f | y) by MCMC (fully Bayesian GP).

    For a full GP with one latent function.  Without a prior, a positive parameter is log-uniform and any other
    parameter uniform within its bounds.  Every chain starts from the spline, discards `warmup` draws and keeps
    `draws` draws, `thin` proposals apart.  A proposal costs a few Cholesky factorisations, learning the spline a few
    hundred.

    Parameters
    ----------
    model : Model
        The model, with starting values.
    data : Data
        The rows.
    priors : dict, default=None
        Name or pattern → hyperprior.
    bounds : dict, default=None
        Name or pattern → (low, high).
    fixed : tuple of str, default=()
        Names or patterns of parameters to hold fixed.
    train : tuple of str, default=()
        Names or patterns of parameters to sample although they are held fixed by default.
    tied : sequence, default=()
        Groups of parameters that share one value.
    chains : int, default=4
        The number of chains.
    warmup : int, default=25
        Draws dropped before the first draw that is kept.
    draws : int, default=250
        Draws per chain.
    thin : int, default=1
        Moves per draw.
    min_ess : float, default=None
        Continue the chains, `draws` draws at a time, until the bulk of every hyperparameter has this many effective
        draws in all chains together and an R-hat of at most 1.05.  None draws once.
    max_draws : int, default=5000
        Draws per chain after which no chain is continued.
    seed : int, default=0
        Seed of the chains.
    callback : function, default=None
        Called with the finished and the total number of steps; the total grows if the chains are continued.

    Returns
    -------
    samples : HyperSamples
        The draws, with diagnostics and predictions.
    """
    check(model, data)
    counts = Counts(chains, warmup, draws, thin, min_ess, max_draws)
    for name, low in (("chains", 1), ("warmup", 0), ("draws", 1), ("thin", 1), ("max_draws", 1)):
        at_least(name, getattr(counts, name), low)
    if min_ess is not None and not 0 < min_ess < np.inf:
        raise ValueError(f"min_ess must be a positive number or None, got {min_ess!r}.")
    full = dataclasses.replace(model, prior=model.prior.as_full(data.rows))
    if not full.prior.one_matrix:
        raise TypeError("mcmc needs a full GP: its samples are of the latent value of every row.")
    with working_precision():
        rows = to_host(data)
        trainable = Trainable.of(full, fixed, train, tied=tied)
        key = trainable.priors(priors or {})
        limits = trainable.limits(bounds or {}, units=full.prior.input_units(rows.ranges()))
        target = Marginal(trainable, key, to_host(full), rows, to_host(rows.to_bucket()), limits)
        learner = Nested(
            EP(), evidence.ep, gradient="auto", jacobian=True, fixed=fixed, train=train, tied=tied,
            bounds=bounds or {}, priors=priors or {},
        )  # fmt: skip
        with same_rows(rows.X):
            return _sample(target, learner, counts, seed, callback)


class Counts(NamedTuple):
    """Numbers of chains and draws, and the effective draws at which chains end: the arguments of `sample`."""

    chains: int
    warmup: int
    draws: int
    thin: int
    min_ess: float | None
    max_draws: int

    def suffice(self, samples: HyperSamples) -> bool:
        """Return whether the chains end here; warn if they end before `min_ess` is reached."""
        if self.min_ess is None:
            return True
        found = samples.diagnostics().values()
        if all(d["rhat"] <= _MAX_RHAT and d["bulk_ess"] >= self.min_ess for d in found):
            return True
        made = samples.vectors.shape[1]
        if made + self.draws <= self.max_draws:
            return False
        least, worst = min(d["bulk_ess"] for d in found), max(d["rhat"] for d in found)
        warnings.warn(
            f"After {made} draws per chain there are {least:.0f} effective draws (min_ess={self.min_ess:g}) and R-hat "
            f"is {worst:.3f}; give vague hyperparameters a prior, ask for a smaller min_ess, or raise max_draws of "
            f"mcmc.sample (now {self.max_draws}).",
            UserWarning,
            stacklevel=4,
        )
        return True


def _sample(
    target: Marginal, learner: Nested, counts: Counts, seed: int, callback: Callable[[int, int], None] | None
) -> HyperSamples:
    size, (chains, warmup, draws, thin, *_) = target.trainable.size, counts
    rng, key = np.random.default_rng(seed), jax.random.key(seed)
    before, proposals = emulator.most_nodes(size), thin * (warmup + draws)

    def progress(done: int) -> None:
        if callback is not None:
            callback(done, before + proposals)

    spline = _learn_spline(rng, target, learner, progress)
    starts = np.repeat(spline.nodes[0].vector[None], PILOTS, axis=0)
    starts = spline.walk(rng, starts, 5 * spline.length())
    key_pilot, key_start, key_run = jax.random.split(key, 3)
    schedule = target.temperatures(key_pilot, spline, starts)
    now = [
        target.estimate(jax.random.fold_in(key_start, c), spline, schedule, starts[c % PILOTS]) for c in range(chains)
    ]
    kept: list[tuple[list[np.ndarray], list[np.ndarray]]] = []
    accepted = np.zeros(chains)
    for step in itertools.count():
        new, log_ratio = spline.propose(rng, np.array([one.vector for one in now]))
        for c in range(chains):
            other = target.estimate(jax.random.fold_in(key_run, step * chains + c), spline, schedule, new[c])
            if np.log(rng.uniform(1e-300, 1.0)) < other.log_density - now[c].log_density + log_ratio[c]:
                now[c] = other
                accepted[c] += 1
        if (step + 1) % thin == 0 and step >= thin * warmup:
            kept.append(([one.vector for one in now], [one.pick(rng) for one in now]))
        progress(before + step + 1)
        if step + 1 == proposals:
            vectors, z = (np.moveaxis(np.array([k[i] for k in kept]), 0, 1) for i in range(2))
            samples = HyperSamples(
                model=target.model,
                data=target.padded,
                trainable=target.trainable,
                vectors=vectors.reshape(chains, len(kept), size),
                z=z,
                limits=target.limits,
                accepted=accepted / proposals,
            )
            if counts.suffice(samples):
                break
            proposals += thin * draws
    return samples


def _learn_spline(
    rng: np.random.Generator, target: Marginal, learner: Nested, progress: Callable[[int], None]
) -> emulator.Emulator:
    """Learn the spline around the mode of EP's p(θ | y)."""
    trainable = target.trainable
    limits, covariance = target.limits, _UNKNOWN_SD**2 * np.eye(trainable.size)
    vector, start = np.asarray(trainable.to_vector(target.model)), None
    if trainable.size:
        fit = learner.fit(target.model, target.data)
        vector = np.clip(np.asarray(trainable.to_vector(fit.model)), limits[:, 0], limits[:, 1])
        start = Sites(*(np.asarray(a)[: target.data.rows] for a in fit.sites))
        found = fit.curvature.covariance
        free = np.isfinite(np.diagonal(found))
        covariance[np.ix_(free, free)] = found[np.ix_(free, free)]
    mode = emulator.Node(vector, *target.approximate(vector, start))
    return emulator.learn(rng, target.approximate, mode, covariance, limits, progress)
