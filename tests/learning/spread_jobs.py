"""Jobs for test_spread.py, each in processes of its own: python spread_jobs.py JOB FOLDER [INDEX ADDRESS].

A job prints what it has found as one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sitewise import VI, Data, Model, Nested, evidence, kernels, likelihoods
from sitewise.arrays.spread import is_spread, whole
from sitewise.errors import UserError
from sitewise.learning.problem import Problem
from sitewise.methods import resolve
from sitewise.parameters import values
from sitewise.process.precision import working_precision

ROWS, CUT = 59, 23  # rows, and those of the first process where each has its own


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    return X, np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 1.5 * rng.normal(size=ROWS) > 0, 1.0, -1.0)


def model(kind: Any = Model.sparse) -> Model:
    X, _ = table()
    more = {"Z": X[:6], "keep": 0, "block": 6 * 20} if kind is Model.sparse else {}
    return kind(kernels.Matern52(), likelihoods.BernoulliProbit(), **more)


def learner() -> Nested:
    found = resolve("hybrid")
    assert isinstance(found, Nested)
    return found


def theta(fit: Any) -> list[float]:
    return np.concatenate([np.ravel(v) for v in values(fit.model).values()]).tolist()


def found_with(data: Data, **settings: Any) -> dict[str, Any]:
    """Value, gradient and sites at the start, and everything that a fit has found, as lists."""
    counted = np.flatnonzero(whole(data.weight) > 0)
    with working_precision():
        problem = Problem.of(learner(), model(), data, size=ROWS)
        first = problem.evaluate(problem.start, problem.first_sites)
        assert is_spread(first.solution.sites) == is_spread(data)
    fit = learner().fit(model(), data, **settings)
    found = {
        "value": float(first.value),
        "gradient": np.asarray(first.gradient).tolist(),
        "sites": np.asarray(whole(first.solution.sites))[:, counted].tolist(),
        "theta": theta(fit),
        "learned": np.asarray(fit.sites)[:, counted].tolist(),
        "objective": fit.objective,
        "probability": np.asarray(fit.posterior().probability(table()[0][:5])).tolist(),
        "converged": fit.converged,
        "rows": fit.weight,
    }
    if jax.process_count() == 1:  # one program less to compile
        found["evidence"] = float(evidence.ep(fit.model, data, fit.sites))
    return found


def one(folder: Path) -> Any:
    return found_with(Data.of(*table()))


def devices(folder: Path) -> Any:
    """On four devices; what cannot be done there says so."""
    data = Data.of(*table()).shard()
    assert len(data.X.sharding.device_set) == 4 and data.rows == ROWS + 1
    refused = []
    for attempt in (
        lambda: Data.of(*table()).shard(4),  # type: ignore[arg-type]
        lambda: VI().solve(model(Model.full), data),
    ):
        try:
            attempt()
        except ValueError as problem:
            refused.append(str(problem))
    return {**found_with(data), "refused": refused}


def own_rows() -> Data:
    X, y = table()
    mine = slice(CUT, None) if jax.process_index() else slice(0, CUT)
    return Data.of(X[mine], y[mine]).shard(parts=True)


def processes(folder: Path) -> Any:
    """In two processes, each of which has its own rows."""
    assert own_rows().rows == 2 * (ROWS - CUT)
    threads = os.environ.pop("PJRT_NPROC")
    try:
        own_rows()
        raise AssertionError("several threads are to be refused")
    except UserError as problem:
        assert "PJRT_NPROC=1" in str(problem)
    os.environ["PJRT_NPROC"] = threads
    same = whole(Data.of(*table()).shard())  # of those that have the same
    assert np.array_equal(same.X[:ROWS], table()[0]) and np.array_equal(same.y[:ROWS], table()[1])
    return found_with(own_rows(), checkpoint=folder / "unused")


def killed(folder: Path) -> Any:
    """The second process ends in the middle of learning."""
    seen = 0

    def leave(_: dict[str, Any]) -> None:
        nonlocal seen
        seen += 1
        if seen == 4 and jax.process_index() == 1:
            os._exit(9)

    learner().fit(model(), own_rows(), callback=leave, checkpoint=folder / "fit")


def resumed(folder: Path) -> Any:
    """The fit that `killed` left, in one process."""
    seen: list[float] = []
    fit = learner().fit(
        model(), Data.of(*table()), callback=lambda entry: seen.append(entry["objective"]), checkpoint=folder / "fit"
    )
    return {"theta": theta(fit), "learned": np.asarray(fit.sites).tolist(), "new": len(seen), "all": len(fit.trace)}


if __name__ == "__main__":
    job, place, *member = sys.argv[1:]
    if member:
        jax.distributed.initialize(
            member[1], 2, int(member[0]), heartbeat_timeout_seconds=10, shutdown_timeout_seconds=10
        )
    print(json.dumps(globals()[job](Path(place))), flush=True)
