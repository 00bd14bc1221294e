"""Compare groups, additive effects and pairwise comparisons with other libraries by hold-out log probabilities.

    python studies/structure_peers.py [--environments .peers] [--seeds 5] [--task groups]

groups    300 rows of 3 columns in 30 groups, f = 1.2 sin(1.5 x₁) + 0.6 x₂ + u_g, u_g ~ N(0, 1), labels by a probit; the
          200 test rows are of these groups and of 15 new groups
additive  300 rows of 6 columns, f = 1.5 sin(1.5 x₁) + x₂ + x₁x₃ + 0.5 (x₄² − 1), labels by a probit, 300 test rows; and
          two tables of UCI data (pima, blood) in halves, if SITEWISE_DATA names their folder
duels     40 items of 3 columns, utility sin(2 x₁) + x₂ − 0.5 x₃², 250 comparisons by a probit, 250 test comparisons

Each competitor runs in the environment of `benchmarks/peers.toml` (`structures`, `botorch`), with one thread and 300
seconds.  All settings are defaults except those in `structure_contestants.py`.  results/structures/peers.json has one
entry per competitor, task and seed (stored entries are kept), README.md the means.  The error is the standard error of
the mean over all test rows of all seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
from environments import CannotInstall, python_of

OUT = ROOT / "results" / "structures"
LIMIT = 300  # seconds
ENVIRONMENT = {"gpboost": "structures", "statsmodels": "structures", "ebm": "structures", "pygam": "structures",
               "choix": "structures", "botorch": "botorch"}  # fmt: skip
TASKS = {
    "groups": (
        "sitewise groups",
        "sitewise groups, additive",
        "sitewise",
        "gpboost linear",
        "gpboost trees",
        "statsmodels",
    ),
    "additive": ("sitewise additive", "sitewise", "ebm", "pygam"),
    "pima": ("sitewise additive", "sitewise", "ebm", "pygam"),
    "blood": ("sitewise additive", "sitewise", "ebm", "pygam"),
    "duels": ("sitewise duels", "sitewise duels, ard", "choix", "botorch"),
}


def groups(rng: np.random.Generator) -> dict[str, np.ndarray]:
    X, u = rng.uniform(-2, 2, size=(500, 3)), rng.normal(size=45)
    group = np.concatenate([rng.integers(30, size=300), rng.integers(45, size=200)])
    y = 1.2 * np.sin(1.5 * X[:, 0]) + 0.6 * X[:, 1] + u[group] + rng.normal(size=500) > 0
    return _halves({"X": X, "group": group, "y": y.astype(int)}, 300)


def additive(rng: np.random.Generator) -> dict[str, np.ndarray]:
    X = rng.uniform(-2, 2, size=(600, 6))
    f = 1.5 * np.sin(1.5 * X[:, 0]) + X[:, 1] + X[:, 0] * X[:, 2] + 0.5 * (X[:, 3] ** 2 - 1)
    return _halves({"X": X, "y": (f + rng.normal(size=600) > 0).astype(int)}, 300)


def duels(rng: np.random.Generator) -> dict[str, np.ndarray]:
    items = rng.uniform(-2, 2, size=(40, 3))
    u = np.sin(2 * items[:, 0]) + items[:, 1] - 0.5 * items[:, 2] ** 2
    both = np.array([rng.choice(40, 2, replace=False) for _ in range(500)])
    y = (u[both[:, 0]] - u[both[:, 1]] + np.sqrt(2) * rng.normal(size=500) > 0).astype(int)
    return {"items": items, **_halves({"first": both[:, 0], "second": both[:, 1], "y": y}, 250)}


def table(name: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """A table of UCI data, whose first column counts the rows and whose last is the label."""
    rows = np.genfromtxt(Path(os.environ["SITEWISE_DATA"]) / "classification" / f"{name}.csv", delimiter=",")
    rows = rng.permutation(rows[~np.any(np.isnan(rows), axis=1)])
    labels = np.unique(rows[:, -1])
    return _halves({"X": rows[:, 1:-1], "y": (rows[:, -1] == labels[1]).astype(int)}, len(rows) // 2)


def _halves(arrays: dict[str, np.ndarray], train: int) -> dict[str, np.ndarray]:
    return {key: a[:train] for key, a in arrays.items()} | {f"{key}_test": a[train:] for key, a in arrays.items()}


def problem(task: str, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([seed, list(TASKS).index(task)])
    made = {"groups": groups, "additive": additive, "duels": duels}
    return made[task](rng) if task in made else table(task, rng)


def run(contestant: str, given: dict[str, np.ndarray], environments: Path) -> dict[str, Any]:
    """Log probabilities and seconds, or why there are none."""
    library = contestant.partition(" ")[0]
    try:
        python = sys.executable if library == "sitewise" else str(python_of(ENVIRONMENT[library], environments))
    except CannotInstall as problem:
        return {"failed": str(problem)}
    with tempfile.TemporaryDirectory() as folder:
        problem_file, result = Path(folder) / "problem.npz", Path(folder) / "result.json"
        np.savez(problem_file, **given)
        one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
        command = [python, str(ROOT / "studies" / "structure_contestants.py"), contestant, problem_file, result]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, **one}, check=False
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"more than {LIMIT} seconds"}
        if done.returncode:
            return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
        found = json.loads(result.read_text())
    logs = np.array(found["log"])
    return {"sum": logs.sum(), "squares": (logs**2).sum(), "rows": len(logs), "seconds": found["seconds"]}


def summary(found: dict[str, dict[str, Any]]) -> str:
    out = []
    for task, contestants in TASKS.items():
        lines = []
        for name in contestants:
            all_runs = [value for key, value in found.items() if key.startswith(f"{task}/{name}/")]
            runs = [one for one in all_runs if "failed" not in one]
            failures = {one["failed"] for one in all_runs if "failed" in one}
            if not all_runs:
                continue
            if not runs:
                lines.append(f"| {name} | – | – | {len(all_runs)}: {'; '.join(sorted(failures))} |")
                continue
            rows = sum(one["rows"] for one in runs)
            mean = sum(one["sum"] for one in runs) / rows
            error = np.sqrt((sum(one["squares"] for one in runs) / rows - mean**2) / rows)
            seconds = np.median([one["seconds"] for one in runs])
            failed = f"{len(all_runs) - len(runs)}: {'; '.join(sorted(failures))}" if failures else "0"
            lines.append(f"| {name} | {mean:.4f} ± {error:.4f} | {seconds:.1f} | {failed} |".replace("-", "−", 1))
        if lines:
            head = f"## {task}\n\n| | log probability per test row | seconds | failures |\n|---|---|---|---|"
            out.append("\n".join([head, *lines]))
    return "\n\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=Path, default=ROOT / ".peers")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--task", choices=TASKS)
    given = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / "peers.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    data = "SITEWISE_DATA" in os.environ
    for seed in range(given.seeds):
        for task, contestants in TASKS.items():
            if given.task not in (None, task) or (task in ("pima", "blood") and not data):
                continue
            rows = problem(task, seed)
            for name in contestants:
                key = f"{task}/{name}/{seed}"
                if key not in found:
                    found[key] = run(name, rows, given.environments)
                    print(key, found[key], flush=True)
                    path.write_text(json.dumps(found, indent=0) + "\n")
    (OUT / "README.md").write_text(
        "# Groups, additive effects and pairwise comparisons: comparison with other libraries\n\nHold-out log "
        "probability per row (larger is better) with the standard error of the mean over all test rows, and the "
        "median seconds of fit and prediction in a new process, without imports; made by "
        "`studies/structure_peers.py`, which describes the tasks. Coverage of bands: [coverage.md](coverage.md); "
        f"choice of the priors: [trials.md](trials.md).\n\n{summary(found)}\n"
    )
    print(summary(found))


if __name__ == "__main__":
    main()
