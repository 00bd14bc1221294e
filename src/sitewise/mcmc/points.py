"""log Z and predictive density by MCMC at many hyperparameters, as one program, resumable.

All points of a block run in one compiled call: side by side on a GPU, one after the other on a CPU (`batch`).  A
point's random numbers come from (seed, its index, its schedule length) alone, so nothing depends on the blocks or on
where a run was interrupted.  Points whose bracket is not tight enough are annealed again with four times the steps.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.data import Data
from sitewise.inference import EP, VI, Laplace
from sitewise.inference.loop import iterate
from sitewise.inference.start import initial_sites
from sitewise.mcmc import ais, latent
from sitewise.mcmc.reference import Target, reference
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.runtime.device import on_accelerator
from sitewise.runtime.precision import working_precision
from sitewise.runtime.resume import Journal, digest_of
from sitewise.sites import Sites
from sitewise.types import Outcome

PATHS = {"ep": EP(), "vi": VI(), "laplace": Laplace()}
_THIN = 4
_SOFTER = 0.3


class Points(NamedTuple):
    """One entry per hyperparameter vector; `log_density` has one column per test row.

    log_z ± se from both directions; lower ± lower_se from the forward runs, upper ± upper_se from the reverse runs;
    `ess` effective chains; `steps` the schedule length used; `tight` whether the target was met; `jitter` added to K's
    diagonal.
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


def is_tight(estimate: Any, target_se: float, reverse: bool) -> np.ndarray:
    """The standard error within the target and, for a two-sided run, the two sides within twice the target."""
    good = np.isfinite(estimate.log_z) & (estimate.se <= target_se)
    return good & (np.abs(estimate.upper - estimate.lower) <= 2 * target_se) if reverse else good


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _sites(
    path: str, trainable: Trainable, batch: int, model: Model, data: Data, vectors: jax.Array
) -> dict[str, jax.Array]:
    def point(vector: jax.Array) -> tuple[Sites, jax.Array]:
        return path_sites(path, trainable.from_vector(model, vector), data)

    sites, code = lax.map(point, vectors, batch_size=batch)
    return {**sites._asdict(), "code": code}


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _anneal(
    settings: ais.Annealing,
    trainable: Trainable,
    batch: int,
    model: Model,
    data: Data,
    test: tuple[jax.Array, jax.Array],
    points: tuple[jax.Array, jax.Array, Sites],
    seed: int,
    counts: tuple[int, int, int],
) -> tuple[jax.Array, ...]:
    """Estimates at `points` = (vectors, index, sites); `counts` = (steps, pilot, draws) are traced, so that
    schedules of all lengths share a program."""
    steps, pilot, draws = counts

    def point(arguments: tuple[jax.Array, jax.Array, Sites]) -> tuple[jax.Array, ...]:
        vector, i, sites = arguments
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), i), steps)
        key_anneal, key_predict = jax.random.split(key)
        here = trainable.from_vector(model, vector)
        target = Target(reference(here, data, sites), here.likelihood, data)
        estimate, state = ais.anneal(settings, key_anneal, target, steps, pilot)
        density = latent.log_density(settings, key_predict, target, here, state, test[0], test[1], draws, _THIN)
        return (*estimate, target.ref.jitter, density)

    return lax.map(point, points, batch_size=batch)


def path_sites(path: str, model: Model, data: Data) -> tuple[Sites, jax.Array]:
    """The sites that the annealing starts from, and how the search for them ended; the prior's are zero.

    Where the likelihood is not log-concave the posterior may have modes that the approximation does not cover: weights
    are then large where it is seldom drawn.  Its sites to a power below one cover more.
    """
    if path == "prior":
        return Sites.zeros(data.rows, data.y.dtype), jnp.asarray(Outcome.CONVERGED)
    start = initial_sites(model.likelihood, data)
    found = iterate(PATHS[path], model.likelihood, model.prior.gram(data.X), data, start)[1]
    sites = found.sites
    return sites if model.likelihood.log_concave else sites.scaled(_SOFTER), found.code


def default_batch(rows: int, points: int) -> int:
    """Points side by side: on a CPU one; on a GPU as many as fit into about 60 GB at fourteen matrices a point."""
    return int(np.clip(60e9 / (14 * 8 * rows**2), 1, points)) if on_accelerator() else 1


def block_sizes(block: int) -> tuple[int, ...]:
    """A block is filled up to one of these, so that rounds with fewer points cost less and few shapes are compiled."""
    return tuple(dict.fromkeys((block, -(-block // 3), -(-block // 12))))


def schedule(steps: int, max_steps: int) -> list[int]:
    """Lengths of the rounds.  Fourfold: on an accelerator a step of few points costs as much as one of many."""
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
    """log Z (and test log densities) at every row of `vectors`, the unconstrained vectors of `trainable`.

    Every point is annealed with `steps` temperatures; those that are not tight again with four times as many, up to
    `max_steps`.  With `store`, a file, each finished block is kept there at once, and a later run takes it from
    there.
    """
    settings = ais.Annealing() if annealing is None else annealing
    trainable = Trainable.of(model) if trainable is None else trainable
    vectors = np.asarray(vectors, np.float64)
    size = len(vectors)
    with working_precision():
        padded = data.to_bucket()
        X_new, y_new = (np.asarray(data.X)[:1], np.asarray(data.y)[:1]) if test is None else test
        new = (jnp.asarray(X_new, jnp.float64), jnp.asarray(y_new, jnp.float64))
        block = (size if on_accelerator() else 21) if block is None else block
        batch = default_batch(padded.rows, block) if batch is None else batch
        kept = None if store is None else _journal(store, settings, trainable, model, padded, new, seed, draws)
        run = _Runner(
            settings=settings, trainable=trainable, batch=batch, model=model, data=padded, test=new, vectors=vectors,
            seed=seed, draws=draws, journal=kept,
        )  # fmt: skip
        everyone = np.arange(size)
        sites = run.all_sites(block)
        if done is not None:
            done(f"{settings.path} sites of {size} points")
        merged: dict[str, np.ndarray] = {}
        pending = everyone
        for length in schedule(steps, max_steps):
            pieces = []
            for at in range(0, len(pending), block):
                pieces.append(run.estimates(pending[at : at + block], sites, length, block))
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
    """The finished blocks of the runs that have the same settings, model and data."""
    journal = Journal(store, digest_of(Points._fields, *parts))
    if journal.damaged:
        warnings.warn(
            f"{store} is damaged (lines: {journal.damaged}); what is missing is computed again.",
            UserWarning,
            stacklevel=3,
        )
    return journal


Compute = Callable[[np.ndarray, int], dict[str, Any]]  # of point numbers, so many side by side: arrays by name


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Runner:
    """Computes a block of points, or takes it from the journal if an earlier run finished it."""

    settings: ais.Annealing
    trainable: Trainable
    batch: int
    model: Model
    data: Data
    test: tuple[jax.Array, jax.Array]
    vectors: np.ndarray
    seed: int
    draws: int
    journal: Journal | None

    def all_sites(self, block: int) -> Sites:
        """Of the path's method; where it does not settle, of the next that does.

        From an approximation that is far from the posterior no chain may ever arrive, and as none does, both directions
        agree on a wrong number.
        """
        everyone = np.arange(len(self.vectors))
        found = self._sites(self.settings.path, everyone, block)
        for path in PATHS if self.settings.path in PATHS else ():
            failed = everyone[[not Outcome(code).settled for code in found["code"]]]
            if path != self.settings.path and len(failed):
                other = self._sites(path, failed, block)
                better = [Outcome(code).settled for code in other["code"]]
                for name in found:
                    found[name][failed[better]] = other[name][better]
        return Sites(jnp.asarray(found["nat1"]), jnp.asarray(found["prec"]))

    def _sites(self, path: str, index: np.ndarray, block: int) -> dict[str, np.ndarray]:
        def compute(filled: np.ndarray, batch: int) -> dict[str, Any]:
            return _sites(path, self.trainable, batch, self.model, self.data, jnp.asarray(self.vectors[filled]))

        pieces = [
            self._stored(f"{path} sites", index[at : at + block], block, compute) for at in range(0, len(index), block)
        ]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def estimates(self, index: np.ndarray, sites: Sites, length: int, block: int) -> dict[str, np.ndarray]:
        def compute(filled: np.ndarray, batch: int) -> dict[str, Any]:
            points = (self.vectors[filled], filled, Sites(sites.nat1[filled], sites.prec[filled]))
            counts = (length, min(self.settings.pilot, length), self.draws)
            columns = _anneal(
                self.settings, self.trainable, batch, self.model, self.data, self.test,
                jax.tree.map(jnp.asarray, points), self.seed, counts,
            )  # fmt: skip
            names = [name for name in Points._fields if name not in ("steps", "tight")]
            return {**dict(zip(names, columns, strict=True)), "steps": np.full(len(filled), length)}

        return self._stored(f"T={length}", index, block, compute)

    def _stored(self, kind: str, index: np.ndarray, block: int, compute: Compute) -> dict[str, np.ndarray]:
        name = f"{kind} {digest_of(index, self.vectors[index])}"
        if self.journal is not None and name in self.journal.pieces:
            return self.journal.pieces[name]
        full = next(size for size in reversed(block_sizes(block)) if size >= len(index))
        filled = np.concatenate([index, np.repeat(index[-1:], full - len(index))])
        found = {k: np.asarray(v)[: len(index)] for k, v in compute(filled, min(self.batch, full)).items()}
        return found if self.journal is None else self.journal.add(name, found)
