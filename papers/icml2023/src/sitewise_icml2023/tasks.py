"""Tasks: (set, protocol, seed, fold, method) → one row of results."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import sitewise
from sitewise import Nested, evidence, posterior
from sitewise.data import Data, bucket
from sitewise.errors import UserError
from sitewise.learning.fit import Fit
from sitewise.likelihoods import BernoulliProbit
from sitewise.metrics import accuracy
from sitewise.process.device import on_cpu
from sitewise.process.precision import working_precision
from sitewise.types import replace
from sitewise_icml2023 import dense_sites, frozen, joint, laplace, protocols, sampled, variants
from sitewise_icml2023.registry import DataSet, get

KEY = ("set", "protocol", "seed", "fold", "method")
PRINTED = {variants.FROZEN: frozen.row, variants.SEARCHED: laplace.row, variants.JOINT: joint.row}


Theta = tuple[tuple[str, tuple[float, ...] | float], ...]


class Task(NamedTuple):
    """`folder` holds the data sets; `theta` has the names and values of the hyperparameters at which a method such as
    ep@from-hybrid starts, if they are known.  Neither is part of the task's identity."""

    set: str
    protocol: str
    seed: int
    fold: int
    method: str
    folder: Path | None = None
    theta: Theta = ()

    @property
    def key(self) -> tuple[Any, ...]:
        return self[:5]


def key_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def suite(
    sets: Iterable[str],
    rules: Iterable[str],
    seeds: Iterable[int],
    names: Iterable[str],
    folder: Path | None = None,
    folds: Sequence[int] = tuple(range(protocols.FOLDS)),
) -> list[Task]:
    """The product of sets, protocols, seeds, folds and methods; names are checked here, before anything runs."""
    sets, rules, seeds, names = list(sets), list(rules), list(seeds), list(names)
    for name in names:
        variants.parse(name)
    for rule in rules:
        protocols.protocol(rule)
    return [Task(*parts, folder) for parts in itertools.product(sets, rules, seeds, folds, names)]


def with_stored_starts(todo: Iterable[Task], rows: Mapping[tuple[Any, ...], dict[str, Any]]) -> list[Task]:
    """Return the tasks, those of methods that start from another method with its stored hyperparameters."""
    out = []
    for task in todo:
        first = variants.start_name(task.method)
        row = rows.get((*task.key[:4], first)) if first else None
        theta = {} if row is None or "error" in row else row["theta"]
        named = ((name, tuple(value) if isinstance(value, list) else value) for name, value in theta.items())
        out.append(task._replace(theta=tuple(named)))
    return out


def shape(task: Task) -> tuple[int, int]:
    """(padded training rows, features): tasks of one shape share compiled programs."""
    rules = protocols.protocol(task.protocol)
    record = get(rules.replace.get(task.set, task.set))
    return bucket(record.rows - record.rows // protocols.FOLDS), protocols.columns(record, rules)


def load(task: Task) -> tuple[DataSet, protocols.Fold]:
    return get(task.set), protocols.fold(task.set, task.protocol, task.seed, task.fold, task.folder)


def run(task: Task) -> dict[str, Any]:
    """Train and predict; return everything about the task in one flat row."""
    _drop_programs(task)
    record, rows = load(task)
    wall, cpu = time.perf_counter(), time.process_time()
    method = variants.parse(task.method)
    if method.learner in variants.DENSE:
        (found,) = dense_sites.rows_of(method.learner, method.inducing, [rows])
        return raw_row(task, rows, found, time.perf_counter() - wall, time.process_time() - cpu)
    if method.learner in (*PRINTED, variants.SAMPLED, variants.NARROW):
        if method.learner in PRINTED and record.kind != "classification":
            raise UserError(f"{method.learner} is for sets of two classes; {task.set} is of another kind.")
        model = variants.start(method, record.kind, record.name, Data.of(rows.X, rows.y), dict(task.theta))
        sample = functools.partial(sampled.row, kind=record.kind, narrow=method.learner == variants.NARROW)
        found = PRINTED.get(method.learner, sample)(model, fold=rows)
        return raw_row(task, rows, found, time.perf_counter() - wall, time.process_time() - cpu)
    fit = variants.fit(task.method, record.kind, record.name, rows.X, rows.y, dict(task.theta))
    return row_of(task, record, rows, fit, time.perf_counter() - wall, time.process_time() - cpu)


def raw_row(task: Task, rows: protocols.Fold, found: dict[str, Any], wall: float, cpu: float) -> dict[str, Any]:
    """Return the row of a method that is not a learner of the library."""
    spent = {"seconds": wall, "cpu_seconds": cpu}
    return {**dict(zip(KEY, task.key, strict=True)), "n": len(rows.y), **found, **spent, **provenance()}


SIZES = (128, 256, 512, 1024)  # sets whose rows fit below one of these are trained together
# Algorithm 1 computes for minutes what it compiles in seconds, so that padding costs more than programs do.
CLOSE_SIZES = (128, 256, 416, 512, 640, 832)
ARD_SIZES = (256, 384, 512, 576, 640, 832)
_COLUMNS = 64  # of the tables of such sets, with columns of zeros


def group(task: Task) -> tuple[Any, ...]:
    """Key of the tasks that are trained in one program.

    A full model whose kernel has one lengthscale does not depend on which set its rows come from: columns of zeros
    change no distance.  The same holds for Algorithm 1 with one lengthscale per feature.  Every further program costs
    an accelerator 10 to 20 s of compilation.
    """
    rows, columns = shape(task)
    sizes: tuple[int, ...] = SIZES
    if variants.is_batched_vem(task.method):
        sizes = ARD_SIZES if variants.parse(task.method).ard else CLOSE_SIZES
    fits = [size for size in sizes if rows <= size]
    if (
        get(task.set).kind == "classification"
        and variants.shares_programs(task.method)
        and fits
        and columns <= _COLUMNS
    ):
        return fits[0], task.protocol, task.method
    return task.set, task.protocol, task.method


def widened(X: np.ndarray) -> np.ndarray:
    return np.pad(X, [(0, 0), (0, _COLUMNS - X.shape[1])])


def row_of(task: Task, record: DataSet, rows: protocols.Fold, fit: Fit, wall: float, cpu: float) -> dict[str, Any]:
    with on_cpu(), working_precision():
        model = fit.model
        if record.kind == "regression":  # predictions by the exact rule, whatever rule the fit used
            model = replace(model, likelihood=replace(model.likelihood, quadrature=None))
        q = posterior(model, fit.data, fit.sites)
        density = np.asarray(q.log_density(rows.X_test, rows.y_test))
        if record.kind == "classification":
            density = np.clip(density, np.log(sampled.FLOOR), np.log1p(-sampled.FLOOR))
            hits: float | None = accuracy(np.asarray(q.probability(rows.X_test)), rows.y_test)
        else:
            hits = None
        evidences = fit.evidences
        more = _ep_at_theta(fit) if record.kind == "classification" and fit.method == "hybrid-vem" else {}
    return {
        **dict(zip(KEY, task.key, strict=True)),
        "n": len(rows.y),
        "test_loglik": float(density.mean()),
        "test_acc": hits,
        "objective": fit.objective,
        "evidences": evidences,
        "theta": {k: np.asarray(v).tolist() for k, v in fit.parameters.items() if np.size(v) <= 64},
        "converged": bool(fit.converged),
        "reason": fit.reason,
        "rounds": fit.rounds,
        "evaluations": len(fit.trace),
        "residual": float(fit.solution.stats.residual),
        "at_bound": list(fit.at_bound),
        "seconds": wall,
        "cpu_seconds": cpu,
        **more,
        **provenance(),
    }


def _ep_at_theta(fit: Fit) -> dict[str, float]:
    """Return the evidence at the hyperparameters of Algorithm 1, with converged sites and exact expectations."""
    model = dataclasses.replace(fit.model, likelihood=BernoulliProbit())
    at = Nested(evidence=evidence.ep, fixed=("kernel.*",)).fit(model, fit.data)
    return {"ep_at_theta": at.objective} if at.converged else {}


_last_shape: tuple[int, int] | None = None


def _drop_programs(task: Task) -> None:
    """Drop compiled programs of other shapes, which take hundreds of megabytes and are not needed again."""
    global _last_shape
    if _last_shape not in (None, shape(task)):
        jax.clear_caches()
    _last_shape = shape(task)


@functools.cache
def provenance() -> dict[str, Any]:
    """Version, commit and machine, without names of hosts or people."""
    return {
        "version": sitewise.__version__,
        "commit": _commit(Path(sitewise.__file__).parent),
        "machine": {
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "device": jax.devices()[0].device_kind,
            "python": platform.python_version(),
            "jax": jax.__version__,
        },
    }


def _commit(folder: Path) -> str | None:
    """The commit of the checkout that the package is imported from; None for an installed package."""
    if not (folder.parents[1] / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
