"""Train the tasks of one group in one program; rows leave as their fits end, and unfinished fits survive a kill."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sitewise.data import Data, bucket
from sitewise.learning.fit import Fit
from sitewise.learning.vem import VEM
from sitewise.model import Model
from sitewise.process.precision import working_precision
from sitewise.types import replace
from sitewise_icml2023 import dense_sites, protocols, tasks, variants, vem_batches
from sitewise_icml2023.registry import DataSet
from sitewise_icml2023.tasks import Task

Row = dict[str, Any]
Loaded = tuple[DataSet, protocols.Fold]
SAVE_EVERY = 45.0  # seconds between two savings of the unfinished fits of a group
ROW_THREADS = 4  # which predict on the CPU while the accelerator trains


def run_together(group: Sequence[Task], folder: Path | None = None) -> Iterator[tuple[Task, Row]]:
    """Yield the rows of tasks of one `tasks.group`, trained in one program where the method can.

    Algorithm 1 saves its unfinished fits in `folder` and continues from there.
    """
    with ThreadPoolExecutor(ROW_THREADS) as pool:
        loaded = list(pool.map(tasks.load, group))
        shared = isinstance(tasks.group(group[0])[0], int)  # a program for sets of several widths
        parts = [(tasks.widened(rows.X) if shared else rows.X, rows.y) for _, rows in loaded]
        first, record = group[0], loaded[0][0]
        if variants.is_batched_vem(first.method):
            yield from _streamed(group, loaded, parts, pool, folder)
            return
        wall, cpu = time.perf_counter(), time.process_time()
        method = variants.parse(first.method)
        if method.learner in variants.DENSE:
            found = dense_sites.rows_of(method.learner, method.inducing, [rows for _, rows in loaded])
            spent = (time.perf_counter() - wall) / len(group), (time.process_time() - cpu) / len(group)
            for task, (_, rows), each in zip(group, loaded, found, strict=True):
                yield task, {**tasks.raw_row(task, rows, each, *spent), "together": len(group)}
            return
        fits = variants.fit_many(first.method, record.kind, record.name, parts)
        if fits is None:
            for task in group:
                yield task, tasks.run(task)
            return
        wall, cpu = (time.perf_counter() - wall) / len(group), (time.process_time() - cpu) / len(group)

        def row(task: Task, one: Loaded, fit: Fit) -> Row:
            return {**tasks.row_of(task, *one, _narrowed(fit, one[1]), wall, cpu), "together": len(group)}

        yield from zip(group, pool.map(row, group, loaded, fits), strict=True)


def _narrowed(fit: Fit, rows: protocols.Fold) -> Fit:
    """Return the fit of a widened table without the columns of zeros."""
    kernel: Any = fit.model.prior.kernel
    if np.ndim(kernel.lengthscale):
        kernel = replace(kernel, lengthscale=kernel.lengthscale[: rows.X.shape[1]])
    model = replace(fit.model, prior=replace(fit.model.prior, kernel=kernel))
    return dataclasses.replace(fit, model=model, data=Data.of(rows.X, rows.y))


def _streamed(
    group: Sequence[Task],
    loaded: Sequence[Loaded],
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    pool: ThreadPoolExecutor,
    folder: Path | None,
) -> Iterator[tuple[Task, Row]]:
    """Yield rows of Algorithm 1 while other parts are trained."""
    first, record = group[0], loaded[0][0]
    method = variants.parse(first.method)
    models = [variants.model(method, record.kind, X) for X, _ in parts]
    learner = variants.learner(method, record.kind, record.name)
    assert isinstance(learner, VEM)
    data = [Data.of(X, y) for X, y in parts]
    kept = None if folder is None else Unfinished(folder, group, learner, models, data)
    pending: dict[Future[Row], Task] = {}

    def row(number: int, batch: vem_batches.Batch | vem_batches.OneByOne) -> Row:
        task, one = group[number], loaded[number]
        fit = _narrowed(batch.fit(number), one[1])
        return {**tasks.row_of(task, *one, fit, batch.seconds[number], batch.seconds[number]), "together": len(group)}

    resumed = {} if kept is None else kept.load()
    for batch, ended in vem_batches.train(learner, models, data, resumed=resumed):
        for number in ended:
            pending[pool.submit(row, number, batch)] = group[number]
        for future in [future for future in pending if future.done()]:
            yield pending.pop(future), future.result()
        if kept is not None:
            kept.save(batch)
    for future, task in pending.items():
        yield task, future.result()
    if kept is not None:
        kept.path.unlink(missing_ok=True)


def file_of(task: Task) -> str:
    """Return the name of the file with the unfinished fits of the group of a task; it changes with the group."""
    return hashlib.sha256(repr(tasks.group(task)).encode()).hexdigest()[:12] + ".npz"


class Unfinished:
    """The file with the unfinished fits of a group: arrays, without padding."""

    def __init__(
        self, folder: Path, group: Sequence[Task], learner: VEM, models: Sequence[Model], data: Sequence[Data]
    ) -> None:
        self.path, self.group, self.data = folder / file_of(group[0]), group, data
        self.size = bucket(max(part.rows for part in data))
        with working_precision():
            self.like = vem_batches.start_of(learner, models[0], data[0].to_bucket(self.size))
        self.saved_at = time.monotonic()

    def save(self, batch: vem_batches.Batch | vem_batches.OneByOne) -> None:
        """Save the running fits if the last time was long ago."""
        if time.monotonic() - self.saved_at < SAVE_EVERY:
            return
        arrays: dict[str, Any] = {}
        for number, saved in batch.saved().items():
            rows, sites = self.data[number].rows, saved.state.sites
            short = saved._replace(state=saved.state._replace(sites=jax.tree.map(lambda a: a[:rows], sites)))  # noqa: B023
            arrays |= {f"{self._key(number)}/{i}": leaf for i, leaf in enumerate(jax.tree.leaves(short))}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".new.npz")
        np.savez_compressed(beside, **arrays)
        os.replace(beside, self.path)
        self.saved_at = time.monotonic()

    def load(self) -> dict[int, vem_batches.Saved]:
        """Return the fits that were saved, for the program of this group."""
        if not self.path.is_file():
            return {}
        leaves, structure = jax.tree.flatten(self.like)
        out = {}
        with np.load(self.path, allow_pickle=False) as file:
            for number in range(len(self.group)):
                names = [f"{self._key(number)}/{i}" for i in range(len(leaves))]
                if all(name in file for name in names):
                    out[number] = jax.tree.unflatten(structure, map(_padded, map(file.get, names), leaves))
        return out

    def _key(self, number: int) -> str:
        return "/".join(map(str, self.group[number].key))


def _padded(found: np.ndarray, like: np.ndarray) -> np.ndarray:
    widths = [(0, want - has) for want, has in zip(np.shape(like), found.shape, strict=True)]
    return np.pad(found, widths) if widths else found
