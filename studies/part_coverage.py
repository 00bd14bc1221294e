"""Measure how often 90 % bands of the parts of a sum cover the true effects of columns and levels of groups.

    python studies/part_coverage.py [--jobs 4] [--repetitions 50] [--quick]

150 rows of three columns, uniform on (−2, 2), in 10 groups, and

    f(x, g) = 0.3 + 1.2 sin(1.5 x₁) + 0.6 x₂ + 0·x₃ + u_g,   u_g ~ N(0, 0.8²)

observed with Gaussian noise of standard deviation 0.5, as labels by a probit, or as counts of mean eᶠ.  The estimators
learn all hyperparameters, with kernel="main_effects" and groups.  The true effect of column j is f_j(v) minus the
average of f_j over the rows, and the true level of a group is u_g minus the average of u over the rows, because a
constant that all levels share cannot be separated from the offset.  Coverage is the share of 20 values per column at
which the truth lies in the 90 % band of `predict_terms`, mean ± 1.645 sd, and the share of the 10 levels within the
band of `effect(response=False)`.  The labels are also fitted with integrate=True, which averages over the
hyperparameters.  results/structures/coverage.jsonl has one line per repetition (finished repetitions are kept),
coverage.md the means with standard errors over the repetitions.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from threadpoolctl import threadpool_limits

from sitewise import GPClassifier, GPRegressor

OUT = Path(__file__).resolve().parents[1] / "results" / "structures"
KINDS = ("gaussian", "probit", "poisson", "probit, integrate=True")
ROWS, GROUPS, LEVEL, OFFSET, SPREAD, NOISE, POINTS = 150, 10, 0.9, 0.3, 0.8, 0.5, 20
PARTS = (lambda x: 1.2 * np.sin(1.5 * x), lambda x: 0.6 * x, lambda x: 0.0 * x)
NAMES = ("x0", "x1", "x2", "levels")


def draw(kind: str, seed: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The table, the last column of which names the group; y; and the true levels."""
    kind = kind.partition(",")[0]
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    X = rng.uniform(-2, 2, size=(rows, len(PARTS)))
    levels, group = SPREAD * rng.normal(size=GROUPS), rng.integers(GROUPS, size=rows)
    f = OFFSET + sum(part(X[:, j]) for j, part in enumerate(PARTS)) + levels[group]
    y = {
        "gaussian": lambda: f + NOISE * rng.normal(size=rows),
        "probit": lambda: (f + rng.normal(size=rows) > 0).astype(int),
        "poisson": lambda: rng.poisson(np.exp(f)).astype(float),
    }[kind]()
    return np.column_stack([X, group]), y, levels


def covered(kind: str, seed: int, rows: int = ROWS) -> dict[str, Any]:
    """The share of values at which the truth lies in the band, for every effect and the levels; half-widths."""
    X, y, levels = draw(kind, seed, rows)
    integrate = kind.endswith("integrate=True")
    settings: dict[str, Any] = {"kernel": "main_effects", "groups": len(PARTS), "integrate": integrate}
    model = (
        GPClassifier(**settings)
        if kind.startswith("probit")
        else GPRegressor(likelihood="gaussian" if kind == "gaussian" else "poisson", **settings)
    )
    start = time.perf_counter()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", UserWarning)  # an effect that is none may end at a bound
        model.fit(X, y)
        found: dict[str, Any] = {"kind": kind, "seed": seed, "converged": bool(model.converged_)}
        half = stats.norm.ppf(0.5 + LEVEL / 2)
        inside, width = [], []
        for j, part in enumerate(PARTS):
            table = np.repeat(X[:1], POINTS, axis=0)
            table[:, j] = grid = np.linspace(-1.9, 1.9, POINTS)
            one = model.predict_terms(table)
            mean, sd = (a[:, one.names.index(f"x{j}")] for a in (one.mean, one.sd))
            wanted = part(grid) - part(X[:, j]).mean()
            inside.append(float(np.mean(np.abs(mean - wanted) <= half * sd)))
            width.append(float(np.mean(half * sd)))
        group = X[:, -1].astype(int)
        found_levels = model.effect(len(PARTS), response=False, level=LEVEL, grid=np.arange(GROUPS), rows=rows)
        wanted = levels - levels[group].mean()
        inside.append(float(np.mean((found_levels.low <= wanted) & (wanted <= found_levels.high))))
        width.append(float(np.mean(found_levels.high - found_levels.low) / 2))
    return {**found, "inside": inside, "width": width, "seconds": round(time.perf_counter() - start, 2)}


def summary(lines: list[dict[str, Any]]) -> str:
    """A table of means over the repetitions."""
    out = [
        "| | repetitions | " + " | ".join(NAMES) + " | all | not converged | seconds per fit |",
        "|---|---|" + "---|" * (len(NAMES) + 3),
    ]
    for kind in KINDS:
        some = [line for line in lines if line["kind"] == kind]
        if not some:
            continue
        table = np.array([line["inside"] for line in some])
        table = np.column_stack([table, table.mean(axis=1)])
        error = table.std(axis=0, ddof=1) / np.sqrt(len(some)) if len(some) > 1 else np.zeros(table.shape[1])
        cells = " | ".join(f"{100 * m:.1f} ± {100 * e:.1f}" for m, e in zip(table.mean(axis=0), error, strict=True))
        failed, seconds = sum(not line["converged"] for line in some), np.median([line["seconds"] for line in some])
        out.append(f"| {kind} | {len(some)} | {cells} | {failed} | {seconds:.1f} |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="two repetitions of 60 rows, printed and not kept")
    given = parser.parse_args()
    if given.quick:
        print(summary([covered(kind, seed, 60) for kind in KINDS for seed in range(2)]))
        return
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "coverage.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    done = {(line["kind"], line["seed"]) for line in lines}
    wanted = [(k, s) for s in range(given.repetitions) for k in KINDS if (k, s) not in done]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(covered, *one) for one in wanted]):
            lines.append(future.result())
            with path.open("a") as out:
                out.write(json.dumps(lines[-1]) + "\n")
    lines.sort(key=lambda line: (KINDS.index(line["kind"]), line["seed"]))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (OUT / "coverage.md").write_text(
        "# Coverage of 90 % bands of effects and group levels\n\nIn per cent, with standard errors over the "
        "repetitions; "
        f"made by `studies/part_coverage.py`, which describes the simulation.\n\n{summary(lines)}\n"
    )
    print(summary(lines))


if __name__ == "__main__":
    main()
