"""Sampling from the posterior of hyperparameters and latent values.

    samples = sample(model, data, priors={"kernel.lengthscale": LogNormal(0, 1)})
    print(samples.summary());  samples.log_density(X_new, y_new)

Chains move by surrogate-data slice sampling (see `surrogate`).  Positive parameters without a prior are log-uniform
within their bounds, as in the paper.  Warm-up learns the directions and widths of the slices from the spread of the
chains; afterwards they are held, and every draw is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.checks import at_least
from sitewise.data import Data
from sitewise.hyperpriors import HyperPrior
from sitewise.inference import EP
from sitewise.inference.solve import solve
from sitewise.mcmc import surrogate
from sitewise.mcmc.samples import HyperSamples
from sitewise.model import Model, check
from sitewise.numerics.small_matrices import principal_axes
from sitewise.parameters import Groups, Trainable
from sitewise.runtime import programs
from sitewise.runtime.precision import working_precision
from sitewise.sites import Sites

_CHUNK = 25  # sweeps a compiled call; the same program serves warm-up and sampling of any length
_FIRST_WIDTH = 2.0

Priors = tuple[tuple[str, HyperPrior], ...]  # pairs of a parameter's name and its prior: a compilation key
Trajectory = tuple[
    surrogate.State, tuple[surrogate.State, surrogate.Info]
]  # the last state; every state, with its cost


@functools.partial(programs.jit, static_argnums=(0, 1, 2, 3))
def _chunk(
    trainable: Trainable,
    priors: Priors,
    moves: int,
    batch: int,
    model: Model,
    data: Data,
    sites: Sites,
    bounds: jax.Array,
    states: surrogate.State,
    runs: tuple[jax.Array, jax.Array, int],
) -> Trajectory:
    """`_CHUNK` sweeps of every chain; `runs` = (keys, directions, thin)."""
    keys, directions, thin = runs
    target = surrogate.Posterior(trainable, priors, model, data, sites, bounds)

    def chain(arguments: tuple[surrogate.State, jax.Array]) -> Trajectory:
        state, key = arguments

        def draw(state: surrogate.State, t: jax.Array) -> Trajectory:
            def one(
                i: jax.Array, carry: tuple[surrogate.State, surrogate.Info]
            ) -> tuple[surrogate.State, surrogate.Info]:
                state, spent = carry
                key_sweep = jax.random.fold_in(jax.random.fold_in(key, t), i)
                state, info = surrogate.sweep(key_sweep, target, state, directions, moves)
                return state, jax.tree.map(jnp.add, spent, info)

            none = surrogate.Info(jnp.zeros((), jnp.int64), jnp.zeros((), jnp.int64))
            state, info = lax.fori_loop(0, thin, one, (state, none))
            return state, (state, info)

        return lax.scan(draw, state, jnp.arange(_CHUNK))

    # Without parameters there is an empty array among the states, which `lax.map` cannot cut into batches.
    return lax.map(chain, (states, keys), batch_size=batch if trainable.size else None)


@functools.partial(programs.jit, static_argnums=(0, 1))
def _starts(
    trainable: Trainable,
    priors: Priors,
    model: Model,
    data: Data,
    sites: Sites,
    bounds: jax.Array,
    keys: jax.Array,
    vectors: jax.Array,
) -> surrogate.State:
    target = surrogate.Posterior(trainable, priors, model, data, sites, bounds)
    return lax.map(lambda each: surrogate.start(each[0], target, each[1]), (keys, vectors))


def sample(
    model: Model,
    data: Data,
    *,
    priors: Mapping[str, HyperPrior] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    fixed: tuple[str, ...] = (),
    train: tuple[str, ...] = (),
    tied: Groups = (),
    sites: Sites | None = None,
    chains: int = 4,
    warmup: int = 200,
    draws: int = 1000,
    thin: int = 1,
    moves: int = 3,
    spread: float = 0.5,
    seed: int = 0,
    batch: int = 1,
    callback: Callable[[int, int], None] | None = None,
) -> HyperSamples:
    """Draw from p(θ, f | y).  Start from a fitted model if possible; chains start within `spread` of it (log scale).

    `priors`, `bounds`, `fixed`, `train` and `tied` are as in `Nested`; without a prior a positive parameter is
    log-uniform and any other uniform, within its bounds.
    `sites` determine where f starts, the noise of the surrogate data and the ellipses of f; by default they are EP's,
    solved again at the middle of the chains after every chunk of the warm-up.  `moves` of f follow every sweep over θ;
    `batch` chains run in one batch (on a GPU: all).  `warmup` and `draws` are rounded up to whole chunks of 25 sweeps.
    `callback` is called after every chunk with the number of chunks that are done and the total.
    """
    check(model, data, sites)
    for name, value, low in (("chains", chains, 1), ("warmup", warmup, 0), ("draws", draws, 1), ("thin", thin, 1)):
        at_least(name, value, low)
    with working_precision():
        padded = data.to_bucket()
        trainable = Trainable.of(model, fixed, train, tied=tied)
        priors_key = trainable.priors(priors or {})
        adapt = sites is None
        limits = jnp.asarray(trainable.limits(bounds or {}))
        if sites is None:
            found = solve(EP(), model, padded)
            # Sites that have not settled may have any values; with zero sites the chains start from the prior.
            sites = found.sites if found.outcome.settled else jax.tree.map(jnp.zeros_like, found.sites)
        pad = padded.rows - sites.nat1.shape[0]
        sites = Sites(*(jnp.nan_to_num(jnp.pad(jnp.asarray(a), (0, pad))) for a in sites))
        key_start, key_z, key_run = jax.random.split(jax.random.key(seed), 3)
        start = jnp.clip(trainable.to_vector(model), limits[:, 0], limits[:, 1])
        moved = start + spread * jax.random.normal(key_start, (chains, trainable.size))
        states = _starts(
            trainable, priors_key, model, padded, sites, limits,
            jax.random.split(key_z, chains), jnp.clip(moved, limits[:, 0], limits[:, 1]),
        )  # fmt: skip
        chunks = -(-warmup // _CHUNK), -(-draws // _CHUNK)
        directions = _FIRST_WIDTH * jnp.eye(trainable.size)
        history: list[np.ndarray] = []
        kept: list[tuple[np.ndarray, np.ndarray, surrogate.Info]] = []
        for i in range(sum(chunks)):
            keys = jax.random.split(jax.random.fold_in(key_run, i), chains)
            warm = i < chunks[0]
            states, (path, info) = _chunk(
                trainable, priors_key, moves, min(batch, chains), model, padded, sites, limits, states,
                (keys, directions, 1 if warm else thin),
            )  # fmt: skip
            if warm:
                history.append(np.asarray(path.vector))
                directions = _directions(np.concatenate(history[len(history) // 2 :], axis=1))
                if adapt:
                    middle = jnp.asarray(np.median(np.concatenate(history[-1]), axis=0))
                    sites = solve(EP(), trainable.from_vector(model, middle), padded, sites).sites
            else:
                kept.append(jax.tree.map(np.asarray, (path.vector, path.z, info)))
            if callback is not None:
                callback(i + 1, sum(chunks))
        vectors, z = (np.concatenate([k[j] for k in kept], axis=1) for j in range(2))
        evaluations = np.concatenate([k[2].evaluations for k in kept], axis=1)
        stuck = np.concatenate([k[2].stuck for k in kept], axis=1)
        sweeps = 2 * thin * vectors.shape[1] * max(trainable.size, 1)
        return HyperSamples(
            model=model,
            data=jax.tree.map(np.asarray, padded),
            trainable=trainable,
            vectors=vectors,
            z=z,
            limits=np.asarray(limits),
            evaluations=float(evaluations.sum() / sweeps / chains),
            stuck=stuck.sum(axis=1) / sweeps,
        )


def _directions(vectors: np.ndarray) -> jax.Array:
    """Principal axes of the draws so far, four standard deviations long."""
    if vectors.shape[-1] == 0:
        return jnp.zeros((0, 0))
    flat = vectors.reshape(-1, vectors.shape[-1])
    spreads, axes = principal_axes(np.atleast_2d(np.cov(flat.T)) + 1e-6 * np.eye(flat.shape[1]))
    return jnp.asarray((axes * np.clip(4 * spreads, 0.1, 10.0)).T)
