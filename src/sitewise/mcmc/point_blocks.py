"""Compute blocks of hyperparameter points, each by one compiled program, or take them from a journal (see `points`)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sitewise.arrays import programs
from sitewise.data import Data
from sitewise.inference import EP, VI, Inference, Laplace
from sitewise.inference.loop import iterate
from sitewise.inference.start import initial_sites
from sitewise.mcmc import ais, new_rows
from sitewise.mcmc.reference import Target, reference
from sitewise.model import Model
from sitewise.parameters import Trainable
from sitewise.process.journal import Journal, digest_of
from sitewise.sites import Sites
from sitewise.types import Outcome

PATHS: dict[str, Inference] = {"ep": EP(), "vi": VI(), "laplace": Laplace()}
_MOVES = 4  # per draw
_SITE_POWER = 0.3  # of the initial sites if the likelihood is not log-concave
_COLUMNS = (*ais.Estimate._fields, "jitter", "log_density")  # results of `_anneal`

Arrays = dict[str, np.ndarray]
Compute = Callable[[np.ndarray, int], dict[str, Any]]  # (indices of points, points per batch) → arrays by name


def path_sites(path: str, model: Model, data: Data) -> tuple[Sites, jax.Array]:
    """Return the sites from which annealing starts, and the outcome of their inference; zero for the prior.

    If the likelihood is not log-concave, the posterior may have modes that the approximation does not cover, where
    importance weights are large.  A power of the sites below one is broader and covers more.
    """
    if path == "prior":
        return Sites.zeros(data.rows, data.y.dtype), jnp.asarray(Outcome.CONVERGED)
    start = initial_sites(model.likelihood, data)
    found = iterate(PATHS[path], model.likelihood, model.prior.gram(data.X), data, start)[1]
    sites = found.sites
    return sites if model.likelihood.log_concave else sites.scaled(_SITE_POWER), found.code


@functools.partial(programs.jit, static_argnums=(0, 1, 2))
def _sites(
    path: str, trainable: Trainable, batch: int, model: Model, data: Data, vectors: jax.Array
) -> dict[str, jax.Array]:
    def point(vector: jax.Array) -> tuple[Sites, jax.Array]:
        return path_sites(path, trainable.from_vector(model, vector), data)

    sites, code = lax.map(point, vectors, batch_size=batch)
    return {**sites._asdict(), "code": code}


@functools.partial(programs.jit, static_argnums=(0, 1, 2))
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
    """Return the estimates at `points` = (vectors, index, sites); `counts` = (steps, pilot, draws) are traced, so
    that schedules of all lengths share a program."""
    steps, pilot, draws = counts

    def point(arguments: tuple[jax.Array, jax.Array, Sites]) -> tuple[jax.Array, ...]:
        vector, i, sites = arguments
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), i), steps)
        key_anneal, key_predict = jax.random.split(key)
        here = trainable.from_vector(model, vector)
        target = Target(reference(here, data, sites), here.likelihood, data)
        estimate, state = ais.anneal(settings, key_anneal, target, steps, pilot)
        density = new_rows.log_density(settings, key_predict, target, here, state, test[0], test[1], draws, _MOVES)
        return (*estimate, target.ref.jitter, density)

    return lax.map(point, points, batch_size=batch)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PointBlocks:
    """Compute a block of points, or take it from the journal if an earlier run finished it.

    `sizes` are the sizes to which a block is padded, the largest first; `batch` is the number of points per batch.
    """

    settings: ais.Annealing
    trainable: Trainable
    batch: int
    sizes: tuple[int, ...]
    model: Model
    data: Data
    test: tuple[jax.Array, jax.Array]
    vectors: np.ndarray
    seed: int
    draws: int
    journal: Journal | None

    def all_sites(self) -> Sites:
        """Return the sites of the path's method; where it does not converge, of the next method that does.

        Chains that start far from the posterior may never reach it; both directions then agree on a wrong number.
        """
        everyone = np.arange(len(self.vectors))
        found = self._sites(self.settings.path, everyone)
        for path in PATHS if self.settings.path in PATHS else ():
            failed = everyone[[not Outcome(code).settled for code in found["code"]]]
            if path != self.settings.path and len(failed):
                other = self._sites(path, failed)
                better = [Outcome(code).settled for code in other["code"]]
                for name in found:
                    found[name][failed[better]] = other[name][better]
        return Sites(jnp.asarray(found["nat1"]), jnp.asarray(found["prec"]))

    def _sites(self, path: str, index: np.ndarray) -> Arrays:
        def compute(padded: np.ndarray, batch: int) -> dict[str, Any]:
            return _sites(path, self.trainable, batch, self.model, self.data, jnp.asarray(self.vectors[padded]))

        block = self.sizes[0]
        pieces = [self._stored(f"{path} sites", index[at : at + block], compute) for at in range(0, len(index), block)]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def estimates(self, index: np.ndarray, sites: Sites, length: int) -> Arrays:
        """Return the fields of `Points`, except `tight`, of the points `index`, with `length` temperatures."""

        def compute(padded: np.ndarray, batch: int) -> dict[str, Any]:
            points = (self.vectors[padded], padded, Sites(sites.nat1[padded], sites.prec[padded]))
            counts = (length, min(self.settings.pilot, length), self.draws)
            columns = _anneal(
                self.settings, self.trainable, batch, self.model, self.data, self.test,
                jax.tree.map(jnp.asarray, points), self.seed, counts,
            )  # fmt: skip
            return {**dict(zip(_COLUMNS, columns, strict=True)), "steps": np.full(len(padded), length)}

        return self._stored(f"T={length}", index, compute)

    def _stored(self, kind: str, index: np.ndarray, compute: Compute) -> Arrays:
        name = f"{kind} {digest_of(index, self.vectors[index])}"
        if self.journal is not None and name in self.journal.pieces:
            return self.journal.pieces[name]
        full = next(size for size in reversed(self.sizes) if size >= len(index))
        padded = np.concatenate([index, np.repeat(index[-1:], full - len(index))])
        found = {k: np.asarray(v)[: len(index)] for k, v in compute(padded, min(self.batch, full)).items()}
        return found if self.journal is None else self.journal.add(name, found)
