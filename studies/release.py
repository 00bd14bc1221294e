"""Compare a release with the one before: sizes, waits, default fits and their held-out predictions.

    python studies/release.py --before OLD [--label 0.2.0]     results/release/README.md and numbers.json

OLD is a checkout of the earlier release (`git worktree add --detach OLD fc7767c4` for 0.2.0).  Every wait is a process
of its own with one BLAS thread, and the two versions take turns; CPU seconds include imports and compilation.  Fits are
of simulated tables of ten columns, three of which matter, after a first fit of another table; log loss is per held-out
row.  Tests are counted by `pytest --collect-only`.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from command_times import write_table

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "release"
FIRST_FIT = """
import numpy as np
from sitewise import GPClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(100, 4))
GPClassifier().fit(X, X[:, 0] + rng.normal(size=100) > 0)
"""
DEFAULT_FIT = """
import json, sys, time, warnings
import numpy as np
from sitewise import GPClassifier, GPRegressor
warnings.simplefilter("ignore")
kind, rows = sys.argv[1], int(sys.argv[2])
def table(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    f = 2 * np.sin(X[:, 0]) + X[:, 1] - 0.5 * X[:, 2]
    if kind == "counts":
        return X, rng.poisson(np.exp(0.5 * f)).astype(float)
    f = f + rng.normal(size=n)
    return X, (f > 0).astype(int) if kind == "two classes" else np.digitize(f, [-1.0, 1.0])
model = GPRegressor(likelihood="poisson") if kind == "counts" else GPClassifier()
model.fit(*table(60, 100))
X, y = table(rows, 0)
begun = time.process_time()
model.fit(X, y)
seconds = time.process_time() - begun
X, y = table(2000, 1)
if kind == "counts":
    loss = -float(np.mean(model.log_predictive_density(X, y)))
else:
    loss = -float(np.mean(np.log(model.predict_proba(X)[np.arange(len(y)), y])))
print(json.dumps({"cpu_s": seconds, "log_loss": loss}))
"""
FITS = [("two classes", 105), ("two classes", 300), ("two classes", 1000), ("three classes", 300), ("counts", 1000)]


def sizes(tree: Path) -> dict[str, str]:
    """Return files and lines of the library, of its tests and of the pages, and the number of tests."""
    found = {}
    for name, folder, ending in (("library", "src", ".py"), ("tests", "tests", ".py"), ("pages", "docs", ".md")):
        files = list((tree / folder).rglob(f"*{ending}"))
        lines = sum(len(path.read_text().splitlines()) for path in files)
        found[f"{name}: files / lines"] = f"{len(files)} / {lines:,}".replace(",", " ")
    command = [sys.executable, "-m", "pytest", "--collect-only", "tests", "papers/icml2023/tests"]
    collected = subprocess.run(command, cwd=tree, env=environment(tree, ""), capture_output=True, text=True)
    found["number of tests"] = str(sum("::" in line for line in collected.stdout.splitlines()))
    return found


def environment(tree: Path, cache: str) -> dict[str, str]:
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    paths = f"{tree}/src{os.pathsep}{tree}/papers/icml2023/src"
    return os.environ | threads | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu", "SITEWISE_CACHE": cache}


def wait(command: list[str], tree: Path, cache: str) -> str:
    """Return CPU and wall-clock seconds of a command."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, env=environment(tree, cache), cwd=cache, capture_output=True, text=True)
    clock, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr or done.stdout)
    return f"{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.1f} / {clock:.1f}"


def waits(tree: Path, cache: str) -> dict[str, Callable[[], str]]:
    """Return the measurements of one version by name; the caches are in a folder of its own."""
    write_table(Path(cache) / "table.csv", 500, 6, 0)
    shell = [sys.executable, "-m", "sitewise"]
    compare = [*shell, "compare", "table.csv", "--target", "deny", "--positive", "yes", "--out", "compare.html"]
    commands = {
        "import sitewise": [sys.executable, "-c", "import sitewise"],
        "first default fit, 100 rows, nothing cached": [sys.executable, "-c", FIRST_FIT],
        "the same in the next process": [sys.executable, "-c", FIRST_FIT],
        "`sitewise --help`": [*shell, "--help"],
        "`sitewise compare`, 500 rows": compare,
        "`sitewise demo`": [*shell, "demo", "--out", "demo.png"],
    }
    found: dict[str, Callable[[], str]] = {
        f"{name}, CPU s / s": functools.partial(wait, command, tree, cache) for name, command in commands.items()
    }
    for kind, rows in FITS:
        found[f"default fit, {kind}, {rows} rows, CPU s (log loss)"] = functools.partial(fit, kind, rows, tree, cache)
    return found


def fit(kind: str, rows: int, tree: Path, cache: str) -> str:
    """Return CPU seconds of a default fit and its log loss on held-out rows."""
    command = [sys.executable, "-c", DEFAULT_FIT, kind, str(rows)]
    done = subprocess.run(command, env=environment(tree, cache), cwd=cache, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    line = json.loads(done.stdout.splitlines()[-1])
    return f"{line['cpu_s']:.1f} ({line['log_loss']:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="checkout of the earlier release")
    parser.add_argument("--label", default="0.2.0", help="its version")
    given = parser.parse_args()
    trees = {given.label: given.before.resolve(), "this version": ROOT}
    found = {label: sizes(tree) for label, tree in trees.items()}
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
        pairs = [waits(tree, folder) for tree, folder in zip(trees.values(), (old, new), strict=True)]
        for name in pairs[0]:
            for label, measures in zip(trees, pairs, strict=True):
                found[label][name] = measures[name]()
                print(label, name, found[label][name], flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    found = {"commit": commit.stdout.strip(), "load": f"{os.getloadavg()[0]:.1f}", **found}
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "numbers.json").write_text(json.dumps(found, indent=1) + "\n")
    (OUT / "README.md").write_text(page(found))


def page(found: dict[str, Any]) -> str:
    """Return the page of the numbers of both versions."""
    labels = [label for label in found if label not in ("commit", "load")]
    rows = "\n".join(f"| {name} | {' | '.join(found[label][name] for label in labels)} |" for name in found[labels[0]])
    return f"""# What changed between releases: sizes, waits and default fits

Made by `python studies/release.py --before OLD`, which says what is measured; commit {found["commit"]}, two cores, load
{found["load"]} at the end. Log loss is per held-out row, in nats. The default fit of {labels[0]} has one kernel, the
default fit of this version averages four.

| | {" | ".join(labels)} |
|---|{"---|" * len(labels)}
{rows}
"""


if __name__ == "__main__":
    main()
