"""One fold sampled until its chains pass, and many folds at once, for the columns of MCMC in Tables 1 and 2."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sitewise import Data, Model
from sitewise.mcmc import sample
from sitewise_icml2023.pool import Pool
from sitewise_icml2023.protocols import Fold

RHAT, ESS = 1.05, 200  # what the chains of a fold must reach
LONGER = 3  # times as many draws, at another seed, where they do not
ATTEMPTS = 3
PREDICT_FROM = 500  # draws
Row = dict[str, Any]


def sampled(model: Model, rows: Fold, draws: int, least: float = -np.inf) -> Row:
    """Mean test log density and diagnostics of the last attempt, and what each attempt came to.

    No log density counts as less than `least`.
    """
    start, attempts = time.perf_counter(), []
    for attempt in range(ATTEMPTS):
        samples = sample(model, Data.of(rows.X, rows.y), draws=draws * LONGER**attempt, warmup=10, seed=42 + attempt)
        found = samples.diagnostics()
        attempts.append({
            "draws": samples.vectors.shape[1], "rhat": max(d["rhat"] for d in found.values()),
            "ess": min(d["bulk_ess"] for d in found.values()), "accepted": round(float(samples.accepted.mean()), 3),
        })  # fmt: skip
        if attempts[-1]["rhat"] <= RHAT and attempts[-1]["ess"] >= ESS:
            break
    density = samples.log_density(rows.X_test, rows.y_test, draws=PREDICT_FROM)
    return {
        "n": len(rows.y), "test_loglik": float(np.mean(np.maximum(density, least))),
        **{key: attempts[-1][key] for key in ("rhat", "ess", "draws", "accepted")},
        "chains": samples.vectors.shape[0], "at_bound": list(samples.at_bound),
        "attempts": attempts, "theta": {name: [d["mean"], d["sd"]] for name, d in found.items()},
        "seconds": round(time.perf_counter() - start, 1),
    }  # fmt: skip


def stored(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def all_of(function: Callable[[Any], Row], tasks: Sequence[Any], jobs: int, out: Path) -> None:
    """Rows function(task), in `jobs` processes of one thread, appended to `out` as they come; errors are printed."""
    out.parent.mkdir(parents=True, exist_ok=True)
    waiting = list(tasks)

    def keep(outcomes: Iterable[tuple[Any, Any]]) -> None:
        for task, outcome in outcomes:
            if isinstance(outcome, dict):
                with out.open("a") as file:
                    file.write(json.dumps(outcome) + "\n")
                outcome = {k: v for k, v in outcome.items() if k not in ("attempts", "theta")}
            print(task, outcome, flush=True)

    pool = Pool(function, min(jobs, max(len(waiting), 1)), {"JAX_PLATFORMS": "cpu"})
    try:
        while waiting or len(pool.idle()) < len(pool.workers):
            for slot in pool.idle():
                if waiting:
                    pool.submit(slot, waiting.pop(0))
            keep((task, outcome) for _, task, outcome in pool.wait())
    finally:
        pool.close()
