"""Compute log Z and predictive densities by MCMC at many hyperparameters, in one program, resumably.

All points of a block run in one compiled call: in one batch on a GPU, one after the other on a CPU (`batch`).  A
point's random numbers come from (seed, its index, its schedule length) alone, so that results do not depend on
the blocks or on interruptions.  Points whose bracket is not tight enough are annealed again with four times the steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from sitewise.data import Data
from sitewise.mcmc import ais
from sitewise.mcmc.point_blocks import PointBlocks
from sitewise.model import Model, check
from sitewise.parameters import Trainable
from sitewise.process.device import on_accelerator
from sitewise.process.journal import Journal, digest_of
from sitewise.process.precision import WORKING_DTYPE, working_precision


class Points(NamedTuple):
    """log Z and predictive densities at many hyperparameters: one entry per hyperparameter vector.

    Attributes
    ----------
    log_z, se : array of shape (n_points,)
        log Z from both directions, and its standard error.
    ess : array of shape (n_points,)
        Effective number of forward chains.
    lower, lower_se : array of shape (n_points,)
        log Z from the forward runs, and its standard error.
    upper, upper_se : array of shape (n_points,)
        log Z from the reverse runs, and its standard error.
    upper_ess : array of shape (n_points,)
        Effective number of reverse chains.
    shrinks, stuck : array of shape (n_points,)
        Bracket shrinks, and moves that ended at `max_shrinks`.
    jitter : array of shape (n_points,)
        Added to the diagonal of K.
    log_density : array of shape (n_points, n_test_rows)
        Test log densities.
    steps : array of shape (n_points,)
        The number of temperatures used.
    tight : array of shape (n_points,)
        Whether the target was met.
    """

    log_z: np.ndarray
    se: np.ndarray
    ess: np.ndarray
    lower: np.ndarray
    lower_se: np.ndarray
    upper: np.ndarray
    upper_se: np.ndarray
    upper_ess: np.ndarray
    shrinks: np.ndarray
    stuck: np.ndarray
    jitter: np.ndarray
    log_density: np.ndarray
    steps: np.ndarray
    tight: np.ndarray


def is_tight(estimate: Points, target_se: float, reverse: bool) -> np.ndarray:
    """Return whether the standard error is within the target and, if `reverse`, the bracket within twice the target."""
    good = np.isfinite(estimate.log_z) & (estimate.se <= target_se)
    return good & (np.abs(estimate.upper - estimate.lower) <= 2 * target_se) if reverse else good


def default_batch(rows: int, points: int) -> int:
    """Return the points per batch: one on a CPU; on a GPU as many as fit into 60 GB at 14 matrices per point."""
    return int(np.clip(60e9 / (14 * 8 * rows**2), 1, points)) if on_accelerator() else 1


def block_sizes(block: int) -> tuple[int, ...]:
    """Return the sizes to which blocks are padded: later rounds have fewer points, and few shapes are compiled."""
    return tuple(dict.fromkeys((block, -(-block // 3), -(-block // 12))))


def schedule(steps: int, max_steps: int) -> list[int]:
    """Return the lengths of the rounds, which grow fourfold: on an accelerator a step costs the same for few points."""
    lengths = [steps]
    while lengths[-1] < max_steps:
        lengths.append(min(4 * lengths[-1], max_steps))
    return lengths


def sample_points(
    model: Model,
    data: Data,
    vectors: np.ndarray,
    test: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    trainable: Trainable | None = None,
    annealing: ais.Annealing | None = None,
    steps: int = 256,
    max_steps: int = 4096,
    target_se: float = 0.3,
    draws: int = 64,
    seed: int = 0,
    block: int | None = None,
    batch: int | None = None,
    store: Path | None = None,
    done: Callable[[str], None] | None = None,
) -> Points:
    """Return log Z, and test log densities, by MCMC at many hyperparameter vectors, in one program that can be resumed.

    Every point is annealed with `steps` temperatures; points that are not tight are annealed again with four times as
    many, up to `max_steps`.

    Parameters
    ----------
    model : Model
        The model.
    data : Data
        The training rows.
    vectors : array of shape (n_points, n_entries)
        The unconstrained vectors of `trainable`.
    test : tuple of two arrays, default=None
        X and y of the test rows.
    trainable : Trainable, default=None
        The hyperparameters in the vectors; None for those of the model that are trained by default.
    annealing : Annealing, default=None
        The settings; None for the defaults.
    steps : int, default=256
        Temperatures of the first round.
    max_steps : int, default=4096
        The largest number of temperatures.
    target_se : float, default=0.3
        The target of the standard error of log Z, in nats.
    draws : int, default=64
        Posterior draws for the test log densities.
    seed : int, default=0
        Seed of the chains.
    block : int, default=None
        Points per block; None for the default.
    batch : int, default=None
        Points that are computed together; None for the default of the device.
    store : Path, default=None
        A file that keeps each finished block for a later run.
    done : function, default=None
        Called after each block with its description.

    Returns
    -------
    points : Points
        One entry per vector.
    """
    check(model, data)
    settings = ais.Annealing() if annealing is None else annealing
    trainable = Trainable.of(model) if trainable is None else trainable
    vectors = np.asarray(vectors, WORKING_DTYPE)
    size = len(vectors)
    with working_precision():
        padded = data.to_bucket()
        X_new, y_new = (np.asarray(data.X)[:1], np.asarray(data.y)[:1]) if test is None else test
        new = (jnp.asarray(X_new, WORKING_DTYPE), jnp.asarray(y_new, WORKING_DTYPE))
        block = (size if on_accelerator() else 21) if block is None else block
        batch = default_batch(padded.rows, block) if batch is None else batch
        kept = None if store is None else _journal(store, settings, trainable, model, padded, new, seed, draws)
        run = PointBlocks(
            settings=settings, trainable=trainable, batch=batch, sizes=block_sizes(block), model=model, data=padded,
            test=new, vectors=vectors, seed=seed, draws=draws, journal=kept,
        )  # fmt: skip
        sites = run.all_sites()
        if done is not None:
            done(f"{settings.path} sites of {size} points")
        merged: dict[str, np.ndarray] = {}
        pending = np.arange(size)
        for length in schedule(steps, max_steps):
            pieces = []
            for at in range(0, len(pending), block):
                pieces.append(run.estimates(pending[at : at + block], sites, length))
                if done is not None:
                    done(f"T={length}: {min(at + block, len(pending))} of {len(pending)} points")
            found = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
            for name, values in found.items():
                merged.setdefault(name, np.zeros((size, *values.shape[1:]), values.dtype))[pending] = values
            tight = is_tight(Points(**found, tight=np.zeros(0)), target_se, settings.reverse)
            merged.setdefault("tight", np.zeros(size, bool))[pending] = tight
            pending = pending[~tight]
            if len(pending) == 0:
                break
        return Points(**merged)


def _journal(store: Path, *parts: Any) -> Journal:
    """Return the journal with the finished blocks of runs with the same settings, model and data."""
    journal = Journal(store, digest_of(Points._fields, *parts))
    if journal.damaged:
        warnings.warn(
            f"{store} is damaged (lines: {journal.damaged}); the missing blocks are computed again.",
            UserWarning,
            stacklevel=3,
        )
    return journal
