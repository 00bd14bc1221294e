"""Blocks of hyperparameter points, computed by one compiled program each or taken from a journal (see `points`)."""

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
_THIN = 4
_SOFTER = 0.3
_COLUMNS = (*ais.Estimate._fields, "jitter", "log_density")  # what `_anneal` gives

Arrays = dict[str, np.ndarray]
Compute = Callable[[np.ndarray, int], dict[str, Any]]  # of point numbers, and how many run in one batch: arrays by name


def path_sites(path: str, model: Model, data: Data) -> tuple[Sites, jax.Array]:
    """The sites that the annealing starts from, and how the search for them ended; the prior's are zero.

    Where the likelihood is not log-concave the posterior may have modes that the approximation does not cover: weights
    are then large where it is rarely drawn.  Its sites to a power below one cover more.
    """
    if path == "prior":
        return Sites.zeros(data.rows, data.y.dtype), jnp.asarray(Outcome.CONVERGED)
    start = initial_sites(model.likelihood, data)
    found = iterate(PATHS[path], model.likelihood, model.prior.gram(data.X), data, start)[1]
    sites = found.sites
    return sites if model.likelihood.log_concave else sites.scaled(_SOFTER), found.code


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
        density = new_rows.log_density(settings, key_predict, target, here, state, test[0], test[1], draws, _THIN)
        return (*estimate, target.ref.jitter, density)

    return lax.map(point, points, batch_size=batch)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PointBlocks:
    """Computes a block of points, or takes it from the journal if an earlier run finished it.

    `sizes` are the sizes that a block is filled up to, the largest first; `batch` points run in one batch.
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
        """Those of the path's method; where it does not settle, those of the next method that does.

        From an approximation that is far from the posterior the chains may never reach it, and then both directions
        agree on a wrong number.
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
        def compute(filled: np.ndarray, batch: int) -> dict[str, Any]:
            return _sites(path, self.trainable, batch, self.model, self.data, jnp.asarray(self.vectors[filled]))

        block = self.sizes[0]
        pieces = [self._stored(f"{path} sites", index[at : at + block], compute) for at in range(0, len(index), block)]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    def estimates(self, index: np.ndarray, sites: Sites, length: int) -> Arrays:
        """The fields of `Points`, except `tight`, of the points numbered `index`, with `length` temperatures."""

        def compute(filled: np.ndarray, batch: int) -> dict[str, Any]:
            points = (self.vectors[filled], filled, Sites(sites.nat1[filled], sites.prec[filled]))
            counts = (length, min(self.settings.pilot, length), self.draws)
            columns = _anneal(
                self.settings, self.trainable, batch, self.model, self.data, self.test,
                jax.tree.map(jnp.asarray, points), self.seed, counts,
            )  # fmt: skip
            return {**dict(zip(_COLUMNS, columns, strict=True)), "steps": np.full(len(filled), length)}

        return self._stored(f"T={length}", index, compute)

    def _stored(self, kind: str, index: np.ndarray, compute: Compute) -> Arrays:
        name = f"{kind} {digest_of(index, self.vectors[index])}"
        if self.journal is not None and name in self.journal.pieces:
            return self.journal.pieces[name]
        full = next(size for size in reversed(self.sizes) if size >= len(index))
        filled = np.concatenate([index, np.repeat(index[-1:], full - len(index))])
        found = {k: np.asarray(v)[: len(index)] for k, v in compute(filled, min(self.batch, full)).items()}
        return found if self.journal is None else self.journal.add(name, found)
