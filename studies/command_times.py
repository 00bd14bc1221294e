"""Measure the CPU time of commands that people run first: compare, fit from the shell, demo, scikit-learn's checks.

    python studies/command_times.py [NAME …] [--label TEXT]     results/fit-times/commands.jsonl, one line per command

Every command runs in a process of its own with one BLAS thread; CPU seconds include imports and child processes.  The
tables are simulated: 500 rows of 6 columns, and 2 400 rows of 15 columns, some of them categories, such as HMDA's.
"fit" and the first fits have one kernel (`shrunk`), the other commands their defaults.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

OUT = Path(__file__).resolve().parents[1] / "results" / "fit-times" / "commands.jsonl"
AIMS = {"compare": 12, "fit": 40, "demo": None, "check_estimator": None, "first fit": 3.0, "next first fit": 1.8}
CHECKS = """
from sklearn.utils.estimator_checks import check_estimator
from sitewise import GPClassifier
check_estimator(GPClassifier())
"""
FIRST_FIT = """
import numpy as np
from sitewise import GPClassifier
rng = np.random.default_rng(0)
X = rng.normal(size=(100, 4))
GPClassifier("shrunk").fit(X, X[:, 0] + rng.normal(size=100) > 0)
"""


def write_table(path: Path, rows: int, numbers: int, categories: int) -> None:
    """Write columns of numbers and of categories, and a target of two classes that depends on some of them."""
    rng = np.random.default_rng(0)
    X, levels = rng.normal(size=(rows, numbers)), rng.integers(0, 3, size=(rows, categories))
    f = np.sin(X[:, 0]) + X[:, 1] - 0.5 * X[:, 2] - 1.5 + (0.5 * levels[:, 0] if categories else 0.0)
    labels = np.where(f + rng.normal(size=rows) > 0, "yes", "no")
    names = [f"x{k}" for k in range(numbers)] + [f"c{k}" for k in range(categories)]
    with path.open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow([*names, "deny"])
        for x, c, y in zip(X, levels, labels, strict=True):
            write.writerow([*(f"{v:.6g}" for v in x), *("abc"[k] for k in c), y])


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the commands by name; their files are in `folder`."""
    small, large = folder / "small.csv", folder / "large.csv"
    write_table(small, 500, 6, 0)
    write_table(large, 2_400, 10, 5)
    shell = [sys.executable, "-m", "sitewise"]
    end = ["--target", "deny"]
    return {
        "compare": [*shell, "compare", str(small), *end, "--positive", "yes", "--out", str(folder / "compare.html")],
        "fit": [
            *shell,
            "fit",
            str(large),
            *end,
            "--kernel",
            "shrunk",
            "--inducing",
            "auto",
            "--out",
            str(folder / "model.sitewise"),
        ],
        "demo": [*shell, "demo", "--out", str(folder / "demo.png")],
        "check_estimator": [sys.executable, "-c", CHECKS],
        "first fit": [sys.executable, "-c", FIRST_FIT],
        "next first fit": [sys.executable, "-c", FIRST_FIT],
    }


def measure(name: str, command: list[str], cache: str) -> dict[str, object]:
    """Run one command; its cache of compiled programs is empty but for "next first fit"."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    here = os.environ | threads | {"SITEWISE_CACHE": cache, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=here, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = {"command": name, "cpu_s": round(seconds, 2), "clock_s": round(time.monotonic() - begun, 2)}
    if done.returncode:
        found["error"] = (done.stderr or done.stdout)[-400:]
    return found | ({} if AIMS[name] is None else {"aim_s": AIMS[name]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(AIMS)}; without a name, all")
    parser.add_argument("--label", default="now")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, given.out.open("a") as file:
        for name, command in commands(Path(folder)).items():
            if not given.names or name in given.names:
                line = {"label": given.label} | measure(name, command, f"{folder}/{name.removeprefix('next ')}")
                file.write(json.dumps(line) + "\n")
                file.flush()
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
